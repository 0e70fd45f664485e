//! The part of deterministic CBOR a message is made of: unsigned integers, byte strings, arrays and null.
//!
//! Law kept here: *one encoding*. A head is accepted only in its shortest form, and a length only when that many
//! bytes are still there, so nothing is ever allocated for a claimed length.

use alloc::vec::Vec;

/// Why bytes are not the one canonical encoding. The wire code is always `reject/noncanonical_cbor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CborFault {
    /// The input ends inside an item.
    #[error("the input ends inside an item")]
    Truncated,
    /// A head that has a shorter form.
    #[error("a head is not in its shortest form")]
    NotShortest,
    /// Additional information 28 to 31: reserved, indefinite length, or a break.
    #[error("additional information {0} is reserved or indefinite")]
    Reserved(u8),
    /// An item of another kind than the grammar has at this place.
    #[error("expected {expected}, found initial byte {found:#04x}")]
    Unexpected {
        /// What the grammar has here.
        expected: &'static str,
        /// The byte that stood there.
        found: u8,
    },
    /// A byte string or array longer than the bytes that are left.
    #[error("a length of {claimed} is more than the {left} bytes that are left")]
    TooLong {
        /// The claimed length.
        claimed: u64,
        /// Bytes left in the input.
        left: usize,
    },
    /// An array that must have a fixed number of members has another.
    #[error("an array of {found} members where {expected} are due")]
    WrongCount {
        /// Members due.
        expected: u64,
        /// Members claimed.
        found: u64,
    },
    /// A byte string that must have a fixed length has another.
    #[error("a byte string of {found} bytes where {expected} are due")]
    WrongLength {
        /// Bytes due.
        expected: usize,
        /// Bytes claimed.
        found: u64,
    },
    /// Bytes after the end of the message.
    #[error("{0} bytes follow the message")]
    Trailing(usize),
}

pub(crate) const UINT: u8 = 0;
pub(crate) const BYTES: u8 = 2;
pub(crate) const ARRAY: u8 = 4;
const NULL: u8 = 0xf6;

pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(input: &'a [u8]) -> Self {
        Self { rest: input }
    }

    pub(crate) fn uint(&mut self) -> Result<u64, CborFault> {
        self.head(UINT, "an unsigned integer")
    }

    /// An array's count, never more than the bytes that are left: every member takes at least one.
    pub(crate) fn array(&mut self) -> Result<usize, CborFault> {
        let claimed = self.head(ARRAY, "an array")?;
        self.fits(claimed)
    }

    pub(crate) fn array_of(&mut self, expected: u64) -> Result<(), CborFault> {
        let found = self.head(ARRAY, "an array")?;
        if found != expected {
            return Err(CborFault::WrongCount { expected, found });
        }
        Ok(())
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], CborFault> {
        let claimed = self.head(BYTES, "a byte string")?;
        let length = self.fits(claimed)?;
        let (bytes, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(CborFault::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(crate) fn bytes32(&mut self) -> Result<&'a [u8; 32], CborFault> {
        let claimed = self.head(BYTES, "a byte string of 32")?;
        if claimed != 32 {
            return Err(CborFault::WrongLength {
                expected: 32,
                found: claimed,
            });
        }
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(CborFault::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(crate) fn null(&mut self) -> Result<(), CborFault> {
        match self.rest.split_first() {
            None => Err(CborFault::Truncated),
            Some((&NULL, rest)) => {
                self.rest = rest;
                Ok(())
            }
            Some((&found, _)) => Err(CborFault::Unexpected {
                expected: "null",
                found,
            }),
        }
    }

    /// What is left, from here on.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn finish(&self) -> Result<(), CborFault> {
        match self.rest.len() {
            0 => Ok(()),
            more => Err(CborFault::Trailing(more)),
        }
    }

    fn fits(&self, claimed: u64) -> Result<usize, CborFault> {
        let left = self.rest.len();
        match usize::try_from(claimed) {
            Ok(length) if length <= left => Ok(length),
            _ => Err(CborFault::TooLong { claimed, left }),
        }
    }

    fn head(&mut self, major: u8, expected: &'static str) -> Result<u64, CborFault> {
        let (&initial, rest) = self.rest.split_first().ok_or(CborFault::Truncated)?;
        if initial >> 5 != major {
            return Err(CborFault::Unexpected {
                expected,
                found: initial,
            });
        }
        let (argument, rest, least) = match initial & 31 {
            small @ 0..=23 => (u64::from(small), rest, 0),
            24 => {
                let (bytes, rest) = take::<1>(rest)?;
                (u64::from(u8::from_be_bytes(bytes)), rest, 24)
            }
            25 => {
                let (bytes, rest) = take::<2>(rest)?;
                (u64::from(u16::from_be_bytes(bytes)), rest, 1 << 8)
            }
            26 => {
                let (bytes, rest) = take::<4>(rest)?;
                (u64::from(u32::from_be_bytes(bytes)), rest, 1 << 16)
            }
            27 => {
                let (bytes, rest) = take::<8>(rest)?;
                (u64::from_be_bytes(bytes), rest, 1 << 32)
            }
            reserved => return Err(CborFault::Reserved(reserved)),
        };
        if argument < least {
            return Err(CborFault::NotShortest);
        }
        self.rest = rest;
        Ok(argument)
    }
}

fn take<const N: usize>(input: &[u8]) -> Result<([u8; N], &[u8]), CborFault> {
    input
        .split_first_chunk()
        .map(|(bytes, rest)| (*bytes, rest))
        .ok_or(CborFault::Truncated)
}

pub(crate) fn put_head(out: &mut Vec<u8>, major: u8, argument: u64) {
    let tag = major << 5;
    match argument {
        0..=23 => out.push(tag | argument.to_le_bytes().first().copied().unwrap_or(0)),
        24..=0xff => {
            out.push(tag | 24);
            out.extend(
                argument
                    .to_be_bytes()
                    .last_chunk::<1>()
                    .into_iter()
                    .flatten(),
            );
        }
        0x100..=0xffff => {
            out.push(tag | 25);
            out.extend(
                argument
                    .to_be_bytes()
                    .last_chunk::<2>()
                    .into_iter()
                    .flatten(),
            );
        }
        0x1_0000..=0xffff_ffff => {
            out.push(tag | 26);
            out.extend(
                argument
                    .to_be_bytes()
                    .last_chunk::<4>()
                    .into_iter()
                    .flatten(),
            );
        }
        _ => {
            out.push(tag | 27);
            out.extend(argument.to_be_bytes());
        }
    }
}

pub(crate) fn head_bytes(argument: u64) -> usize {
    match argument {
        0..=23 => 1,
        24..=0xff => 2,
        0x100..=0xffff => 3,
        0x1_0000..=0xffff_ffff => 5,
        _ => 9,
    }
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_head(out, BYTES, u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    out.extend_from_slice(bytes);
}

pub(crate) fn put_null(out: &mut Vec<u8>) {
    out.push(NULL);
}
