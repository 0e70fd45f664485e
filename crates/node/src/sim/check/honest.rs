//! Law **no honest refusal**: what an honest node signed and offered once is not refused as stale,
//! as a replay, as a fork or for a quota, no record is lost, and nobody is blamed. Every node of a
//! simulation is honest.
//!
//! A message that is offered again may take another way, and come a window's worth before its turn:
//! what it overtook so is stale, and that is no fault.

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::replay::WINDOW_SLOTS;
use overlane_core::transaction::VerifyError;
use overlane_core::{Coded, StreamKey, TransactionDigest, replay};

use super::{Checker, Seen};
use crate::peer::Refusal;

#[derive(Default)]
pub(super) struct Honest {
    again: BTreeMap<StreamKey, BTreeSet<u64>>,
    signed: BTreeMap<TransactionDigest, (StreamKey, u64)>,
}

impl Honest {
    fn offered_once(&self, stream: StreamKey, sequence: u64) -> bool {
        let again = self.again.get(&stream);
        !again.is_some_and(|again| again.contains(&sequence))
    }

    /// Whether a message of the stream that was offered again is a window above this sequence.
    fn overtaken(&self, stream: StreamKey, sequence: u64) -> bool {
        let highest = self.again.get(&stream).and_then(BTreeSet::last);
        let window = u64::try_from(WINDOW_SLOTS).unwrap_or(u64::MAX);
        highest.is_some_and(|&highest| highest >= sequence.saturating_add(window))
    }

    /// Whether an honest network has no other way to come to this refusal.
    fn is_wrong(&self, refusal: &Refusal, wrong_clock: bool, store_failed: bool) -> bool {
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
            Refusal::Verify(VerifyError::Life { .. } | VerifyError::Delegation { .. }) => {
                !wrong_clock
            }
            // What a link that went brought whole, beyond what is kept of it. `Refusal::Route` is no
            // exception: who is in no ring gives a message to nobody but whom it is for.
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
            Seen::OnTheWire {
                signed,
                again: false,
                ..
            } => {
                let named = (signed.stream, signed.sequence);
                self.signed.insert(signed.digest, named);
            }
            Seen::OfferedAgain(digest) => {
                if let Some(&(stream, sequence)) = self.signed.get(digest) {
                    self.again.entry(stream).or_default().insert(sequence);
                }
            }
            Seen::Refused {
                node,
                peer,
                class,
                refusal,
                wrong_clock,
                store_failed,
            } if self.is_wrong(refusal, *wrong_clock, *store_failed) => {
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
            _ => {}
        }
        Ok(())
    }
}
