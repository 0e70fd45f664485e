//! Any acceptable value, for checks and diagnostics where no type is known.

use super::reader::Head;
use super::{CborError, CborReason, Decode, Encode, Reader, Writer, to_vec};

/// Any value that has one form here.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// An unsigned integer.
    Uint(u64),
    /// The negative integer `-1 - n`.
    Negative(u64),
    /// A byte string.
    Bytes(Vec<u8>),
    /// A text string.
    Text(String),
    /// An array.
    Array(Vec<Self>),
    /// A map, its keys ascending in the order of their encodings. [`Value::map`] makes one from
    /// entries in any order.
    Map(Vec<(Self, Self)>),
    /// A boolean.
    Boolean(bool),
    /// Null.
    Null,
    /// A floating-point number.
    Float(f64),
}

impl Value {
    /// A map of `entries`, which may come in any order; `None` if a key repeats.
    pub fn map(entries: Vec<(Self, Self)>) -> Option<Self> {
        let mut keyed: Vec<_> = entries
            .into_iter()
            .map(|entry| (to_vec(&entry.0), entry))
            .collect();
        keyed.sort_by(|(left, _), (right, _)| left.cmp(right));
        let repeats = keyed.windows(2).any(|pair| match pair {
            [(left, _), (right, _)] => left == right,
            _ => false,
        });
        (!repeats).then(|| Self::Map(keyed.into_iter().map(|(_, entry)| entry).collect()))
    }
}

impl Encode for Value {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Uint(value) => writer.uint(*value),
            Self::Negative(value) => writer.negative(*value),
            Self::Bytes(value) => writer.bytes(value),
            Self::Text(value) => writer.text(value),
            Self::Array(items) => writer.list(items),
            Self::Map(entries) => {
                writer.map(entries.len());
                entries.iter().fold(writer, |writer, (key, value)| {
                    writer.value(key).value(value)
                })
            }
            Self::Boolean(value) => writer.boolean(*value),
            Self::Null => writer.null(),
            Self::Float(value) => writer.float(*value),
        };
    }
}

impl<'a> Decode<'a> for Value {
    /// Recursion is bounded by the reader's depth limit.
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        Ok(match reader.head()? {
            Head::Uint(value) => Self::Uint(value),
            Head::Negative(value) => Self::Negative(value),
            Head::Bytes(length) => Self::Bytes(reader.take(length)?.to_vec()),
            Head::Text(length) => Self::Text(reader.take_text(at, length)?.to_owned()),
            Head::Array(items) => Self::Array(
                (0..items)
                    .map(|_| reader.value())
                    .collect::<Result<_, _>>()?,
            ),
            Head::Map(entries) => Self::Map(decode_entries(reader, entries)?),
            Head::False => Self::Boolean(false),
            Head::True => Self::Boolean(true),
            Head::Null => Self::Null,
            Head::Float(value) => Self::Float(value),
        })
    }
}

fn decode_entries(
    reader: &mut Reader<'_>,
    entries: usize,
) -> Result<Vec<(Value, Value)>, CborError> {
    let mut map = Vec::new();
    let mut previous: Option<&[u8]> = None;
    for _ in 0..entries {
        let at = reader.at();
        let key = Value::decode(reader)?;
        let encoded = reader.since(at);
        if previous.is_some_and(|previous| previous >= encoded) {
            let reason = CborReason::KeyOrder;
            return Err(CborError { at, reason });
        }
        previous = Some(encoded);
        map.push((key, Value::decode(reader)?));
    }
    Ok(map)
}
