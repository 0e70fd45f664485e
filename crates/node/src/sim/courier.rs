//! Links by way of the ring: offers that go out and come in as control messages. The simulated twin of
//! `runtime::courier`.

use overlane_core::identity::VerifyContext;
use overlane_core::lane::bounds::HANDSHAKE_DEADLINE_MS;
use overlane_core::ring::{RingAnswer, RingError};
use overlane_core::signal::{Answer, Offer, OfferDigest, Source};
use overlane_core::{Coded, Did};

use super::dial::{ANSWER_SDP, Brought, lifetime};
use super::node::{NETWORK, seed_of};
use super::world::{Event, Life, World};
use crate::link::registry::Direction;
use crate::link::rule::Mark;
use crate::link::{LinkError, LinkId};
use crate::peer::{Ask, AskId, Effect, OfferId};

/// How often who waits for the link that stands looks for it.
const CROSSED_EVERY_MS: u64 = 500;

/// The code of an offer that gives way to the peer's own, whose link is to be waited for.
const CROSSED: &str = "link/crossed";

/// An offer of this node's on its way.
#[derive(Debug)]
pub(super) struct RingDial {
    peer: Did,
    id: LinkId,
    mark: Mark,
    digest: OfferDigest,
}

/// An offer of another node that the ring brought.
#[derive(Debug)]
pub(super) struct Carried {
    pub(super) offer: OfferId,
    pub(super) from: Did,
    pub(super) by: Did,
    pub(super) bytes: Vec<u8>,
}

/// How long a node takes to describe its end of a connection.
const DESCRIBED_WITHIN_MS: u64 = 50;

