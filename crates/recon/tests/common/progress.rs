//! The property that exchanges owe their end to, as `papers/reconciliation.tex` states it: the front moves.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    reason = "shared by tests; a message that does not decode fails them"
)]

use overlane_recon::{Content, Message};

/// Where a message's first range that is not skipped begins and ends, and whether it is named.
pub type Front = (u64, u64, bool);

/// Checks that from each message to its answer the front begins later, or ends earlier, or is the same and named
/// before or after. Gives the two fronts where it does not.
pub fn check<'a>(said: impl IntoIterator<Item = &'a [u8]>) -> Result<(), [Front; 2]> {
    let mut before: Option<Front> = None;
    for payload in said {
        let after = front(payload);
        if let Some(before) = before {
            let later = after.0 > before.0 || (after.0 == before.0 && after.1 < before.1);
            let same = (after.0, after.1) == (before.0, before.1);
            // An open front stays only by being named; a named one may be named back.
            let moved = later || (same && after.2);
            if !moved {
                return Err([before, after]);
            }
        }
        before = Some(after);
    }
    Ok(())
}

fn front(payload: &[u8]) -> Front {
    let message = Message::decode(payload).unwrap();
    let mut lower = 0;
    for range in message.ranges() {
        match range.content {
            Content::Skip => lower = range.upper,
            content => return (lower, range.upper, matches!(content, Content::Ids(_))),
        }
    }
    (u64::MAX, u64::MAX, false)
}
