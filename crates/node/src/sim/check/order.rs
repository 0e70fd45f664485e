//! Law **order per class**: of the messages of one stream that took the same links, hop by hop, and
//! were offered once, the later one is never handed over first.
//!
//! Over other links a message may overtake another: a route changes when the ring does.

use overlane_core::{StreamKey, TransactionDigest};

use super::{Checker, Map, Seen, Set};

#[derive(Default)]
pub(super) struct Order {
    /// Which links a message took.
    took: Map<TransactionDigest, Path>,
    again: Set<TransactionDigest>,
    last: Map<(StreamKey, Path), u64>,
}

/// The links of a way, told apart from any other's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Path(u64);

impl Path {
    pub(super) fn then(self, link: usize) -> Self {
        let link = u64::try_from(link).unwrap_or(u64::MAX);
        Self((self.0 ^ link.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

impl Checker for Order {
    fn law(&self) -> &'static str {
        "order per class"
    }

    fn see(&mut self, _: u64, seen: &Seen<'_>) -> Result<(), String> {
        match *seen {
            Seen::OnTheWire { signed, link, .. } if !self.again.contains(&signed.digest) => {
                let path = self.took.entry(signed.digest).or_default();
                *path = path.then(link);
            }
            Seen::OfferedAgain(digest) => {
                self.again.insert(digest);
                self.took.remove(&digest);
            }
            Seen::Dispatched { node, signed } => {
                let Some(path) = self.took.remove(&signed.digest) else {
                    return Ok(());
                };
                let last = self.last.entry((signed.stream, path)).or_default();
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
