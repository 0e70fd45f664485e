//! Transactions, the payloads that carry them, and the evidence that an origin forked its stream.
//!
//! Law (no re-attribution): a transaction's digest covers the network, the origin account and the
//! class, and its signature covers the delegation, so it verifies for one stream only.
//!
//! Law (transferable): the data enters the digest as a hash, so a [`SignedHeader`], which is all but
//! the data, is checked by anyone at any time. The header of whatever verified verifies too.
//!
//! Law (verified before use): `Verified<Payload>` comes from [`Payload::verify`] alone, after both
//! proofs, both delegations and every bound.
//!
//! Source: protocol decision 2, seed 1 "Stream and transcript". Beyond them, the class is in the
//! digest, because a third party who has no data could not tell a fork from two classes that
//! rightly used one sequence; and the delegation's digest is signed, because a renewed delegation
//! put in its place would outlive the instant at which the stream was taken for spent.

mod chunk;
mod data;
mod error;
mod fork;
mod header;
mod named;
mod payload;
mod proof;
mod verify;

pub use chunk::{Chunk, ChunkHead, Cutter};
pub use data::{Data, Message, Namespace, NamespaceTooLong};
pub use error::{Role, SignError, VerifyError};
pub use fork::{Accepted, Fork, ForkError, ForkEvidence};
pub use header::{HeaderFacts, SignedHeader};
pub(crate) use named::{NamedBy, named};
pub use payload::{Draft, HOP_BUDGET_MAX, Payload, RelayFields, Terms, Transaction};
pub use proof::{DelegationRef, PROOF_TTL_DEFAULT_MS, PROOF_TTL_MAX_MS, Proof};
pub use verify::PayloadFacts;
