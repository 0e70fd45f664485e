//! Bytes: strict deterministic CBOR, the markers frames begin with, and the bounds on sizes.

pub mod bounds;
pub mod cbor;
pub mod frame;
pub(crate) mod word;
