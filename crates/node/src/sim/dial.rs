//! Who links to whom: the wanted peers, signed offers and answers, and the registry's rule. The
//! simulated twin of `link::handshake` and `runtime::supervisor`.

use overlane_core::identity::{Life as Lifetime, Verified, VerifyContext};
use overlane_core::signal::{Answer, Offer, OfferDigest, SIGNAL_TTL_DEFAULT_MS, Source};
use overlane_core::{Class, Coded, Did};

use super::link::{End, SimLink};
use super::names::{Broken, Topology};
use super::node::{EndId, NETWORK, SimHandle, Wanted, seed_of};
use super::world::{Answered, Event, Life, Offered, World};
use crate::link::config::SIGNAL_DEADLINE_MS;
use crate::link::registry::Direction;
use crate::link::rule::Mark;
use crate::link::{LinkError, LinkId};

/// What a description of a simulated answer begins with; the link's number follows.
pub(super) const ANSWER_SDP: &str = "simulated answer ";

/// The code of a node that is down.
const GONE: &str = "link/shutting_down";

/// An offer, and who brought it.
#[derive(Debug)]
pub(super) struct Brought {
    /// Who is to have signed it, where that is known.
    pub(super) from: Option<Did>,
    pub(super) offer: Offer,
    pub(super) source: Source,
}

/// A link that waits for the end of who dialled.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) link: usize,
    pub(super) mark: Mark,
    pub(super) answer: Signed,
}

/// An answer, and which offer it is to.
#[derive(Debug)]
pub(super) struct Signed {
    pub(super) offer: OfferDigest,
    pub(super) answer: Answer,
}

