//! Law **a route ends**: each hop takes one from a message's hop budget, and comes nearer to where it is
//! routed; but once, marked, it may cross it.

use overlane_core::TransactionDigest;
use overlane_core::ring::Distance;
use overlane_core::transaction::{HOP_BUDGET_MAX, RelayFields};

use super::{Checker, Map, Seen, Set};

/// Messages whose way is remembered; what was long on its way is forgotten.
const REMEMBERED: usize = 65_536;

#[derive(Default)]
pub(super) struct Routes {
    /// How each message travelled last.
    last: Map<TransactionDigest, (u64, RelayFields)>,
    /// Offered again: copies of it take ways of their own.
    again: Set<TransactionDigest>,
}

impl Routes {
    fn forget(&mut self, at_ms: u64) {
        if self.last.len() > REMEMBERED {
            let mut instants: Vec<u64> = self.last.values().map(|(at_ms, _)| *at_ms).collect();
            instants.sort_unstable();
            let middle_ms = instants.get(instants.len() / 2).copied().unwrap_or(at_ms);
            self.last.retain(|_, (at_ms, _)| *at_ms > middle_ms);
        }
    }
}

impl Checker for Routes {
    fn law(&self) -> &'static str {
        "a route ends"
    }

    fn see(&mut self, at_ms: u64, seen: &Seen<'_>) -> Result<(), String> {
        match *seen {
            Seen::OnTheWire {
                signed,
                node,
                relay,
                ..
            } if !self.again.contains(&signed.digest) => {
                self.forget(at_ms);
                let before = self.last.insert(signed.digest, (at_ms, relay));
                let at = before.map(|(_, relay)| relay.next_hop);
                // Who offers it, or offers it again, begins a route.
                if relay.hop_budget == HOP_BUDGET_MAX {
                    return Ok(());
                }
                let Some((_, before)) = before else {
                    return Ok(());
                };
                goes_on(&before, &relay).map_err(|words| {
                    let (sequence, stream) = (signed.sequence, signed.stream);
                    format!("node {node} passed on sequence {sequence} of {stream} {words}: {at:?}")
                })
            }
            Seen::OfferedAgain(digest) => {
                self.last.remove(&digest);
                self.again.insert(digest);
                Ok(())
            }
            Seen::Dispatched { signed, .. } => {
                self.last.remove(&signed.digest);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Whether a hop follows the last one.
fn goes_on(before: &RelayFields, now: &RelayFields) -> Result<(), &'static str> {
    if now.hop_budget >= before.hop_budget {
        return Err("and took nothing from its budget");
    }
    let same = now.destination == before.destination;
    if same && before.handed_off && !now.handed_off {
        return Err("and took its mark away");
    }
    let reach = |node| Distance::between(node, now.destination);
    let crosses = now.handed_off && !(same && before.handed_off);
    if !crosses && reach(now.next_hop) >= reach(before.next_hop) {
        return Err("and brought it no nearer");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use overlane_core::Did;

    use super::*;

    fn hop(next: u8, to: u8, hop_budget: u8, handed_off: bool) -> RelayFields {
        RelayFields {
            destination: Did([to; 20]),
            hop_budget,
            handed_off,
            ..RelayFields::direct(Did([next; 20]))
        }
    }

    #[test]
    fn a_hop_that_comes_nearer_or_crosses_once_goes_on_and_no_other() {
        let before = hop(10, 50, 60, false);
        assert_eq!(goes_on(&before, &hop(20, 50, 59, false)), Ok(()));
        assert_eq!(goes_on(&before, &hop(70, 50, 59, true)), Ok(()));
        let wrong = [
            hop(20, 50, 60, false),
            hop(5, 50, 59, false),
            hop(70, 50, 59, false),
        ];
        for hop in wrong {
            assert!(goes_on(&before, &hop).is_err(), "{hop:?}");
        }
        let crossed = hop(90, 50, 60, true);
        assert_eq!(goes_on(&crossed, &hop(20, 50, 59, true)), Ok(()));
        assert!(goes_on(&crossed, &hop(80, 50, 59, true)).is_err());
        assert!(goes_on(&crossed, &hop(20, 50, 59, false)).is_err());
        // By way of 50, then to 30: another destination.
        assert_eq!(
            goes_on(&hop(50, 50, 60, true), &hop(70, 30, 59, false)),
            Ok(())
        );
    }
}
