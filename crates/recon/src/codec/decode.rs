//! The total decoder. Everything it hands out borrows from the input.

use alloc::vec::Vec;

use super::Encoder;
use super::cbor::{CborFault, Reader};
use super::encode::ENTRY_BYTES;
use crate::bounds::{IDS_PER_RANGE_MAX, RANGES_MAX, TOP, VERSION};
use crate::item::Id;

/// A decoded message: a complete cover of the sequence space, from zero to [`TOP`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message<'a> {
    ranges: Vec<Range<'a>>,
}

/// One range of a message: from the previous range's upper bound (or zero) up to, and without, `upper`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range<'a> {
    /// Exclusive upper bound.
    pub upper: u64,
    /// What the sender says of the range.
    pub content: Content<'a>,
}

/// What a message says of one range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'a> {
    /// Settled, nothing to do.
    Skip,
    /// BLAKE3 over the sender's items in the range.
    Fingerprint(&'a [u8; 32]),
    /// Every id the sender holds in the range.
    Ids(IdList<'a>),
}

/// Ids in strictly ascending order, still in the message's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdList<'a> {
    entries: &'a [[u8; ENTRY_BYTES]],
}

/// Why a payload is refused. [`Refusal::code`] is the contract; the rest is for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The bytes are not the one canonical encoding of anything.
    #[error("the payload is not canonical CBOR: {0}")]
    NoncanonicalCbor(#[from] CborFault),
    /// The bytes are canonical and break a rule of the message.
    #[error("the payload breaks a rule of RECON: {0}")]
    MalformedHeader(#[from] HeaderFault),
}

/// A rule of the message that canonical bytes broke. Source: seed 4, "Rules a receiver enforces".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderFault {
    /// Another version than [`VERSION`].
    #[error("version {0} is not spoken here; this side speaks version 1")]
    Version(u64),
    /// A message without ranges covers nothing.
    #[error("a message must have at least one range")]
    NoRanges,
    /// More than [`RANGES_MAX`] ranges.
    #[error("{0} ranges are more than 1024")]
    TooManyRanges(usize),
    /// A mode other than skip, fingerprint and id list.
    #[error("mode {0} is unknown")]
    Mode(u64),
    /// Upper bounds must strictly ascend.
    #[error("bound {upper} does not ascend from {previous}")]
    BoundOrder {
        /// The bound before.
        previous: u64,
        /// The bound that should have been above it.
        upper: u64,
    },
    /// More than [`IDS_PER_RANGE_MAX`] ids in one range.
    #[error("{0} ids in one range are more than 4096")]
    TooManyIds(usize),
    /// Ids must strictly ascend.
    #[error("the ids of the range below {upper} do not ascend")]
    IdOrder {
        /// The range's upper bound.
        upper: u64,
    },
    /// The last upper bound is not [`TOP`].
    #[error("the cover stops at {0} and must reach 2^64-1")]
    ShortCover(u64),
}

impl Refusal {
    /// The wire code a receiver answers with, one of two.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoncanonicalCbor(_) => "reject/noncanonical_cbor",
            Self::MalformedHeader(_) => "reject/malformed_header",
        }
    }
}

impl<'a> Message<'a> {
    /// Decodes and checks a payload. The order of the checks is part of the protocol, as it decides which code wins.
    pub fn decode(payload: &'a [u8]) -> Result<Self, Refusal> {
        let mut reader = Reader::new(payload);
        reader.array_of(2)?;
        let version = reader.uint()?;
        if version != VERSION {
            return Err(HeaderFault::Version(version).into());
        }
        let count = reader.array()?;
        if count == 0 {
            return Err(HeaderFault::NoRanges.into());
        }
        if count > RANGES_MAX {
            return Err(HeaderFault::TooManyRanges(count).into());
        }
        let mut ranges = Vec::new();
        let mut reached: Option<u64> = None;
        for _ in 0..count {
            let range = read_range(&mut reader)?;
            match reached {
                Some(previous) if range.upper <= previous => {
                    let upper = range.upper;
                    return Err(HeaderFault::BoundOrder { previous, upper }.into());
                }
                _ => reached = Some(range.upper),
            }
            ranges.push(range);
        }
        match reached {
            Some(TOP) => {}
            short => return Err(HeaderFault::ShortCover(short.unwrap_or(0)).into()),
        }
        reader.finish()?;
        Ok(Self { ranges })
    }