impl World<'_> {
    /// Chooses whom a node is configured with, and so keeps a link to. In a mesh the two after it,
    /// and one at random; on a ring those who invited it: two at random of those before it.
    pub(super) fn want(&mut self, node: usize) {
        let count = self.nodes.len();
        let mut wanted = match self.config.topology {
            Topology::Mesh => vec![(node + 1) % count, (node + 2) % count, self.any_of(count)],
            Topology::Ring if node == 0 => vec![1],
            Topology::Ring => vec![self.any_of(node), self.any_of(node)],
        };
        wanted.retain(|&to| to != node);
        if let Some(state) = self.nodes.get_mut(node) {
            state.wanted = wanted
                .into_iter()
                .map(|to| (to, Wanted::default()))
                .collect();
        }
    }

    /// Dials every wanted node that is not linked, soon.
    pub(super) fn dial_all(&mut self, node: usize) {
        let wanted: Vec<usize> = self
            .nodes
            .get(node)
            .map(|it| it.wanted.keys().copied().collect())
            .unwrap_or_default();
        for to in wanted {
            let wait_ms = self.between(0, 500);
            self.dial_after(node, to, wait_ms);
        }
    }

    fn dial_after(&mut self, node: usize, to: usize, wait_ms: u64) {
        let life = self.life(node);
        let wanted = self
            .nodes
            .get_mut(node)
            .and_then(|it| it.wanted.get_mut(&to));
        if let Some(wanted) = wanted.filter(|wanted| !wanted.dialling) {
            wanted.dialling = true;
            self.after(wait_ms, Event::Dial(life, to));
        }
    }

    /// A wanted node is linked.
    pub(super) fn linked(&mut self, node: usize, to: usize) {
        let wanted = self
            .nodes
            .get_mut(node)
            .and_then(|it| it.wanted.get_mut(&to));
        if let Some(wanted) = wanted {
            wanted.dialling = false;
            wanted.backoff.reset();
        }
    }

    /// A link to a node is gone: one that is wanted is dialled at once.
    pub(super) fn unlinked(&mut self, node: usize, to: usize) {
        if !self.is_broken(Broken::NoRedial) {
            self.dial_after(node, to, 0);
        }
    }

    /// A dial ended without a link: the next comes after a pause.
    pub(super) fn dial_came_to_nothing(&mut self, node: usize, to: usize) {
        if self.is_broken(Broken::NoRedial) {
            return;
        }
        let random = self.chance.next_u64();
        let wanted = self
            .nodes
            .get_mut(node)
            .and_then(|it| it.wanted.get_mut(&to));
        if let Some(wanted) = wanted.filter(|wanted| wanted.dialling) {
            wanted.dialling = false;
            let pause = wanted.backoff.pause(random).as_millis();
            let pause_ms = u64::try_from(pause).unwrap_or(u64::MAX);
            self.dial_after(node, to, pause_ms);
        }
    }

    pub(super) fn dial(&mut self, life: Life, to: usize) {
        let node = life.node;
        let did = self.nodes.get(to).map(|it| it.did);
        let Some(did) = did.filter(|_| self.living(life).is_some_and(|it| !it.leaving)) else {
            return;
        };
        if self
            .nodes
            .get(node)
            .is_some_and(|it| it.linked().contains(&did))
        {
            return self.linked(node, to);
        }
        let (nonce, now) = (*seed_of(&mut self.chance), self.now_at(node));
        let sdp = format!("simulated offer {}", self.chance.next_u64());
        let Some(running) = self.living(life) else {
            return;
        };
        let Ok(id) = running.registry.begin(Direction::Outbound) else {
            return self.dial_came_to_nothing(node, to);
        };
        let lifetime = lifetime(now.wall_ms);
        let Ok(offer) = Offer::sign(sdp, nonce, lifetime, &running.signer) else {
            return self.dial_fails(life, id, to);
        };
        if self.net.blocked(node, to, self.now_ms).is_some() {
            return self.after(SIGNAL_DEADLINE_MS, Event::DialFails(life, id, to));
        }
        // A connection is made first, then asked on.
        let takes_ms = 3 * self.net.latency_ms(node, to);
        let from = life;
        let offered = Offered {
            from,
            to,
            id,
            offer,
        };
        self.after(takes_ms, Event::Offered(Box::new(offered)));
    }

    pub(super) fn dial_fails(&mut self, life: Life, id: LinkId, to: usize) {
        if let Some(running) = self.living(life) {
            running.registry.remove(id);
            self.dial_came_to_nothing(life.node, to);
        }
    }

    /// An offer is judged, and answered.
    pub(super) fn offered(&mut self, offered: Offered) {
        let Offered {
            from,
            to,
            id,
            offer,
        } = offered;
        let back_ms = self.net.latency_ms(from.node, to);
        let address = u32::try_from(from.node).unwrap_or_default().to_be_bytes();
        let brought = Brought {
            from: None,
            offer,
            source: Source::V4(address),
        };
        match self.answer(to, brought) {
            Ok(Made { link, mark, answer }) => {
                let lost = self.net.blocked(to, from.node, self.now_ms).is_some();
                if lost {
                    return self.after(SIGNAL_DEADLINE_MS, Event::DialFails(from, id, to));
                }
                let digest = answer.offer;
                let answered = Answered {
                    to: from,
                    from: to,
                    id,
                    link,
                    mark,
                    digest,
                    answer: answer.answer,
                };
                self.after(back_ms, Event::Answered(Box::new(answered)));
            }
            Err(_) => self.after(back_ms, Event::DialFails(from, id, to)),
        }
    }

    /// As a node answers an offer, whichever way it came. A link is made that is open at this end.
    ///
    /// # Errors
    /// The code of what refuses it; nothing of the offer is kept but that it came.
    pub(super) fn answer(&mut self, to: usize, brought: Brought) -> Result<Made, &'static str> {
        let Brought {
            from,
            offer,
            source,
        } = brought;
        let now = self.now_at(to);
        let context = VerifyContext {
            network: NETWORK,
            now_ms: now.wall_ms,
        };
        let nonce = *seed_of(&mut self.chance);
        let jitter = self.chance.next_u64();
        let link = self.next_link;
        // Whoever answers names its end of the connection, as a description does.
        let sdp = format!("{ANSWER_SDP}{link}");
        let by_ring = from.is_some();
        let running = self.running(to).ok_or(GONE)?;
        let begun = running.registry.begin(Direction::Inbound(source));
        let id = begun.map_err(|error| error.code())?;
        let admitted = (|| {
            let offer = offer.verify(&context)?;
            let peer = offer.signer();
            if let Some(wanted) = from.filter(|&wanted| wanted != peer) {
                let found = peer;
                return Err(LinkError::OtherSigner { wanted, found });
            }
            let mark = Mark {
                offerer: peer,
                issued_ms: offer.life().issued_ms,
                nonce: *offer.nonce(),
            };
            running.registry.may_admit(id, peer, mark)?;
            running.guard.admit(&offer, source, now.wall_ms)?;
            running.registry.admit(id, peer, mark)?;
            let (digest, lifetime) = (offer.digest(), lifetime(now.wall_ms));
            let answer = Answer::sign(digest, sdp, nonce, lifetime, &running.signer)?;
            Ok((
                peer,
                mark,
                Signed {
                    offer: digest,
                    answer,
                },
            ))
        })();
        let far = admitted
            .as_ref()
            .ok()
            .and_then(|(peer, ..)| self.by_did.get(peer));
        let (far, (peer, mark, answer)) = match (far.copied(), admitted) {
            (Some(far), Ok(admitted)) => (far, admitted),
            (_, refused) => {
                if let Some(running) = self.running(to) {
                    running.registry.remove(id);
                }
                self.heed_registry(to);
                return Err(refused.err().map_or(GONE, |error| error.code()));
            }
        };
        self.heed_registry(to);
        self.next_link += 1;
        let end = End::new(id, jitter, now.steady_ms);
        let state = SimLink {
            ends: [None, Some(end)],
            ways: Default::default(),
            nodes: [far, to],
            by_ring,
        };
        self.links.insert(link, state);
        self.attach((link, 1), to, id, peer);
        self.open_channels((link, 1));
        Ok(Made { link, mark, answer })
    }

    /// An answer is judged: the link begins.
    pub(super) fn answered(&mut self, answered: Answered) {
        let Answered {
            to,
            from,
            id,
            link,
            mark,
            digest,
            answer,
        } = answered;
        let context = VerifyContext {
            network: NETWORK,
            now_ms: self.now_at(to.node).wall_ms,
        };
        let Some(running) = self.living(to) else {
            return;
        };
        let answer = answer.verify(digest, &context).ok();
        let admitted = answer.filter(|answer| {
            let peer = answer.signer();
            running.registry.admit(id, peer, mark).is_ok()
        });
        self.heed_registry(to.node);
        let opened = admitted.is_some_and(|answer| self.begin_link(to.node, id, link, &answer));
        if !opened {
            self.dial_fails(to, id, from);
        }
    }

    /// The end of who dialled; `false` if the other one is gone.
    pub(super) fn begin_link(
        &mut self,
        node: usize,
        id: LinkId,
        link: usize,
        answer: &Verified<Answer>,
    ) -> bool {
        let (now, jitter) = (self.now_at(node), self.chance.next_u64());
        let Some(state) = self.links.get_mut(&link).filter(|it| it.node(0) == node) else {
            return false;
        };
        let mut end = End::new(id, jitter, now.steady_ms);
        end.witness = Some((answer.life().issued_ms, now.steady_ms));
        state.ends = [Some(end), state.ends.get_mut(1).and_then(Option::take)];
        self.attach((link, 0), node, id, answer.signer());
        self.open_channels((link, 0));
        true
    }

    fn attach(&mut self, at: EndId, node: usize, id: LinkId, peer: Did) {
        let far = self.by_did.get(&peer).copied();
        let Some(running) = self.running(node) else {
            return;
        };
        running.links.insert(id, at);
        running.far.extend(far.map(|far| (id, far)));
        let handle = SimHandle::new(at, &running.ended);
        if running.registry.attach(id, peer, handle).is_err() {
            // It gave way while the answer was on its way.
            let words = "another link took its place";
            self.transport_over(at, words);
        }
    }

    /// The transport is made: the channels come up one after the other.
    fn open_channels(&mut self, at: EndId) {
        let nodes = self.links.get(&at.0).map(|link| link.nodes);
        let [one, other] = nodes.unwrap_or_default();
        let round_ms = 2 * self.net.latency_ms(one, other);
        for class in Class::ALL {
            let wait_ms = round_ms + self.between(0, 100);
            self.after(wait_ms, Event::OpenChannel(at, class));
        }
        self.dirty_ends.insert(at);
    }
}

pub(super) fn lifetime(issued_ms: u64) -> Lifetime {
    Lifetime {
        issued_ms,
        ttl_ms: SIGNAL_TTL_DEFAULT_MS,
    }
}
