//! The comparison: which incoming ranges are settled, and what each side lacks in the ranges that name ids.
//!
//! Law kept here: *only a list proves a lack*. Nothing is pushed, sent or wanted for a fingerprint.

use alloc::vec::Vec;
use core::ops::Range;

use super::Least;
use crate::codec::{Content, IdList, Message};
use crate::item::{Id, Item, record_id};
use crate::storage::Storage;

/// An incoming range after comparison.
pub(crate) struct Judged {
    pub(crate) upper: u64,
    /// Positions of the own items in the range.
    pub(crate) span: Range<usize>,
    /// Nothing left to do here.
    pub(crate) settled: bool,
    /// The peer skipped it; nothing was compared.
    pub(crate) skipped: bool,
    /// The range named ids, so the own ones beyond them are on their way.
    pub(crate) named: bool,
    /// Greatest own id the peer's list lacks.
    pub(crate) greatest_lacked: Option<Id>,
}

/// When an id list settles its range.
pub(crate) enum Settling<'a> {
    /// The peer names nothing this side lacks: a responder pushes the rest. Source: seed 4, "Roles".
    NothingStrange,
    /// Both sides hold the same ids, those aside that were refused and will never match.
    Equal {
        /// Ids of ours that the peer refused.
        refused_by_peer: &'a dyn Fn(&Id) -> bool,
        /// Ids of the peer's that we refused.
        refused_here: &'a dyn Fn(&Id) -> bool,
    },
}

/// Judges every range of a message. Items the peer's lists lack go to `lacked`, ids this side lacks to `strange`.
pub(crate) fn judge<S: Storage>(
    set: &mut S,
    message: &Message<'_>,
    settling: &Settling<'_>,
    lacked: &mut Least,
    strange: &mut dyn FnMut(&Id),
) -> Result<Vec<Judged>, S::Error> {
    let mut judged = Vec::with_capacity(message.ranges().len());
    let mut start = 0;
    for range in message.ranges() {
        let end = set.position(range.upper)?;
        let mut this = Judged {
            upper: range.upper,
            span: start..end,
            settled: false,
            skipped: false,
            named: false,
            greatest_lacked: None,
        };
        match range.content {
            Content::Skip => (this.settled, this.skipped) = (true, true),
            Content::Fingerprint(theirs) => {
                this.settled = set.fingerprint(start..end)?.0 == *theirs;
            }
            Content::Ids(list) => {
                this.named = true;
                compare(set, &mut this, list, settling, lacked, strange)?;
            }
        }
        judged.push(this);
        start = end;
    }
    Ok(judged)
}

/// Walks the own records of the range once against the peer's list, whatever their number.
fn compare<S: Storage>(
    set: &mut S,
    judged: &mut Judged,
    list: IdList<'_>,
    settling: &Settling<'_>,
    lacked: &mut Least,
    strange: &mut dyn FnMut(&Id),
) -> Result<(), S::Error> {
    let mut held = Vec::new();
    held.resize(list.len(), false);
    let mut all_refused = true;
    set.visit(judged.span.clone(), &mut |records| {
        for record in records {
            let id = Id(*record_id(record));
            if let Some(place) = list.find(&id) {
                if let Some(held) = held.get_mut(place) {
                    *held = true;
                }
                continue;
            }
            match settling {
                Settling::Equal {
                    refused_by_peer, ..
                } if refused_by_peer(&id) => continue,
                _ => all_refused = false,
            }
            judged.greatest_lacked = judged.greatest_lacked.max(Some(id));
            lacked.add(Item::from_record(record));
        }
    })?;
    let mut nothing_strange = true;
    for (id, _) in list.iter().zip(&held).filter(|(_, held)| !**held) {
        let id = Id(*id);
        match settling {
            Settling::Equal { refused_here, .. } if refused_here(&id) => continue,
            _ => nothing_strange = false,
        }
        strange(&id);
    }
    judged.settled = match settling {
        Settling::NothingStrange => nothing_strange,
        Settling::Equal { .. } => nothing_strange && all_refused,
    };
    Ok(())
}
