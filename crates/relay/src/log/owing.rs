//! What peers are owed, and what each may still cost.

use super::bounds::{
    ASKED_MAX, CHECK_WORK_BYTES, FRAME_WORK_BYTES, OWED_MAX, PEER_IDLE_MS, PEERS_MAX,
};
use super::frame::{Frame, Refused};
use super::id::LogId;
use super::logs::{Closing, Logs};
use super::mutant::Mutant;
use super::refusal::Refusal;
use super::rules::Rules;
use super::store::LogStore;
use super::told::{LogsError, Owed, PeerState, Transmit};
use overlane_core::{Coded, Did};
use overlane_recon::Budget;
use std::collections::VecDeque;

impl<S: LogStore, R: Rules> Logs<S, R> {
    /// What to send next, until there is nothing: peer by peer, each in its order.
    ///
    /// # Errors
    /// The store fails.
    pub fn poll_transmit(&mut self) -> Closing<Option<Transmit>, S> {
        if self.is_closed() {
            return Err(LogsError::Closed);
        }
        while let Some(to) = self.next_peer() {
            let Some(owed) = self.peers.get_mut(&to).and_then(|it| it.owed.pop_front()) else {
                continue;
            };
            let framed = self.frame(to, owed);
            if let Some(frame) = framed.map_err(|error| self.close(error))? {
                return Ok(Some(Transmit { to, frame }));
            }
        }
        Ok(None)
    }

    /// What to send to one peer next, in its order; nothing while it is owed nothing.
    ///
    /// # Errors
    /// The store fails.
    pub fn poll_transmit_to(&mut self, to: &Did) -> Closing<Option<Transmit>, S> {
        if self.is_closed() {
            return Err(LogsError::Closed);
        }
        while let Some(owed) = self.peers.get_mut(to).and_then(|it| it.owed.pop_front()) {
            let framed = self.frame(*to, owed);
            if let Some(frame) = framed.map_err(|error| self.close(error))? {
                return Ok(Some(Transmit { to: *to, frame }));
            }
        }
        Ok(None)
    }

    /// The peers that are owed something.
    pub fn owing(&self) -> impl Iterator<Item = Did> {
        let peers = self.peers.iter();
        peers
            .filter(|(_, peer)| !peer.owed.is_empty())
            .map(|(did, _)| *did)
    }

    /// The link to a peer is gone: what it was owed and what it asked are forgotten.
    pub fn handle_disconnected(&mut self, peer: &Did) {
        self.peers.remove(peer);
        self.end_exchanges(peer);
    }

    /// Forgets peers that are owed nothing and have said nothing for [`PEER_IDLE_MS`]: by then what
    /// they may cost is whole again.
    pub fn forget_idle(&mut self, now_ms: u64) {
        let exchanges = &self.exchanges;
        self.peers.retain(|did, peer| {
            let idle = peer.heard_ms.saturating_add(PEER_IDLE_MS) < now_ms;
            let drives = exchanges.keys().any(|(_, with)| with == did);
            drives || !idle || !peer.owed.is_empty() || !peer.asked.is_empty()
        });
    }

    /// Charges a frame to its peer before anything is done for it.
    pub(super) fn charge(
        &mut self,
        account: &Did,
        frame: &Frame<'_>,
        now_ms: u64,
    ) -> std::result::Result<(), Refusal> {
        let check = matches!(frame, Frame::Send { .. });
        let work = FRAME_WORK_BYTES + if check { CHECK_WORK_BYTES } else { 0 };
        let peer = self.peer(account)?;
        peer.heard_ms = now_ms;
        peer.budget.ask(now_ms).map_err(|it| Refusal::Exhausted {
            of: it.of,
            retry_ms: it.retry_ms,
        })?;
        peer.budget.charge(work, 0);
        Ok(())
    }

    pub(super) fn peer(&mut self, account: &Did) -> std::result::Result<&mut PeerState, Refusal> {
        if !self.peers.contains_key(account) && self.peers.len() >= PEERS_MAX {
            return Err(Refusal::PeersFull);
        }
        let allowance = self.rules.allowance();
        Ok(self.peers.entry(*account).or_insert_with(|| PeerState {
            owed: VecDeque::new(),
            asked: VecDeque::new(),
            heard_ms: 0,
            budget: Budget::per_minute(allowance.work_bytes, allowance.push_bytes),
        }))
    }

    /// Queues a frame for a peer. One that takes nothing of what it is owed loses what is owed
    /// beyond the bound: it asks or sends again.
    pub(super) fn owe(&mut self, to: Did, owed: Owed) {
        if let Ok(peer) = self.peer(&to) {
            if peer.owed.len() < OWED_MAX {
                peer.owed.push_back(owed);
            } else {
                self.counters.unexpected += 1;
            }
        }
    }

    pub(super) fn refuse(&mut self, to: Did, log: LogId, what: Refused, refusal: &Refusal) {
        let code = refusal.code().to_owned();
        self.owe(to, Owed::Refuse(log, what, code, refusal.retry_ms()));
    }

    /// The next peer that is owed something, after the one served last.
    fn next_peer(&mut self) -> Option<Did> {
        let owing = |(did, peer): (&Did, &PeerState)| (!peer.owed.is_empty()).then_some(*did);
        let after = self.turn.and_then(|turn| {
            let bounds = (std::ops::Bound::Excluded(turn), std::ops::Bound::Unbounded);
            self.peers.range(bounds).find_map(owing)
        });
        let next = after.or_else(|| self.peers.iter().find_map(owing));
        self.turn = next;
        next
    }

    pub(super) fn may_ask(&mut self, account: &Did) -> std::result::Result<(), Refusal> {
        let anyway = self.is_broken(Mutant::AnswerTheUnread);
        let peer = self.peer(account)?;
        let pushes = peer
            .owed
            .iter()
            .filter(|it| matches!(it, Owed::Push(..) | Owed::Named(..) | Owed::Recon(..)));
        let owed = pushes.count();
        if owed > 0 && !anyway {
            return Err(Refusal::Unread { owed });
        }
        if peer.asked.len() >= ASKED_MAX {
            return Err(Refusal::Unread {
                owed: peer.asked.len(),
            });
        }
        Ok(())
    }
}
