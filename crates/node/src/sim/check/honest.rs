//! Law **no honest refusal**: what an honest node signed and offered once is not refused as stale,
//! as a replay, as a fork or for a quota, no record is lost, and nobody is blamed. Every node of a
//! simulation is honest.
//!
//! What is held where it was signed is on no wire before it is fetched, and may be offered again when its destination
//! has it already: that it is signed is known by the answer to who sent it as well.
//!
//! A message that is offered again may take another way, and come a window's worth before its turn:
//! what it overtook so is stale, and that is no fault. So may one whose route was another than those before
//! it had; over one route nothing is overtaken.

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::replay::WINDOW_SLOTS;
use overlane_core::ring::RingRefusal;
use overlane_core::ring::bounds::LATE_MAX;
use overlane_core::transaction::VerifyError;
use overlane_core::{Class, Coded, StreamKey, TransactionDigest, replay};

use super::order::Path;
use super::{Checker, Map, Seen, Set, Signed};
use crate::peer::Refusal;

#[derive(Default)]
pub(super) struct Honest {
    again: Map<StreamKey, BTreeSet<u64>>,
    /// Where each stream is in `streams`: a message that was signed is kept by that, and its sequence.
    numbers: Map<StreamKey, u32>,
    streams: Vec<StreamKey>,
    signed: Map<TransactionDigest, (u32, u64)>,
    /// Offered again before it was known what they are.
    early: Set<TransactionDigest>,
    paths: Map<StreamKey, BTreeMap<u64, Path>>,
    arrived: Map<StreamKey, BTreeSet<u64>>,
    /// Whether nodes pass messages on.
    routes: bool,
    /// Whether nodes say something of mail or groups.
    keepers: bool,
}

/// What a node that refuses something has gone through.
#[derive(Debug, Clone, Copy)]
struct Circumstances {
    wrong_clock: bool,
    store_failed: bool,
    earlier_life: bool,
    gave_up: usize,
}

impl Honest {
    /// `routes`: whether nodes pass messages on for others; `keepers`: whether they say something of mail or
    /// groups.
    pub(super) fn new(routes: bool, keepers: bool) -> Self {
        Self {
            routes,
            keepers,
            ..Self::default()
        }
    }

    fn note_signed(&mut self, signed: Signed) {
        let Signed {
            stream, sequence, ..
        } = signed;
        let number = self.number_of(stream);
        self.signed.insert(signed.digest, (number, sequence));
        if self.early.remove(&signed.digest) {
            self.again.entry(stream).or_default().insert(sequence);
        }
    }

    fn number_of(&mut self, stream: StreamKey) -> u32 {
        let streams = &mut self.streams;
        *self.numbers.entry(stream).or_insert_with(|| {
            streams.push(stream);
            u32::try_from(streams.len() - 1).unwrap_or(u32::MAX)
        })
    }

    /// Which message this is, if it is known to be signed.
    fn named(&self, digest: &TransactionDigest) -> Option<(StreamKey, u64)> {
        let &(number, sequence) = self.signed.get(digest)?;
        let stream = self.streams.get(usize::try_from(number).ok()?)?;
        Some((*stream, sequence))
    }

    fn offered_once(&self, stream: StreamKey, sequence: u64) -> bool {
        let again = self.again.get(&stream);
        !again.is_some_and(|again| again.contains(&sequence))
    }

    /// Whether a message of the stream that was offered again is a window above this sequence.
    fn overtaken(&self, stream: StreamKey, sequence: u64) -> bool {
        let highest = self.again.get(&stream).and_then(BTreeSet::last);
        let window = u64::try_from(WINDOW_SLOTS).unwrap_or(u64::MAX);
        highest.is_some_and(|&highest| highest >= sequence.saturating_add(window))
            || self.took_another_way(stream, sequence)
    }

    /// Whether a message of the stream that is a window above this sequence came by another way.
    fn took_another_way(&self, stream: StreamKey, sequence: u64) -> bool {
        let window = u64::try_from(WINDOW_SLOTS).unwrap_or(u64::MAX);
        let paths = self.paths.get(&stream);
        let path_of = |sequence| paths.and_then(|paths| paths.get(&sequence));
        let own = path_of(sequence);
        let from = sequence.saturating_add(window);
        let kept = matches!(stream.class, Class::Storage | Class::Application);
        if stream.class == Class::Control || self.keepers && kept {
            // What the ring says to itself arrives unseen, and what is said of mail and groups.
            let mut above = paths.into_iter().flat_map(|paths| paths.range(from..));
            return above.any(|(_, path)| Some(path) != own);
        }
        let arrived = self.arrived.get(&stream).into_iter();
        let mut above = arrived.flat_map(|arrived| arrived.range(from..));
        above.any(|&of| path_of(of) != own)
    }

