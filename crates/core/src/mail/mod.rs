//! Mail: a transaction that waits with others for a destination that is away.
//!
//! A holder keeps the payload with its own word on when it took it, the **hold instant**, and
//! everything inside is judged as of that instant ([`HeldMail`]). The same word, without the payload,
//! is the sender's receipt ([`HoldProof`]). The destination alone removes what it took ([`Removal`]).
//!
//! Law (bounded delay): whatever instant a holder states, mail verifies only while its stream is
//! remembered. The stated instant lies within the sender's proof, so it is no later than the proof's
//! last instant; mail counts at most [`MAIL_LIFE_MAX_MS`] after it; and an application stream is
//! retained longer than both together ([`spent_ms`](crate::replay::spent_ms)). So a holder that back-dates
//! or keeps its clock wrong delays what was signed, and replays nothing.
//!
//! Law (sealed only): mail is a sealed application message of at most [`MAIL_DATA_MAX_BYTES`]; what a
//! holder keeps, it cannot read.
//!
//! Source: protocol decision 8, seed 1 (relay inbox).

mod error;
mod held;
mod hold;
mod removal;

pub use crate::replay::MAIL_LIFE_MAX_MS;
pub use error::MailError;
pub use held::{HELD_MAIL_MAX_BYTES, HeldMail, MAIL_DATA_MAX_BYTES, Mail, check_holdable};
pub use hold::{HoldProof, HoldSubject, MAIL_LIFE_DEFAULT_MS};
pub use removal::{REMOVAL_DIGESTS_MAX, Removal, RemovalSubject};
