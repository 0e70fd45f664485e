//! Those that mail of this node's own was handed on to.
//!
//! A holder that leaves a chain hands on what it holds, and has no word on its end. Whoever holds it then says what became
//! of it at once, and again to a sender that links to it. A sender that was away then, and is linked to none of them, seeks
//! them out: while the end is not known it asks the ring who holds the destination's mail by now, and says there that it is
//! here. Law **sought less and less**: so much for each destination after a pause that doubles, and for so many at a time.
//!
//! What those say counts as any such word does: where the ring names them by now.

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::Did;
use overlane_core::replay::Now;
use overlane_relay::inbox::Outcome;

use super::super::Peer;
use super::keeper::Job;
use super::wire::Said;
use super::{ROUND_TICKS, TICK_MS};

/// Words on the end of mail that wait until it is known whether the ring names who says them.
pub const HEIRS_WAITING_MAX: usize = 256;

/// Destinations whose holders are sought at a time, at most: while the ring has not answered of as many, no other is.
pub const HEIRS_SOUGHT_MAX: usize = 64;

/// The longest pause before those of one destination are sought again, in milliseconds: an hour.
pub const HEIRS_PAUSE_MAX_MS: u64 = 3_600_000;

/// The first pause: a round.
const PAUSE_MS: u64 = TICK_MS * ROUND_TICKS;

/// What is known of them.
#[derive(Debug, Default)]
pub(super) struct Heirs {
    /// Those that were not asked, and say what became of a mail that others hold: it counts where the ring names
    /// them by now, as those who hold hand on.
    said: Vec<(Did, Outcome)>,
    /// Whose holders are sought.
    sought: BTreeMap<Did, Sought>,
}

/// How far those who hold one destination's mail are sought.
#[derive(Debug)]
struct Sought {
    /// When they are sought next, by the steady clock.
    due_ms: u64,
    pause_ms: u64,
    /// The ring was asked, and has not answered.
    asked: bool,
}

impl Heirs {
    /// The destinations whose holders are to be sought now, of those that mail is open for.
    fn due(&mut self, open: &BTreeSet<Did>, now_ms: u64) -> Vec<Did> {
        self.sought
            .retain(|destination, sought| sought.asked || open.contains(destination));
        for &destination in open {
            self.sought.entry(destination).or_insert(Sought {
                due_ms: now_ms,
                pause_ms: PAUSE_MS,
                asked: false,
            });
        }
        let asked = self.sought.values().filter(|it| it.asked).count();
        let due = self.sought.iter_mut();
        let due = due.filter(|it| !it.1.asked && it.1.due_ms <= now_ms);
        let mut due: Vec<_> = due.collect();
        due.sort_by_key(|(_, sought)| sought.due_ms);
        due.truncate(HEIRS_SOUGHT_MAX.saturating_sub(asked));
        let begin = |(&destination, sought): (&Did, &mut Sought)| {
            sought.asked = true;
            sought.due_ms = now_ms.saturating_add(sought.pause_ms);
            destination
        };
        due.into_iter().map(begin).collect()
    }

    /// The ring has answered who holds a destination's mail, or that it does not know; whether that was asked here.
    fn answered(&mut self, destination: &Did, known: bool) -> bool {
        let sought = self.sought.get_mut(destination);
        let Some(sought) = sought.filter(|it| it.asked) else {
            return false;
        };
        sought.asked = false;
        if known {
            sought.pause_ms = sought.pause_ms.saturating_mul(2).min(HEIRS_PAUSE_MAX_MS);
        }
        true
    }
}

impl Peer {
    /// Asks the ring who holds mail of this node's own whose end is not known.
    pub(super) fn seek_heirs(&mut self, now: Now) {
        let open = self.mail.sender.open_destinations();
        for destination in self.mail.heirs.due(&open, now.steady_ms) {
            if !self.look_up(destination, false, now) {
                self.mail.heirs.answered(&destination, false);
            }
        }
    }

