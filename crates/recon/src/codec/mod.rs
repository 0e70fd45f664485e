//! The message and its bytes.
//!
//! Laws kept here: *one encoding* (what decodes encodes to the same bytes) and *total* (any input decodes or is
//! refused with one of two codes, in a fixed order of checks, in time bounded by its length).

pub(crate) mod cbor;
mod decode;
mod encode;

pub use cbor::CborFault;
pub use decode::{Content, HeaderFault, IdList, Message, Range, Refusal};
pub(crate) use encode::{Encoder, fingerprint_bytes, ids_bytes, skip_bytes};
