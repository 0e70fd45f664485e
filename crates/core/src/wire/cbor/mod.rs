//! Strict deterministic CBOR (RFC 8949, section 4.2.1): the one form of every byte that is signed,
//! sent or stored.
//!
//! Law (one form): a reader accepts a value only if writing it again gives the same bytes, and
//! nothing follows it. So lengths are definite, heads are shortest, map keys ascend without a
//! repeat, and text is UTF-8. Tags, `undefined` and unassigned simple values have no use here and
//! are refused.
//!
//! Law (cheap refusal): a reader allocates nothing on the word of a length. A string's length is at
//! most the bytes that are left, a container's is at most the bytes that are left (every item takes
//! at least one), and containers nest at most [`DEPTH_MAX`] deep, so no input grows the stack.
//!
//! Structures are arrays in declared order, enumerations are `[tag, fields…]`, digests and keys are
//! byte strings. Source: protocol decision 0 (ground rules), threat 17.

mod error;
mod reader;
mod value;
mod values;
mod writer;

pub use error::{CborError, CborReason};
pub use reader::{Kind, Reader};
pub use value::Value;
pub use writer::Writer;

/// How deep containers may nest.
pub const DEPTH_MAX: usize = 16;

/// A value with one form as bytes.
pub trait Encode {
    /// Appends this value's one form.
    fn encode(&self, writer: &mut Writer);
}

/// A value read from its one form. It may borrow from the input.
pub trait Decode<'a>: Sized {
    /// Reads one value.
    ///
    /// # Errors
    /// What [`Encode`] would not have written.
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError>;
}

/// The one form of `value`.
pub fn to_vec(value: &(impl Encode + ?Sized)) -> Vec<u8> {
    let mut writer = Writer::new();
    value.encode(&mut writer);
    writer.into_bytes()
}

/// The value `input` is the one form of.
///
/// # Errors
/// Anything else than exactly one value in its one form.
pub fn from_slice<'a, T: Decode<'a>>(input: &'a [u8]) -> Result<T, CborError> {
    let mut reader = Reader::new(input);
    let value = T::decode(&mut reader)?;
    reader.finish()?;
    Ok(value)
}
