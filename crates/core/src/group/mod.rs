//! Groups: a log that several accounts write and read, and that its hosts cannot read.
//!
//! A group is named by a hash of its owner and a nonce, so its name says who may change it. The owner
//! signs the **roster**: who is a member, who hosts, and for each member the group key of the current
//! **epoch**, sealed to it. A member's **post** is signed by its author and sealed under the epoch's
//! key, once for all members.
//!
//! One key for all members and not one sealing for each: a post to 256 members is as large as a post
//! to one. Every change of membership that takes someone away begins a new epoch with a fresh key.
//!
//! Law (gone is gone): a key of an epoch tells nothing of the keys of others. **What a removed member
//! can still read:** every post of the epochs it had keys for, including those it has not fetched yet
//! and those that members who had not seen the new roster wrote under the old key; hosts do not serve
//! it any more, so it needs someone to hand them to it. It reads no post of an epoch that began
//! without it. A member who joins reads from its first epoch on.
//!
//! Law (authored): a post counts only with the signature of its author over the sealed bytes, so no
//! member, who all have the key, writes in another's name.
//!
//! Source: protocol decision 8 (groups).

mod error;
mod key;
mod post;
mod roster;

pub use error::GroupError;
pub use key::{GroupKey, WRAPPED_KEY_MAX_BYTES};
pub use post::{POST_BODY_MAX_BYTES, POST_MAX_BYTES, Post, PostSubject};
pub use roster::{
    GROUP_HOSTS_MAX, GROUP_MEMBERS_MAX, GroupId, Membership, ROSTER_TTL_MAX_MS, Roster,
    RosterSubject,
};
