//! Who signs: accounts, the keys they delegate to, and the delegations between them.
//!
//! An **account** is long-lived and signs only delegations. A **delegatee** is a key the node makes
//! and rotates; it signs everything else. A **delegation** binds the two on one network, and both sign
//! it: the delegatee proves that it holds its key, so nobody attaches an account to a key of
//! another's.
//!
//! Law (rotation keeps the stream): what a delegatee signs belongs to its account's
//! [`Did`](crate::Did), so any number of delegations over one account feed the same streams.
//!
//! Law (one verifier): [`Verified`] is made in one place, by its value's own checks.
//!
//! Source: protocol decision 1 (identity), threats 18 and 20.

mod account;
mod delegatee;
mod delegation;
mod did_key;
mod life;
#[cfg(feature = "sim")]
mod remembered;
mod request;
mod signer;
mod statement;
#[cfg(test)]
mod vectors;
mod verified;

pub use account::{Account, AccountKey, KeyError, KeyKind};
pub use delegatee::{Delegatee, DelegateeKey, Signature};
pub use delegation::{
    DELEGATION_TTL_DEFAULT_MS, DELEGATION_TTL_MAX_MS, Delegation, DelegationDigest,
    DelegationError, DelegationReason,
};
pub use libp2p_identity::PeerId;
pub use life::{CLOCK_SKEW_MS, Life, LifeError};
#[cfg(feature = "sim")]
pub use remembered::{REMEMBERED_MAX, Remembered, remembering};
pub use request::{DelegationRequest, GrantError, NotDelegationText};
pub use signer::{OtherDelegatee, Signer};
pub use statement::{Statement, StatementError, StatementReason, Subject};
pub use verified::{Checked, Verified, VerifyContext};

pub(crate) use verified::sealed;

use crate::wire::cbor::{Encode, to_vec};

/// The 32-byte hash of `fields` in a domain of their own: what is signed is always one of these, so
/// a signature made for one purpose never verifies for another.
pub(crate) fn transcript(domain: &str, fields: &impl Encode) -> [u8; 32] {
    blake3::derive_key(domain, &to_vec(fields))
}
