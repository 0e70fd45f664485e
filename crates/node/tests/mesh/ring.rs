//! The ring's part of a mesh: links made by signed offers that others carry, questions and answers.

#![allow(
    dead_code,
    reason = "a mesh serves several tests, each with its part of it"
)]

use std::collections::BTreeMap;

use overlane_core::Did;
use overlane_core::identity::{Life, VerifyContext};
use overlane_core::ring::{RingAnswer, RingError};
use overlane_core::signal::{Answer, Offer, OfferDigest, SIGNAL_TTL_DEFAULT_MS};
use overlane_node::peer::{Ask, AskId, OfferId};

use super::{Mesh, NETWORK};

/// What one node of a mesh has asked.
#[derive(Default)]
pub(crate) struct Ring {
    dials: BTreeMap<AskId, (Did, OfferDigest)>,
    /// What became of the test's own questions.
    pub(crate) answers: BTreeMap<AskId, Result<RingAnswer, RingError>>,
    /// Offers it answered.
    pub(crate) offers_answered: u64,
    next: u64,
}

impl Ring {
    fn draw(&mut self) -> AskId {
        self.next += 1;
        AskId(self.next)
    }
}

impl Mesh {
    /// Has every node join the ring, by way of whom it is linked to.
    pub(crate) fn join_ring(&mut self) {
        for index in 0..self.nodes.len() {
            self.join_one(index);
        }
    }

    /// Has one node join.
    pub(crate) fn join_one(&mut self, index: usize) {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.random.below(u64::MAX).to_le_bytes());
        let now = self.now(index);
        self.peer(index).join_ring(seed, now);
        self.drain(index);
    }

    /// Lets so much time pass, and everything that happens in it.
    pub(crate) fn run_for(&mut self, ms: u64) {
        let until_ms = self.now_ms + ms;
        self.run(|mesh| {
            mesh.next_due_ms().is_none_or(|due_ms| due_ms > until_ms) && mesh.is_still()
        });
        self.now_ms = self.now_ms.max(until_ms);
    }

    /// Asks by way of the ring; the answer is in the node's `ring.answers`.
    pub(crate) fn ask(&mut self, index: usize, ask: Ask) -> AskId {
        let id = self.nodes[index].ring.draw();
        let now = self.now(index);
        self.peer(index).ask(id, ask, now);
        self.drain(index);
        id
    }

    pub(super) fn offer_link(&mut self, index: usize, peer: Did) {
        let offer = self.signed_offer(index, &format!("link of {index} to {peer}"));
        let id = self.nodes[index].ring.draw();
        let dial = (peer, offer.digest());
        self.nodes[index].ring.dials.insert(id, dial);
        let now = self.now(index);
        let ask = Ask::Offer(peer, offer.to_bytes());
        self.peer(index).ask(id, ask, now);
    }

    /// An offer that is signed now by this node.
    pub(crate) fn signed_offer(&mut self, index: usize, sdp: &str) -> Offer {
        let mut nonce = [0; 32];
        nonce[..8].copy_from_slice(&self.random.below(u64::MAX).to_le_bytes());
        let life = self.signal_life(index);
        Offer::sign(sdp.to_owned(), nonce, life, &self.nodes[index].signer).unwrap()
    }

    pub(super) fn answer_link(&mut self, index: usize, id: OfferId, from: Did, bytes: &[u8]) {
        if self.holds_offers {
            return;
        }
        let answer = self.answer_to(index, from, bytes);
        self.nodes[index].ring.offers_answered += u64::from(answer.is_ok());
        let now = self.now(index);
        self.peer(index).handle_offer_answered(id, answer, now);
    }

    fn answer_to(&self, index: usize, from: Did, bytes: &[u8]) -> Result<Vec<u8>, &'static str> {
        let offer = Offer::from_bytes(bytes).map_err(|_| "signal/malformed")?;
        let offer = offer
            .verify(&self.signal_context(index))
            .map_err(|_| "signal/bad_signature")?;
        let far = self.nodes.iter().position(|node| node.did == from);
        let apart = |index: usize| self.apart.contains(&index);
        match far {
            Some(far) if apart(far) && apart(index) => return Err("transport/open"),
            Some(far) if self.are_strangers(far, index) => return Err("transport/open"),
            Some(_) if offer.signer() == from => {}
            _ => return Err("link/other_signer"),
        }
        let (sdp, life) = ("answered".to_owned(), self.signal_life(index));
        let signer = &self.nodes[index].signer;
        let answer = Answer::sign(offer.digest(), sdp, *offer.nonce(), life, signer);
        Ok(answer.unwrap().to_bytes())
    }

    pub(super) fn asked(&mut self, index: usize, id: AskId, result: Result<RingAnswer, RingError>) {
        let Some((peer, offer)) = self.nodes[index].ring.dials.remove(&id) else {
            self.nodes[index].ring.answers.insert(id, result);
            return;
        };
        let answered = match result {
            Ok(RingAnswer::Answered(bytes)) => {
                let context = self.signal_context(index);
                let answer = Answer::from_bytes(&bytes).unwrap().verify(offer, &context);
                answer.is_ok_and(|answer| answer.signer() == peer)
            }
            _ => false,
        };
        let far = self.nodes.iter().position(|node| node.did == peer);
        let up = far.filter(|&far| answered && self.nodes[far].peer.is_some());
        match up {
            Some(far) if self.linked(index, far) => {}
            Some(far) => drop(self.link(index, far)),
            None => {
                let now = self.now(index);
                let peer_of = self.peer(index);
                peer_of.handle_connect_failed(peer, "link/not_opened", now);
            }
        }
    }

    /// Whether two nodes have a link.
    pub(crate) fn linked(&self, one: usize, other: usize) -> bool {
        let mut links = self.links.values();
        links.any(|ends| ends.contains(&one) && ends.contains(&other))
    }

    fn are_strangers(&self, one: usize, other: usize) -> bool {
        self.strangers.contains(&[one, other]) || self.strangers.contains(&[other, one])
    }

    fn is_still(&self) -> bool {
        self.steps().is_empty()
    }

    fn next_due_ms(&self) -> Option<u64> {
        let nodes = self.nodes.iter();
        let due = nodes.filter_map(|node| node.peer.as_ref()?.poll_timeout());
        due.min().map(|due_ms| super::START_MS + due_ms)
    }

    fn signal_life(&self, index: usize) -> Life {
        Life {
            issued_ms: self.now(index).wall_ms,
            ttl_ms: SIGNAL_TTL_DEFAULT_MS,
        }
    }

    fn signal_context(&self, index: usize) -> VerifyContext {
        VerifyContext {
            network: NETWORK,
            now_ms: self.now(index).wall_ms,
        }
    }
}