    /// The ranges in order, the last one reaching [`TOP`].
    #[must_use]
    pub fn ranges(&self) -> &[Range<'a>] {
        &self.ranges
    }

    /// The message's one encoding: the bytes it was decoded from.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new(self.ranges.len(), 0);
        for range in &self.ranges {
            match range.content {
                Content::Skip => encoder.skip(range.upper),
                Content::Fingerprint(bytes) => encoder.fingerprint(range.upper, bytes),
                Content::Ids(list) => encoder.ids(range.upper, list.len(), |out| {
                    list.entries.iter().for_each(|entry| out.extend(entry));
                }),
            }
        }
        encoder.finish()
    }
}

impl<'a> IdList<'a> {
    /// How many ids are named.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the sender holds nothing in the range.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The ids, ascending.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8; 32]> + use<'a> {
        self.entries.iter().map(entry_id)
    }

    /// Where in the list an id stands, if it is named.
    #[must_use]
    pub fn find(&self, id: &Id) -> Option<usize> {
        self.entries
            .binary_search_by(|entry| entry_id(entry).cmp(&id.0))
            .ok()
    }
}

fn entry_id(entry: &[u8; ENTRY_BYTES]) -> &[u8; 32] {
    let [_, _, id @ ..] = entry;
    id
}

fn read_range<'a>(reader: &mut Reader<'a>) -> Result<Range<'a>, Refusal> {
    reader.array_of(3)?;
    let upper = reader.uint()?;
    let content = match reader.uint()? {
        0 => {
            reader.null()?;
            Content::Skip
        }
        1 => Content::Fingerprint(reader.bytes32()?),
        2 => Content::Ids(read_ids(reader, upper)?),
        unknown => return Err(HeaderFault::Mode(unknown).into()),
    };
    Ok(Range { upper, content })
}

fn read_ids<'a>(reader: &mut Reader<'a>, upper: u64) -> Result<IdList<'a>, Refusal> {
    let count = reader.array()?;
    if count > IDS_PER_RANGE_MAX {
        return Err(HeaderFault::TooManyIds(count).into());
    }
    let start = reader.rest();
    let mut last: Option<&[u8; 32]> = None;
    for _ in 0..count {
        let id = reader.bytes32()?;
        if last.is_some_and(|last| last >= id) {
            return Err(HeaderFault::IdOrder { upper }.into());
        }
        last = Some(id);
    }
    // Each id was just read as a head of two bytes and 32 bytes of its own, so the chunks are the entries.
    let (entries, _) = start.as_chunks();
    let entries = entries.get(..count).unwrap_or_default();
    Ok(IdList { entries })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn law_nothing_is_allocated_for_a_claimed_length() {
        // 2^64-1 ranges claimed by eleven bytes: refused before a range is looked at.
        let payload = [0x82, 0x01, 0x9b, 255, 255, 255, 255, 255, 255, 255, 255];
        let refusal = Message::decode(&payload).unwrap_err();
        assert!(matches!(
            refusal,
            Refusal::NoncanonicalCbor(CborFault::TooLong { left: 0, .. })
        ));
    }

    #[test]
    fn law_the_range_bound_is_exact() {
        for (count, accepted) in [(RANGES_MAX, true), (RANGES_MAX + 1, false)] {
            let mut encoder = Encoder::new(count, 0);
            for upper in 1..count {
                encoder.skip(upper as u64);
            }
            encoder.skip(TOP);
            let payload = encoder.finish();
            assert_eq!(
                Message::decode(&payload).is_ok(),
                accepted,
                "{count} ranges"
            );
        }
    }

    #[test]
    fn law_the_id_bound_is_exact() {
        for (count, accepted) in [(IDS_PER_RANGE_MAX, true), (IDS_PER_RANGE_MAX + 1, false)] {
            let mut encoder = Encoder::new(1, 0);
            encoder.ids(TOP, count, |out| {
                for number in 0..count as u64 {
                    out.extend([0x58, 0x20]);
                    out.extend(number.to_be_bytes());
                    out.extend([0; 24]);
                }
            });
            let payload = encoder.finish();
            let decoded = Message::decode(&payload);
            assert_eq!(decoded.is_ok(), accepted, "{count} ids");
            if let Ok(message) = decoded {
                assert_eq!(message.encode(), payload);
            }
        }
    }
}
