//! Reading: short heads here, others through `ciborium-ll`, refused unless writing them again gives the same bytes.

use super::writer::shortest_head;
use super::{CborError, CborReason, DEPTH_MAX, Decode};
use ciborium_ll::{Decoder, Error, Header, simple};
use std::fmt;

/// The kinds of item that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An unsigned integer.
    Uint,
    /// A negative integer.
    Negative,
    /// A byte string.
    Bytes,
    /// A text string.
    Text,
    /// An array.
    Array,
    /// A map.
    Map,
    /// A boolean.
    Boolean,
    /// Null.
    Null,
    /// A floating-point number.
    Float,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uint => "an unsigned integer",
            Self::Negative => "a negative integer",
            Self::Bytes => "a byte string",
            Self::Text => "text",
            Self::Array => "an array",
            Self::Map => "a map",
            Self::Boolean => "a boolean",
            Self::Null => "null",
            Self::Float => "a floating-point number",
        })
    }
}

/// One item's head, checked.
#[derive(Debug, Clone, Copy)]
pub(super) enum Head {
    Uint(u64),
    Negative(u64),
    Bytes(usize),
    Text(usize),
    Array(usize),
    Map(usize),
    // No payload is smaller than a word: a head is read for each item, and is then passed on in words.
    False,
    True,
    Null,
    Float(f64),
}

impl Head {
    fn kind(self) -> Kind {
        match self {
            Self::Uint(_) => Kind::Uint,
            Self::Negative(_) => Kind::Negative,
            Self::Bytes(_) => Kind::Bytes,
            Self::Text(_) => Kind::Text,
            Self::Array(_) => Kind::Array,
            Self::Map(_) => Kind::Map,
            Self::False | Self::True => Kind::Boolean,
            Self::Null => Kind::Null,
            Self::Float(_) => Kind::Float,
        }
    }
}

