//! What waits to be said, node by node.

use std::collections::VecDeque;

use overlane_core::Did;
use overlane_core::transaction::Data;
use overlane_relay::log::{LogId, LogStore};

use super::wire::{FRAME_HEAD_BYTES, FRAMES_BYTES, FRAMES_PER_MESSAGE, FrameBytes, Said};
use super::{Effect, Groups, IN_HAND_MAX, LINES_MAX, STRAYS_MAX, WORDS_MAX, WORDS_MAX_BYTES};

/// What waits to be said to one node.
#[derive(Debug, Default)]
pub(super) struct Line {
    words: VecDeque<Data>,
    words_bytes: usize,
    /// The first frame of the next message: it found no room in the last.
    pub(super) frame: Option<Vec<u8>>,
    /// Messages on their way to its lane.
    pub(super) in_hand: usize,
}

impl<S: LogStore> Groups<S> {
    /// Has something said to a node of one of this node's groups; whether there is room for it.
    pub(super) fn say(&mut self, to: Did, said: &Said<'_>) -> bool {
        if !self.lines.contains_key(&to) && self.lines.len() >= LINES_MAX {
            self.counters.not_said += 1;
            return false;
        }
        let line = self.lines.entry(to).or_default();
        match said.to_data() {
            Ok(data) if line.has_room(&data) => {
                line.words_bytes += data.as_bytes().len();
                line.words.push_back(data);
                true
            }
            _ => {
                self.counters.not_said += 1;
                false
            }
        }
    }

    /// Tells a node that is on no roster here that there is nothing for it; nothing is kept of it.
    pub(super) fn turn_away(&mut self, stranger: Did, log: LogId) {
        self.counters.turned_away += 1;
        if self.strays >= STRAYS_MAX {
            return;
        }
        if let Ok(data) = Said::NotHere(log).to_data() {
            self.strays += 1;
            let to = stranger;
            self.held.push(Effect::Say { to, data });
        }
    }

    /// Says what waits, within what may be on its way to each node. What is said is durable: words
    /// and frames come of what was flushed.
    pub(super) fn pump(&mut self) {
        if self.failure.is_some() {
            return;
        }
        let with_words = self.lines.iter().filter(|(_, line)| line.has_something());
        let mut nodes: Vec<Did> = with_words.map(|(did, _)| *did).collect();
        nodes.extend(self.logs.owing());
        nodes.sort_unstable();
        nodes.dedup();
        for to in nodes {
            while let Some(data) = self.next_message(to) {
                self.lines.entry(to).or_default().in_hand += 1;
                self.out.push_back(Effect::Say { to, data });
            }
            self.forget_line(to);
        }
    }

    /// A node that nothing waits for takes no place.
    pub(super) fn forget_line(&mut self, node: Did) {
        let done = |line: &Line| line.in_hand == 0 && !line.has_something();
        if self.lines.get(&node).is_some_and(done) {
            self.lines.remove(&node);
        }
    }

    fn next_message(&mut self, to: Did) -> Option<Data> {
        let line = self.lines.entry(to).or_default();
        if line.in_hand >= IN_HAND_MAX {
            return None;
        }
        if let Some(word) = line.words.pop_front() {
            line.words_bytes = line.words_bytes.saturating_sub(word.as_bytes().len());
            return Some(word);
        }
        let mut frames: Vec<Vec<u8>> = Vec::new();
        let mut bytes = 0;
        let mut next = line.frame.take();
        while frames.len() < FRAMES_PER_MESSAGE {
            let frame = match next.take() {
                Some(frame) => frame,
                None => match self.logs.poll_transmit_to(&to) {
                    Ok(Some(transmit)) => transmit.frame,
                    Ok(None) => break,
                    Err(error) => {
                        self.fail(&error);
                        return None;
                    }
                },
            };
            let takes = frame.len() + FRAME_HEAD_BYTES;
            if bytes + takes > FRAMES_BYTES {
                if let Some(line) = self.lines.get_mut(&to) {
                    line.frame = Some(frame);
                }
                break;
            }
            bytes += takes;
            frames.push(frame);
        }
        if frames.is_empty() {
            return None;
        }
        let frames = frames.iter().map(|frame| FrameBytes(frame)).collect();
        let said = Said::Frames(frames).to_data();
        said.inspect_err(|error| tracing::error!(%error, "frames of logs fit no transaction"))
            .ok()
    }
}

impl Line {
    fn has_room(&self, word: &Data) -> bool {
        let bytes = self.words_bytes.saturating_add(word.as_bytes().len());
        self.words.len() < WORDS_MAX && bytes <= WORDS_MAX_BYTES
    }

    /// Lets go of all that waits.
    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.words_bytes = 0;
        self.frame = None;
    }

    fn has_something(&self) -> bool {
        self.frame.is_some() || !self.words.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use overlane_core::NetworkId;
    use overlane_core::identity::{
        Account, DELEGATION_TTL_DEFAULT_MS, Delegatee, Delegation, Life, Signer, VerifyContext,
    };
    use overlane_relay::log::testkit::MemoryLogs;
    use zeroize::Zeroizing;

    use super::super::Own;
    use super::*;
    use crate::peer::Now;

    const NOW: Now = Now {
        wall_ms: 1_900_000_000_000,
        steady_ms: 0,
    };

    fn groups() -> Groups<MemoryLogs> {
        let account = Account::ed25519(Zeroizing::new([1; 32])).unwrap();
        let (network, now_ms) = (NetworkId(7), NOW.wall_ms);
        let life = Life {
            issued_ms: now_ms,
            ttl_ms: DELEGATION_TTL_DEFAULT_MS,
        };
        let delegatee = Delegatee::from_seed(Zeroizing::new([2; 32]));
        let delegation = Delegation::issue(&account, &delegatee, network, life).unwrap();
        let delegation = delegation.verify(&VerifyContext { network, now_ms });
        let signer = Signer::new(delegatee, delegation.unwrap()).unwrap();
        let own = Own {
            signer: Arc::new(signer),
            secret: None,
            seed: Zeroizing::new([3; 32]),
        };
        Groups::open(MemoryLogs::default(), own, NOW).unwrap()
    }

    /// A member that asks for a large roster again and again, and takes none.
    #[test]
    fn law_what_waits_for_one_node_is_bounded_in_bytes() {
        let mut groups = groups();
        let to = Did([7; 20]);
        let roster = vec![0; 50_000];
        let most = WORDS_MAX_BYTES / roster.len();
        for number in 0..WORDS_MAX {
            let said = groups.say(to, &Said::Roster(&roster));
            assert_eq!(said, number < most, "{number}");
        }
        assert!(
            groups.say(to, &Said::News(LogId([0; 32]))),
            "a short one fits"
        );
        assert_eq!(groups.counters.not_said, (WORDS_MAX - most) as u64);
        // What left, and what was given up, makes room.
        groups.pump();
        assert!(groups.say(to, &Said::Roster(&roster)));
        groups.lost(to, "link/closed", NOW);
        for _ in 0..most {
            assert!(groups.say(to, &Said::Roster(&roster)));
        }
    }
}
