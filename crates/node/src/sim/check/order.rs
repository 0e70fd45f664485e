//! Law **order per class**: of the messages of one stream that took the same link and were offered
//! once, the later one is never handed over first.

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::{StreamKey, TransactionDigest};

use super::{Checker, Seen};

#[derive(Default)]
pub(super) struct Order {
    /// Which link a message took.
    took: BTreeMap<TransactionDigest, usize>,
    again: BTreeSet<TransactionDigest>,
    last: BTreeMap<(StreamKey, usize), u64>,
}

impl Checker for Order {
    fn law(&self) -> &'static str {
        "order per class"
    }

    fn see(&mut self, _: u64, seen: &Seen<'_>) -> Result<(), String> {
        match *seen {
            Seen::OnTheWire {
                signed,
                link,
                again: false,
            } => {
                self.took.insert(signed.digest, link);
            }
            Seen::OfferedAgain(digest) => {
                self.again.insert(digest);
            }
            Seen::Dispatched { node, signed } if !self.again.contains(&signed.digest) => {
                let Some(link) = self.took.remove(&signed.digest) else {
                    return Ok(());
                };
                let last = self.last.entry((signed.stream, link)).or_default();
                if signed.sequence <= *last {
                    return Err(format!(
                        "node {node} was handed sequence {} of {} after {last}",
                        signed.sequence, signed.stream
                    ));
                }
                *last = signed.sequence;
            }
            _ => {}
        }
        Ok(())
    }
}
