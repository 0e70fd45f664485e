//! Where a payload's frame names its two delegations, found without decoding anything else.

use std::ops::Range;

use crate::identity::DelegationDigest;
use crate::wire::bounds::MARKER_BYTES;
use crate::wire::cbor::{CborError, Reader};

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

/// The origin's and the hop's delegation in a payload frame. Nothing else of the frame is checked.
///
/// # Errors
/// The frame has not the outline of a payload.
pub(crate) fn named(frame: &[u8]) -> Result<[Named<'_>; 2], CborError> {
    let mut reader = Reader::new(frame.get(MARKER_BYTES..).unwrap_or_default());
    reader.expect_array(3)?;
    reader.expect_array(5)?;
    // Destination, tx_id, sequence, data.
    for _ in 0..4 {
        reader.skip()?;
    }
    reader.expect_array(4)?;
    let origin = reference(&mut reader)?;
    // The proof's life and signature, the relay fields.
    for _ in 0..4 {
        reader.skip()?;
    }
    reader.expect_array(4)?;
    Ok([origin, reference(&mut reader)?])
}

fn reference<'a>(reader: &mut Reader<'a>) -> Result<Named<'a>, CborError> {
    let start = reader.at();
    reader.expect_array(2)?;
    let by = match reader.u8()? {
        0 => {
            let start = reader.at();
            reader.skip()?;
            NamedBy::Inline(reader.since(start))
        }
        1 => NamedBy::Digest(reader.value()?),
        _ => return Err(Reader::invalid(start, "delegation reference")),
    };
    let at = MARKER_BYTES.saturating_add(start)..MARKER_BYTES.saturating_add(reader.at());
    Ok(Named { at, by })
}