impl World<'_> {
    /// Does what the ring wants done; gives back what is something else.
    pub(super) fn did_for_ring(&mut self, node: usize, effect: Effect) -> Option<Effect> {
        let life = self.life(node);
        match effect {
            Effect::Connect { peer } => {
                let wait_ms = self.between(1, DESCRIBED_WITHIN_MS);
                self.after(wait_ms, Event::Connect(life, peer));
            }
            Effect::Offered {
                offer,
                from,
                by,
                bytes,
            } => {
                let wait_ms = self.between(1, DESCRIBED_WITHIN_MS);
                let carried = Carried {
                    offer,
                    from,
                    by,
                    bytes,
                };
                self.after(wait_ms, Event::Carried(life, Box::new(carried)));
            }
            Effect::Asked { id, result } => self.asked(node, id, result),
            other => return Some(other),
        }
        None
    }

    /// The ring needs a link: an offer goes to its node as a control message.
    pub(super) fn connect(&mut self, life: Life, peer: Did) {
        let (nonce, now) = (*seed_of(&mut self.chance), self.now_at(life.node));
        let sdp = format!("simulated offer {}", self.chance.next_u64());
        let Some(running) = self.living(life) else {
            return;
        };
        let made = running.registry.begin(Direction::Outbound).and_then(|id| {
            let lifetime = lifetime(now.wall_ms);
            match Offer::sign(sdp, nonce, lifetime, &running.signer) {
                Ok(offer) => Ok((id, offer)),
                Err(error) => {
                    running.registry.remove(id);
                    Err(error.into())
                }
            }
        });
        let (id, offer) = match made {
            Ok(made) => made,
            Err(error) => return self.connect_failed(life.node, peer, error.code()),
        };
        let mark = Mark {
            offerer: running.signer.did(),
            issued_ms: now.wall_ms,
            nonce,
        };
        running.next_ask += 1;
        let ask = AskId(running.next_ask);
        let digest = offer.digest();
        let dial = RingDial {
            peer,
            id,
            mark,
            digest,
        };
        running.dials.insert(ask, dial);
        let bytes = offer.to_bytes();
        running.peer.ask(ask, Ask::Offer(peer, bytes), now);
        self.dirty_nodes.insert(life.node);
    }

    /// A node looks at an offer that the ring brought, and answers it.
    pub(super) fn carried(&mut self, life: Life, carried: Carried) {
        let Carried {
            offer: id,
            from,
            by,
            bytes,
        } = carried;
        if self.living(life).is_none() {
            return;
        }
        let answered = match Offer::from_bytes(&bytes) {
            Ok(offer) => {
                let brought = Brought {
                    from: Some(from),
                    offer,
                    source: Source::Carrier(by),
                };
                self.answer(life.node, brought)
            }
            Err(error) => Err(error.code()),
        };
        let answer = match answered {
            Ok(made) => {
                self.counts.offers_answered += 1;
                Ok(made.answer.answer.to_bytes())
            }
            Err(code) => {
                *self.counts.offers_failed.entry(code).or_default() += 1;
                Err(code)
            }
        };
        let now = self.now_at(life.node);
        if let Some(running) = self.living(life) {
            running.peer.handle_offer_answered(id, answer, now);
            self.dirty_nodes.insert(life.node);
        }
    }

    /// What came of an offer.
    fn asked(&mut self, node: usize, id: AskId, result: Result<RingAnswer, RingError>) {
        let Some(dial) = self.running(node).and_then(|it| it.dials.remove(&id)) else {
            let words = format!("node {node} answered a question twice");
            return self.broke("one result a question", words);
        };
        let concluded = match result {
            Ok(RingAnswer::Answered(bytes)) => self.conclude(node, &dial, &bytes),
            Ok(_) => Err("ring/other_answer"),
            Err(RingError::Declined { code, .. }) if code == CROSSED => Err(CROSSED),
            Err(error) => Err(error.code()),
        };
        self.heed_registry(node);
        let Err(code) = concluded else { return };
        *self.counts.offers_failed.entry(code).or_default() += 1;
        if let Some(running) = self.running(node) {
            running.registry.remove(dial.id);
        }
        if code == CROSSED {
            let until_ms = self.now_ms + HANDSHAKE_DEADLINE_MS;
            let life = self.life(node);
            return self.after(CROSSED_EVERY_MS, Event::Crossed(life, dial.peer, until_ms));
        }
        self.connect_failed(node, dial.peer, code);
    }

    /// Judges the answer to an offer of this node's, and begins the link.
    fn conclude(&mut self, node: usize, dial: &RingDial, bytes: &[u8]) -> Result<(), &'static str> {
        let context = VerifyContext {
            network: NETWORK,
            now_ms: self.now_at(node).wall_ms,
        };
        let answer = Answer::from_bytes(bytes).map_err(|error| error.code())?;
        let verified = answer.verify(dial.digest, &context);
        let answer = verified.map_err(|error| error.code())?;
        let (wanted, found) = (dial.peer, answer.signer());
        if wanted != found {
            return Err(LinkError::OtherSigner { wanted, found }.code());
        }
        let running = self.running(node).ok_or(CROSSED)?;
        let admitted = running.registry.admit(dial.id, found, dial.mark);
        admitted.map_err(|error| error.code())?;
        let link = answer.sdp().strip_prefix(ANSWER_SDP);
        let link = link.and_then(|link| link.parse().ok());
        match link.is_some_and(|link| self.begin_link(node, dial.id, link, &answer)) {
            true => Ok(()),
            false => Err("link/not_opened"),
        }
    }

    /// The offer of a node gave way to its peer's: that one's link is waited for.
    pub(super) fn crossed(&mut self, life: Life, peer: Did, until_ms: u64) {
        let late = self.now_ms >= until_ms;
        let Some(running) = self.living(life) else {
            return;
        };
        match running.registry.up_to(peer) {
            Some(_) => {}
            None if late || !running.registry.may_reach(peer) => {
                self.connect_failed(life.node, peer, CROSSED);
            }
            None => self.after(CROSSED_EVERY_MS, Event::Crossed(life, peer, until_ms)),
        }
    }

    /// A link that the ring needed could not be had.
    pub(super) fn connect_failed(&mut self, node: usize, peer: Did, code: &'static str) {
        let now = self.now_at(node);
        if let Some(running) = self.running(node) {
            running.peer.handle_connect_failed(peer, code, now);
            self.dirty_nodes.insert(node);
        }
    }
}
