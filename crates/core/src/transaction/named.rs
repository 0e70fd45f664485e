//! Where a payload's frame names its two delegations, found without decoding anything else.

use std::ops::Range;
use std::sync::Arc;

use crate::identity::{Delegation, DelegationDigest, Verified};
use crate::wire::bounds::MARKER_BYTES;
use crate::wire::cbor::{Reader, Writer};

/// How a frame names a delegation, and where.
#[derive(Debug, Clone)]
pub(crate) struct Named<'a> {
    /// The whole reference in the frame, its array included.
    pub(crate) at: Range<usize>,
    /// What stands there.
    pub(crate) by: NamedBy<'a>,
}

/// What stands for a delegation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedBy<'a> {
    /// The delegation's bytes.
    Inline(&'a [u8]),
    /// Its digest.
    Digest(DelegationDigest),
}

/// The origin's and the hop's delegation in a payload frame; `None` if it has not the outline of a payload,
/// whatever is wrong with it. Nothing else of the frame is checked.
pub(crate) fn named(frame: &[u8]) -> Option<[Named<'_>; 2]> {
    let mut reader = Reader::new(frame.get(MARKER_BYTES..).unwrap_or_default());
    reader.expect_array(3).ok()?;
    reader.expect_array(5).ok()?;
    // Destination, tx_id, sequence, data.
    for _ in 0..4 {
        reader.skip().ok()?;
    }
    reader.expect_array(4).ok()?;
    let origin = reference(&mut reader)?;
    // The proof's life and signature, the relay fields.
    for _ in 0..4 {
        reader.skip().ok()?;
    }
    reader.expect_array(4).ok()?;
    Some([origin, reference(&mut reader)?])
}

/// A delegation that the receiver of a frame verified before.
type Known = Option<Arc<Verified<Delegation>>>;

/// The frame with references in place of the delegations in it that `known` knows, and those; `None` if it
/// knows neither.
pub(super) fn shortened(
    frame: &[u8],
    known: impl Fn(&[u8]) -> Known,
) -> Option<(Vec<u8>, [Known; 2])> {
    let found = named(frame)?.map(|named| match named.by {
        NamedBy::Inline(bytes) => known(bytes).map(|known| (named.at, known)),
        NamedBy::Digest(_) => None,
    });
    if found.iter().all(Option::is_none) {
        return None;
    }
    let mut short = Vec::with_capacity(frame.len());
    let mut copied = 0;
    for (at, known) in found.iter().flatten() {
        short.extend_from_slice(frame.get(copied..at.start)?);
        let mut writer = Writer::append(short);
        writer.array(2).uint(1).value(&known.digest());
        short = writer.into_bytes();
        copied = at.end;
    }
    short.extend_from_slice(frame.get(copied..)?);
    Some((short, found.map(|found| found.map(|(_, known)| known))))
}

fn reference<'a>(reader: &mut Reader<'a>) -> Option<Named<'a>> {
    let start = reader.at();
    reader.expect_array(2).ok()?;
    let by = match reader.u8().ok()? {
        0 => {
            let start = reader.at();
            reader.skip().ok()?;
            NamedBy::Inline(reader.since(start))
        }
        1 => NamedBy::Digest(reader.value().ok()?),
        _ => return None,
    };
    let at = MARKER_BYTES.saturating_add(start)..MARKER_BYTES.saturating_add(reader.at());
    Some(Named { at, by })
}