    /// Whether an honest network has no other way to come to this refusal.
    fn is_wrong(&self, refusal: &Refusal, at: Circumstances) -> bool {
        let Circumstances {
            wrong_clock,
            store_failed,
            earlier_life,
            gave_up,
        } = at;
        match refusal {
            Refusal::Replay(refusal) => match refusal {
                replay::Refusal::Replay { stream, sequence } => {
                    self.offered_once(*stream, *sequence)
                }
                replay::Refusal::Stale {
                    stream, sequence, ..
                } => self.offered_once(*stream, *sequence) && !self.overtaken(*stream, *sequence),
                replay::Refusal::StoreFailed { .. } => !store_failed,
                replay::Refusal::ClockSuspect { .. } => !wrong_clock,
                // A message that waited for an application that did not take.
                replay::Refusal::Expired { .. } => false,
                _ => true,
            },
            // A route may end, or be full, while the ring is not settled; what is sent after the healing
            // must arrive. Who is in no ring gives a message to nobody but whom it is for.
            Refusal::Route { .. } => !self.routes,
            // A request that was given up long ago, or in an earlier life.
            Refusal::Ring(RingRefusal::Unasked { .. }) => !earlier_life && gave_up <= LATE_MAX,
            // What was sent in an earlier life, or reported by two who passed on a copy each.
            Refusal::UnknownReport { .. } => !earlier_life && self.again.is_empty(),
            Refusal::Verify(VerifyError::Life { .. } | VerifyError::Delegation { .. }) => {
                !wrong_clock
            }
            // What a link that went brought whole, beyond what is kept of it.
            Refusal::Orphaned => false,
            _ => true,
        }
    }
}

impl Checker for Honest {
    fn law(&self) -> &'static str {
        "no honest refusal"
    }

    fn see(&mut self, _: u64, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::OnTheWire { signed, link, .. } => {
                self.note_signed(*signed);
                let paths = self.paths.entry(signed.stream).or_default();
                let path = paths.entry(signed.sequence).or_default();
                *path = path.then(*link);
            }
            Seen::Dispatched { signed, .. } => {
                let arrived = self.arrived.entry(signed.stream).or_default();
                arrived.insert(signed.sequence);
            }
            Seen::Receipt(signed) => self.note_signed(*signed),
            Seen::OfferedAgain(digest) => match self.named(digest) {
                Some((stream, sequence)) => {
                    self.again.entry(stream).or_default().insert(sequence);
                }
                None => {
                    self.early.insert(*digest);
                }
            },
            Seen::Refused {
                node,
                peer,
                class,
                refusal,
                wrong_clock,
                store_failed,
                earlier_life,
                gave_up,
            } => {
                let at = Circumstances {
                    wrong_clock: *wrong_clock,
                    store_failed: *store_failed,
                    earlier_life: *earlier_life,
                    gave_up: *gave_up,
                };
                if !self.is_wrong(refusal, at) {
                    return Ok(());
                }
                return Err(format!(
                    "node {node} refused a frame of {peer} on its {class} lane: {}: {refusal}",
                    refusal.code()
                ));
            }
            Seen::PeerBlamed { node, words } => {
                return Err(format!("node {node} blamed an honest peer: {words}"));
            }
            Seen::Evidence { node } => {
                return Err(format!("node {node} holds evidence against an honest node"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use overlane_core::{Did, NetworkId};

    use super::*;

    /// What a checker says of the second copy of a message, after this was seen of it.
    fn judged(seen: &[Seen<'_>], signed: Signed) -> Result<(), String> {
        let mut honest = Honest::new(true, true);
        for seen in seen {
            honest.see(1, seen)?;
        }
        let refusal = Refusal::Replay(replay::Refusal::Replay {
            stream: signed.stream,
            sequence: signed.sequence,
        });
        let refused = Seen::Refused {
            node: 1,
            peer: signed.stream.origin,
            class: signed.stream.class,
            refusal: &refusal,
            wrong_clock: false,
            store_failed: false,
            earlier_life: false,
            gave_up: 0,
        };
        honest.see(2, &refused)
    }

    /// A mail that its sender holds is on no wire before it is fetched. Its application, which is not sure, offers
    /// the same bytes again once its link is back, and the destination has them: it refuses them, as it must.
    /// (`sim --nodes 16 --minutes 10 --seed 304 --hostile all` blamed it.)
    #[test]
    fn law_a_second_copy_of_what_was_held_is_refused_and_blames_nobody() {
        let signed = Signed {
            stream: StreamKey {
                network: NetworkId(7),
                origin: Did([1; 20]),
                destination: Did([2; 20]),
                class: Class::Application,
            },
            sequence: 9,
            digest: TransactionDigest([3; 32]),
        };
        let (held, again) = (
            || Seen::Receipt(signed),
            || Seen::OfferedAgain(signed.digest),
        );
        let handed = Seen::Dispatched { node: 1, signed };
        assert_eq!(judged(&[held(), handed, again()], signed), Ok(()));
        assert_eq!(judged(&[again(), held()], signed), Ok(()));
        // Nobody offered it again: there is no second copy to refuse.
        assert!(judged(&[held()], signed).is_err());
        let other = Seen::OfferedAgain(TransactionDigest([4; 32]));
        assert!(judged(&[other, held()], signed).is_err());
    }
}