    /// The ring named these, or nobody: those that are not known to hold are asked what became of the mail.
    pub(super) fn heirs_known(
        &mut self,
        destination: Did,
        chain: Result<&[Did], &'static str>,
        now: Now,
    ) {
        // A node that is alone names itself.
        let others = chain.is_ok_and(|chain| chain.iter().any(|it| *it != self.did));
        let sought = self.mail.heirs.answered(&destination, others);
        if let Ok(chain) = chain
            && sought
        {
            let holders = self.mail.sender.holders();
            for &heir in chain.iter().filter(|it| !holders.contains(it)) {
                self.say_here(heir, now);
            }
        }
        let said = std::mem::take(&mut self.mail.heirs.said);
        for (by, outcome) in said {
            if outcome.destination != destination {
                self.mail.heirs.said.push((by, outcome));
            } else if chain.is_ok_and(|chain| chain.contains(&by)) {
                self.keep(Job::HandedOn(by, outcome), false, now);
            }
        }
    }

    /// One that was not asked says what became of a mail: the ring is asked whether it is named by now.
    pub(super) fn handle_heir(&mut self, by: Did, outcome: Outcome, now: Now) {
        let destination = outcome.destination;
        let said = &mut self.mail.heirs.said;
        if said.len() < HEIRS_WAITING_MAX && !said.contains(&(by, outcome)) {
            said.push((by, outcome));
            self.forget_chain(destination);
            self.look_up(destination, false, now);
        }
    }

    /// Says to one that may hold mail of this node's own that it is here: it tells what became of it.
    pub(super) fn say_here(&mut self, holder: Did, now: Now) {
        if holder == self.did {
            self.keep(Job::Met(holder), false, now);
        } else {
            self.say_of_mail(holder, &Said::Here, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn did(number: usize) -> Did {
        let mut did = [9; 20];
        did[..8].copy_from_slice(&number.to_be_bytes());
        Did(did)
    }

    #[test]
    fn law_heirs_are_sought_for_some_at_a_time_and_less_and_less() {
        let mut heirs = Heirs::default();
        let open: BTreeSet<Did> = (0..100).map(did).collect();
        // All have their turn before one has its second.
        let first = heirs.due(&open, 0);
        // While the ring has not answered, no more are sought, whatever became of the mail.
        assert!(heirs.due(&open, PAUSE_MS).is_empty());
        assert!(heirs.due(&BTreeSet::new(), PAUSE_MS).is_empty());
        assert!(heirs.answered(&first[0], true));
        assert_eq!(heirs.due(&open, PAUSE_MS).len(), 1);
        let mut heirs = Heirs::default();
        let first = heirs.due(&open, 0);
        assert!(first.iter().all(|it| heirs.answered(it, true)));
        let second = heirs.due(&open, PAUSE_MS);
        assert_eq!((first.len(), second.len()), (HEIRS_SOUGHT_MAX, 64));
        let both: BTreeSet<Did> = first.iter().chain(&second).copied().collect();
        assert_eq!(both, open);
        // One whose mail has ended is sought no more, and nothing is kept of it.
        assert!(second.iter().all(|it| heirs.answered(it, true)));
        let one = BTreeSet::from([did(7)]);
        assert!(heirs.due(&one, PAUSE_MS).len() <= 1);
        assert_eq!(heirs.sought.len(), 1);
        let mut heirs = Heirs::default();
        let mut at = Vec::new();
        for round in 0..24 * 60 {
            let now_ms = round * PAUSE_MS;
            if heirs.due(&one, now_ms) == [did(7)] {
                assert!(heirs.answered(&did(7), true));
                assert!(!heirs.answered(&did(7), true), "it was asked once");
                at.push(now_ms / PAUSE_MS);
            }
        }
        assert_eq!(at[..7], [0, 1, 3, 7, 15, 31, 63]);
        assert!(at.len() < 40, "in a day: {}", at.len());
        let pauses = at.windows(2).map(|it| (it[1] - it[0]) * PAUSE_MS);
        assert_eq!(pauses.max(), Some(HEIRS_PAUSE_MAX_MS));
        // Where the ring does not answer, it is asked in each round.
        let mut heirs = Heirs::default();
        for round in 0..9 {
            assert_eq!(heirs.due(&one, round * PAUSE_MS), [did(7)]);
            assert!(heirs.answered(&did(7), false));
        }
    }
}
