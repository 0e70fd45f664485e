//! Two sides in one process: for tests, examples and measurements, and to merge two sets at hand.
//!
//! The driver does what a client and a relay do around an exchange, in the order the protocol demands, and nothing
//! else: no transport, no clock of its own.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::budget::Budget;
use crate::initiator::{Initiator, Patience, Request};
use crate::item::{Id, Item, ReservedSeq};
use crate::limits::Limits;
use crate::report::Report;
use crate::responder::{NotAnswered, Outgoing, Responder};
use crate::set::ItemSet;

/// A relay's part: a set in which every id has one seq, and the next seq to give.
#[derive(Debug, Clone, Default)]
pub struct Relay {
    /// The items it holds.
    pub set: ItemSet,
    /// Where an id may stand: the first eight bytes of the ids of the items held at the start, and their seqs. Made
    /// when the first item is sent, as most exchanges send none; 16 bytes an item.
    places: Option<Vec<(u64, u64)>>,
    accepted: BTreeMap<Id, u64>,
    next: u64,
}

impl Relay {
    /// A relay that holds the items. Of several with one id the first stays.
    #[must_use]
    pub fn new(items: impl IntoIterator<Item = Item>) -> Self {
        let mut seen = BTreeSet::new();
        Self::over(
            items
                .into_iter()
                .filter(|item| seen.insert(item.id))
                .collect(),
        )
    }

    /// A relay over a set in which no id has two seqs.
    #[must_use]
    pub fn over(set: ItemSet) -> Self {
        Self {
            next: set.last().map_or(1, |last| last.seq + 1),
            set,
            ..Self::default()
        }
    }

    /// Takes a sent item and says its seq: the one it has, or the next.
    pub fn accept(&mut self, id: Id) -> Result<u64, ReservedSeq> {
        if let Some(seq) = self.seq_of(id) {
            return Ok(seq);
        }
        let seq = self.next;
        self.set.insert(Item { seq, id })?;
        self.accepted.insert(id, seq);
        self.next += 1;
        Ok(seq)
    }

    fn seq_of(&mut self, id: Id) -> Option<u64> {
        if let Some(seq) = self.accepted.get(&id) {
            return Some(*seq);
        }
        let set = &self.set;
        let places = self.places.get_or_insert_with(|| {
            let mut places = Vec::with_capacity(set.len());
            places.extend(set.iter().map(|item| (prefix(&item.id), item.seq)));
            places.sort_unstable();
            places
        });
        let first = places.partition_point(|place| place.0 < prefix(&id));
        let alike = places.iter().skip(first);
        alike
            .take_while(|place| place.0 == prefix(&id))
            .map(|place| place.1)
            .find(|seq| set.contains(&Item { seq: *seq, id }))
    }
}

fn prefix(id: &Id) -> u64 {
    u64::from_be_bytes(*id.0.first_chunk().unwrap_or(&[0; 8]))
}

/// What happens in an exchange, as it happens.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// A side begins to work; everything up to the next turn is its work.
    Turn(Side),
    /// A side says a payload.
    Said(Side, &'a [u8]),
    /// The relay pushes an item.
    Pushed(Item),
    /// The client sends an item.
    Sent(Item),
}

/// One of the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The side that drives.
    Client,
    /// The side that answers.
    Relay,
    /// Neither: envelopes on their way.
    Between,
}

/// Runs one exchange to its end. Time stands still, so only the bounds on rounds, bytes and repetition apply.
pub fn reconcile(
    client: &mut ItemSet,
    relay: &mut Relay,
    limits: Limits,
    relay_limits: Limits,
    patience: Patience,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Report, NotAnswered<core::convert::Infallible>> {
    observe(Event::Turn(Side::Client));
    let mut initiator = Initiator::open(client, limits, patience, 0);
    let mut responder = Responder::new(relay_limits, Budget::per_minute(u64::MAX, u64::MAX));
    loop {
        observe(Event::Turn(Side::Between));
        match initiator.poll_transmit() {
            None => return Ok(initiator.report()),
            Some(Request::Send(item)) => {
                observe(Event::Sent(item));
                let acknowledged = relay.accept(item.id);
                observe(Event::Turn(Side::Client));
                match acknowledged {
                    Ok(seq) if initiator.handle_ack(client, item.id, seq, 0).is_ok() => {}
                    _ => {
                        let code = "reject/malformed_header".into();
                        initiator.handle_send_refused(client, item.id, code, 0);
                    }
                }
            }
            Some(Request::Recon(payload)) => {
                observe(Event::Said(Side::Client, &payload));
                observe(Event::Turn(Side::Relay));
                responder.handle_message(&mut relay.set, &payload, &mut |_| 0, 0)?;
                for outgoing in
                    core::iter::from_fn(|| responder.poll_transmit()).collect::<Vec<_>>()
                {
                    observe(Event::Turn(Side::Between));
                    match outgoing {
                        Outgoing::Push(item) => {
                            observe(Event::Pushed(item));
                            if initiator.handle_push(client, item, 0).is_err() {
                                initiator.handle_push_refused(item.id, "reserved seq".into());
                            }
                        }
                        Outgoing::Reply(reply) => {
                            observe(Event::Said(Side::Relay, &reply));
                            observe(Event::Turn(Side::Client));
                            // A refusal is the exchange's end, and stands in the report.
                            let _ = initiator.handle_answer(client, &reply, 0);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An id has one seq for ever: the one it was held at, or the one it was accepted at.
    #[test]
    fn law_an_id_is_numbered_once() {
        let id = |first: u8, last: u8| {
            let mut id = [first; 32];
            id[31] = last;
            Id(id)
        };
        // All of one prefix, so that the place of an id has to be looked up.
        let items = (1..=9).map(|seq| Item {
            seq,
            id: id(7, seq as u8),
        });
        let twice = Item {
            seq: 40,
            id: id(7, 3),
        };
        let mut relay = Relay::new(items.chain([twice]));
        assert_eq!(relay.set.len(), 9);
        assert_eq!(relay.accept(id(7, 3)), Ok(3));
        assert_eq!(relay.accept(id(7, 200)), Ok(10));
        assert_eq!(relay.accept(id(1, 1)), Ok(11));
        assert_eq!(relay.accept(id(7, 200)), Ok(10));
        assert_eq!(relay.set.len(), 11);
    }
}
