//! From a layout to bytes: fingerprints and ids go from the set into their place in the message.

use alloc::vec::Vec;

use super::{Part, Says};
use crate::bounds::MESSAGE_HEAD_BYTES;
use crate::codec::{Encoder, fingerprint_bytes, ids_bytes, skip_bytes};
use crate::item::record_id;
use crate::storage::Storage;

pub(super) fn message<S: Storage>(set: &mut S, parts: &[Part]) -> Result<Vec<u8>, S::Error> {
    let bytes: usize = parts.iter().map(part_bytes).sum();
    let mut encoder = Encoder::new(parts.len(), MESSAGE_HEAD_BYTES + bytes);
    for part in parts {
        match &part.says {
            Says::Skip => encoder.skip(part.upper),
            Says::Fingerprint(span) => {
                let fingerprint = set.fingerprint(span.clone())?;
                encoder.fingerprint(part.upper, &fingerprint.0);
            }
            Says::Ids(span) => {
                encoder.ids_in_any_order(part.upper, span.len(), |out| {
                    set.visit(span.clone(), &mut |records| {
                        records.iter().for_each(|record| out.add(record_id(record)));
                    })
                })?;
            }
        }
    }
    Ok(encoder.finish())
}

pub(super) fn part_bytes(part: &Part) -> usize {
    match &part.says {
        Says::Skip => skip_bytes(part.upper),
        Says::Fingerprint(_) => fingerprint_bytes(part.upper),
        Says::Ids(span) => ids_bytes(part.upper, span.len()),
    }
}
