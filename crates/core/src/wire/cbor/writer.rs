//! Writing: heads are the shortest, as `ciborium-ll` writes them.

use super::Encode;
use ciborium_ll::{Encoder, Header, simple};

/// The longest head: the initial byte and an eight-byte argument.
const HEAD_MAX_BYTES: usize = 9;

/// Appends items, each in its one form.
#[derive(Debug, Clone, Default)]
pub struct Writer {
    out: Vec<u8>,
}

impl Writer {
    /// A writer with nothing written.
    pub fn new() -> Self {
        Self::default()
    }

    /// A writer that appends to what `out` holds, for instance a frame marker.
    pub fn append(out: Vec<u8>) -> Self {
        Self { out }
    }

    /// What was written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    /// What was written so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.out
    }

    /// An unsigned integer.
    pub fn uint(&mut self, value: u64) -> &mut Self {
        self.counted(0, value)
    }

    /// The negative integer `-1 - value`.
    pub fn negative(&mut self, value: u64) -> &mut Self {
        self.head(Header::Negative(value))
    }

    /// A byte string.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.counted(2, value.len() as u64);
        self.out.extend_from_slice(value);
        self
    }

    /// The head of a byte string; so many bytes must follow.
    pub(crate) fn bytes_head(&mut self, length: usize) -> &mut Self {
        self.counted(2, length as u64)
    }

    /// A text string.
    pub fn text(&mut self, value: &str) -> &mut Self {
        self.head(Header::Text(Some(value.len())));
        self.out.extend_from_slice(value.as_bytes());
        self
    }

    /// The head of an array; `items` items must follow.
    pub fn array(&mut self, items: usize) -> &mut Self {
        self.counted(4, items as u64)
    }

    /// The head of a map; `entries` keys, each with its value, must follow in ascending order of the
    /// keys' encodings.
    pub fn map(&mut self, entries: usize) -> &mut Self {
        self.head(Header::Map(Some(entries)))
    }

    /// A boolean.
    pub fn boolean(&mut self, value: bool) -> &mut Self {
        self.head(Header::Simple(if value {
            simple::TRUE
        } else {
            simple::FALSE
        }))
    }

    /// Null.
    pub fn null(&mut self) -> &mut Self {
        self.head(Header::Simple(simple::NULL))
    }

    /// A floating-point number, in the shortest form that keeps its value.
    pub fn float(&mut self, value: f64) -> &mut Self {
        self.head(Header::Float(value))
    }

    /// Any value.
    pub fn value(&mut self, value: &(impl Encode + ?Sized)) -> &mut Self {
        value.encode(self);
        self
    }

    /// An array of all of `items`.
    pub fn list<T: Encode>(&mut self, items: &[T]) -> &mut Self {
        self.array(items.len());
        items.iter().for_each(|item| item.encode(self));
        self
    }

    /// The head of the items that records and frames are made of: the shortest, in one write. A test
    /// holds it against `ciborium-ll`.
    fn counted(&mut self, major: u8, argument: u64) -> &mut Self {
        let initial = major << 5;
        match argument {
            0..24 => self.out.push(initial | argument as u8),
            24..0x100 => self.out.extend_from_slice(&[initial | 24, argument as u8]),
            0x100..0x1_0000 => {
                let [high, low] = (argument as u16).to_be_bytes();
                self.out.extend_from_slice(&[initial | 25, high, low]);
            }
            0x1_0000..0x1_0000_0000 => {
                let [a, b, c, d] = (argument as u32).to_be_bytes();
                self.out.extend_from_slice(&[initial | 26, a, b, c, d]);
            }
            _ => {
                let [a, b, c, d, e, f, g, h] = argument.to_be_bytes();
                self.out
                    .extend_from_slice(&[initial | 27, a, b, c, d, e, f, g, h]);
            }
        }
        self
    }

    fn head(&mut self, header: Header) -> &mut Self {
        let mut buffer = [0; HEAD_MAX_BYTES];
        self.out
            .extend_from_slice(shortest_head(header, &mut buffer));
        self
    }
}

/// The shortest encoding of `header`.
pub(super) fn shortest_head(header: Header, buffer: &mut [u8; HEAD_MAX_BYTES]) -> &[u8] {
    let pushed = Encoder::from(buffer.as_mut_slice()).push(header);
    debug_assert!(pushed.is_ok(), "{HEAD_MAX_BYTES} bytes hold any head");
    let [initial, ..] = *buffer;
    let length = match initial & 0x1f {
        24 => 2,
        25 => 3,
        26 => 5,
        27 => 9,
        _ => 1,
    };
    buffer.split_at(length).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn law_one_form_of_the_heads_written_without_a_library() {
        let edges = [
            0,
            23,
            24,
            0xff,
            0x100,
            0xffff,
            0x1_0000,
            0xffff_ffff,
            1 << 32,
        ];
        for argument in edges.into_iter().chain([u64::MAX]) {
            let mut buffer = [0; HEAD_MAX_BYTES];
            let written = |writer: &mut Writer| writer.as_bytes().to_vec();
            let uint = written(Writer::new().uint(argument));
            assert_eq!(uint, shortest_head(Header::Positive(argument), &mut buffer));
            let items = usize::try_from(argument).unwrap();
            let array = written(Writer::new().array(items));
            let header = Header::Array(Some(items));
            assert_eq!(array, shortest_head(header, &mut buffer));
        }
        for length in [0, 23, 24, 0xff, 0x100, 0xffff, 0x1_0000] {
            let mut buffer = [0; HEAD_MAX_BYTES];
            let mut writer = Writer::new();
            writer.bytes(&vec![7; length]);
            let head = shortest_head(Header::Bytes(Some(length)), &mut buffer);
            assert_eq!(
                writer.as_bytes().strip_suffix(&vec![7; length][..]),
                Some(head)
            );
        }
    }
}