/// Reads items from a slice, borrowing strings from it. After an error the reader's place is
/// unspecified: drop it.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    input: &'a [u8],
    at: usize,
    /// Items still to come in each open container, outermost first.
    open: [usize; DEPTH_MAX],
    depth: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the beginning of `input`.
    pub fn new(input: &'a [u8]) -> Self {
        Self {
            input,
            at: 0,
            open: [0; DEPTH_MAX],
            depth: 0,
        }
    }

    /// Offset of the next item in the input, in bytes.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The input from offset `start` up to the next item: the bytes of what was read since.
    pub fn since(&self, start: usize) -> &'a [u8] {
        self.input.get(start..self.at).unwrap_or_default()
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// Bytes follow, or an opened container was not read to its end.
    pub fn finish(self) -> Result<(), CborError> {
        if self.depth == 0 && self.at == self.input.len() {
            Ok(())
        } else {
            Err(self.refuse(CborReason::Trailing))
        }
    }

    /// The kind of the next item, which is not consumed.
    ///
    /// # Errors
    /// No acceptable head is there.
    pub fn peek(&self) -> Result<Kind, CborError> {
        Ok(self.head_here()?.0.kind())
    }

    /// An unsigned integer.
    ///
    /// # Errors
    /// Another kind, or not in its one form.
    pub fn uint(&mut self) -> Result<u64, CborError> {
        let at = self.at;
        match self.head()? {
            Head::Uint(value) => Ok(value),
            other => Err(unexpected(at, Kind::Uint, other)),
        }
    }

    /// An unsigned integer that fits in `T`.
    ///
    /// # Errors
    /// As [`Reader::uint`], or a number too large for `T`.
    pub fn uint_as<T: TryFrom<u64>>(&mut self) -> Result<T, CborError> {
        let at = self.at;
        T::try_from(self.uint()?).map_err(|_| refuse(at, CborReason::Invalid("integer: too large")))
    }

    /// An unsigned integer of at most 8 bits; errors as [`Reader::uint_as`].
    pub fn u8(&mut self) -> Result<u8, CborError> {
        self.uint_as()
    }

    /// An unsigned integer of at most 16 bits; errors as [`Reader::uint_as`].
    pub fn u16(&mut self) -> Result<u16, CborError> {
        self.uint_as()
    }

    /// An unsigned integer of at most 32 bits; errors as [`Reader::uint_as`].
    pub fn u32(&mut self) -> Result<u32, CborError> {
        self.uint_as()
    }

    /// A byte string.
    ///
    /// # Errors
    /// Another kind, or not in its one form.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], CborError> {
        let at = self.at;
        match self.head()? {
            Head::Bytes(length) => self.take(length),
            other => Err(unexpected(at, Kind::Bytes, other)),
        }
    }

    /// A byte string of exactly `N` bytes.
    ///
    /// # Errors
    /// As [`Reader::bytes`], or another length.
    pub fn byte_array<const N: usize>(&mut self) -> Result<[u8; N], CborError> {
        let at = self.at;
        let bytes = self.bytes()?;
        bytes.try_into().map_err(|_| {
            let found = bytes.len();
            refuse(at, CborReason::Length { wanted: N, found })
        })
    }

    /// A text string.
    ///
    /// # Errors
    /// Another kind, not in its one form, or not UTF-8.
    pub fn text(&mut self) -> Result<&'a str, CborError> {
        let at = self.at;
        match self.head()? {
            Head::Text(length) => self.take_text(at, length),
            other => Err(unexpected(at, Kind::Text, other)),
        }
    }

    /// Opens an array and returns its length; that many items must be read.
    ///
    /// # Errors
    /// Another kind, not in its one form, longer than the input, or nested too deep.
    #[inline]
    pub fn array(&mut self) -> Result<usize, CborError> {
        let at = self.at;
        match self.head()? {
            Head::Array(items) => Ok(items),
            other => Err(unexpected(at, Kind::Array, other)),
        }
    }

    /// Opens an array of exactly `items` items.
    ///
    /// # Errors
    /// As [`Reader::array`], or another length.
    #[inline]
    pub fn expect_array(&mut self, items: usize) -> Result<(), CborError> {
        let at = self.at;
        let found = self.array()?;
        if found == items {
            return Ok(());
        }
        let wanted = items;
        Err(refuse(at, CborReason::Length { wanted, found }))
    }

    /// An array of at most `bound` values.
    ///
    /// # Errors
    /// As [`Reader::array`], longer than `bound`, or an item that does not decode.
    pub fn list<T: Decode<'a>>(&mut self, bound: usize) -> Result<Vec<T>, CborError> {
        let at = self.at;
        let found = self.array()?;
        if found > bound {
            return Err(refuse(at, CborReason::OverBound { bound, found }));
        }
        (0..found).map(|_| T::decode(self)).collect()
    }

    /// A boolean.
    ///
    /// # Errors
    /// Another kind.
    pub fn boolean(&mut self) -> Result<bool, CborError> {
        let at = self.at;
        match self.head()? {
            Head::False => Ok(false),
            Head::True => Ok(true),
            other => Err(unexpected(at, Kind::Boolean, other)),
        }
    }

    /// Null.
    ///
    /// # Errors
    /// Another kind.
    pub fn null(&mut self) -> Result<(), CborError> {
        let at = self.at;
        match self.head()? {
            Head::Null => Ok(()),
            other => Err(unexpected(at, Kind::Null, other)),
        }
    }

    /// Any value that decodes as `T`.
    ///
    /// # Errors
    /// Those of `T`.
    pub fn value<T: Decode<'a>>(&mut self) -> Result<T, CborError> {
        T::decode(self)
    }

    /// The next item, whatever it is, and all that it holds.
    ///
    /// # Errors
    /// Not in its one form, nested too deep, or more than the input holds. Text is not checked.
    pub fn skip(&mut self) -> Result<(), CborError> {
        let mut left = 1_usize;
        while left > 0 {
            left -= 1;
            match self.head()? {
                Head::Bytes(length) | Head::Text(length) => {
                    self.take(length)?;
                }
                Head::Array(items) => left = left.saturating_add(items),
                Head::Map(entries) => left = left.saturating_add(entries.saturating_mul(2)),
                _ => {}
            }
        }
        Ok(())
    }

    /// An error about the item that begins at offset `at`, for a decoder that finds its value is not
    /// one of its type's.
    pub fn invalid(at: usize, what: &'static str) -> CborError {
        refuse(at, CborReason::Invalid(what))
    }

    /// Consumes the next head, counts it in its container, and opens the container it begins.
    #[inline]
    pub(super) fn head(&mut self) -> Result<Head, CborError> {
        let (head, length) = self.head_here()?;
        let items = match head {
            Head::Array(items) => Some(items),
            // The length check bounds the entries by the input, so doubling cannot overflow.
            Head::Map(entries) => Some(entries.saturating_mul(2)),
            _ => None,
        };
        if items.is_some() && self.depth == DEPTH_MAX {
            return Err(self.refuse(CborReason::TooDeep));
        }
        self.at += length;
        self.count_item();
        if let Some(items) = items {
            if let Some(slot) = self.open.get_mut(self.depth) {
                *slot = items;
            }
            self.depth += 1;
        }
        self.close_finished();
        Ok(head)
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], CborError> {
        let bytes = self.rest().get(..length);
        self.at = self.at.saturating_add(length);
        bytes.ok_or(refuse(self.at, CborReason::Truncated))
    }

    pub(super) fn take_text(&mut self, at: usize, length: usize) -> Result<&'a str, CborError> {
        std::str::from_utf8(self.take(length)?).map_err(|_| refuse(at, CborReason::NotUtf8))
    }

    /// The head at the reader's place and its length in bytes, checked alone.
    #[inline]
    fn head_here(&self) -> Result<(Head, usize), CborError> {
        let rest = self.rest();
        let (head, length) = match short_head(rest) {
            Some(short) => short,
            None => self.any_head(rest)?,
        };
        let declared = match head {
            Head::Bytes(declared) | Head::Text(declared) | Head::Array(declared) => declared,
            Head::Map(entries) => entries.saturating_mul(2),
            _ => 0,
        };
        let remaining = rest.len().saturating_sub(length);
        if declared > remaining {
            return Err(self.refuse(CborReason::TooLong {
                declared,
                remaining,
            }));
        }
        Ok((head, length))
    }

    /// Any head and its length in bytes, by the library.
    #[cold]
    fn any_head(&self, rest: &[u8]) -> Result<(Head, usize), CborError> {
        let mut decoder = Decoder::from(rest);
        let header = decoder.pull().map_err(|error| {
            self.refuse(match error {
                Error::Io(_) => CborReason::Truncated,
                Error::Syntax(_) => CborReason::Malformed,
            })
        })?;
        let length = decoder.offset();
        let head = self.used(header)?;
        if !rest.starts_with(shortest_head(header, &mut [0; 9])) {
            return Err(self.refuse(CborReason::NotShortest));
        }
        Ok((head, length))
    }

    /// The header as one of the kinds that are used.
    fn used(&self, header: Header) -> Result<Head, CborError> {
        Ok(match header {
            Header::Positive(value) => Head::Uint(value),
            Header::Negative(value) => Head::Negative(value),
            Header::Bytes(Some(length)) => Head::Bytes(length),
            Header::Text(Some(length)) => Head::Text(length),
            Header::Array(Some(items)) => Head::Array(items),
            Header::Map(Some(entries)) => Head::Map(entries),
            Header::Simple(simple::FALSE) => Head::False,
            Header::Simple(simple::TRUE) => Head::True,
            Header::Simple(simple::NULL) => Head::Null,
            Header::Float(value) => Head::Float(value),
            Header::Bytes(None) | Header::Text(None) | Header::Array(None) | Header::Map(None) => {
                return Err(self.refuse(CborReason::Indefinite));
            }
            Header::Break => return Err(self.refuse(CborReason::Malformed)),
            Header::Simple(_) | Header::Tag(_) => return Err(self.refuse(CborReason::NotUsed)),
        })
    }

    fn count_item(&mut self) {
        if let Some(left) = self.innermost() {
            *left = left.saturating_sub(1);
        }
    }

    fn close_finished(&mut self) {
        while self.innermost().is_some_and(|left| *left == 0) {
            self.depth -= 1;
        }
    }

    fn innermost(&mut self) -> Option<&mut usize> {
        self.open.get_mut(self.depth.checked_sub(1)?)
    }

    fn rest(&self) -> &'a [u8] {
        self.input.get(self.at..).unwrap_or_default()
    }

    fn refuse(&self, reason: CborReason) -> CborError {
        refuse(self.at, reason)
    }
}

/// The head of an integer, a string or a container in its one form with an argument below 2^16, as nearly all
/// are, and its length in bytes. What it gives `None` for is for the library to judge.
#[inline]
fn short_head(bytes: &[u8]) -> Option<(Head, usize)> {
    let initial = *bytes.first()?;
    let (argument, length) = match (initial & 0x1f, bytes) {
        (argument @ 0..=23, _) => (u16::from(argument), 1),
        (24, &[_, argument @ 24..=u8::MAX, ..]) => (u16::from(argument), 2),
        (25, &[_, high @ 1..=u8::MAX, low, ..]) => (u16::from_be_bytes([high, low]), 3),
        _ => return None,
    };
    let head = match initial >> 5 {
        0 => Head::Uint(argument.into()),
        1 => Head::Negative(argument.into()),
        2 => Head::Bytes(argument.into()),
        3 => Head::Text(argument.into()),
        4 => Head::Array(argument.into()),
        5 => Head::Map(argument.into()),
        _ => return None,
    };
    Some((head, length))
}

fn refuse(at: usize, reason: CborReason) -> CborError {
    CborError { at, reason }
}

fn unexpected(at: usize, wanted: Kind, found: Head) -> CborError {
    let found = found.kind();
    refuse(at, CborReason::Unexpected { wanted, found })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn law_a_short_head_is_what_the_library_reads_in_its_one_form() {
        let mut short = 0;
        for initial in u8::MIN..=u8::MAX {
            for second in u8::MIN..=u8::MAX {
                for third in [0, 1, 23, 24, 0xff] {
                    let bytes = [initial, second, third, 0, 0, 0, 0, 0, 0];
                    for length in 1..=bytes.len() {
                        let bytes = &bytes[..length];
                        let Some(found) = short_head(bytes) else {
                            continue;
                        };
                        short += 1;
                        let any = Reader::new(bytes).any_head(bytes).unwrap();
                        assert_eq!(format!("{found:?}"), format!("{any:?}"), "{bytes:02x?}");
                    }
                }
            }
        }
        assert!(short > 6 * 24 * 256, "{short}");
    }
}
