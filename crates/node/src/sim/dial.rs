//! Who links to whom: the wanted peers, signed offers and answers, and the registry's rule. The
//! simulated twin of `link::handshake` and `runtime::supervisor`.

use overlane_core::Class;
use overlane_core::identity::{Life as Lifetime, VerifyContext};
use overlane_core::signal::{Answer, Offer, SIGNAL_TTL_DEFAULT_MS, Source};

use super::config::Broken;
use super::link::{End, SimLink};
use super::node::{EndId, NETWORK, SimHandle, Wanted, seed_of};
use super::world::{Answered, Event, Life, Offered, World};
use crate::link::LinkId;
use crate::link::config::SIGNAL_DEADLINE_MS;
use crate::link::registry::Direction;
use crate::link::rule::Mark;

impl World<'_> {
    /// Chooses whom a node keeps a link to: the two after it, and one at random.
    pub(super) fn want(&mut self, node: usize) {
        let count = self.nodes.len();
        let drawn = self.chance.below(count.try_into().unwrap_or(1));
        let drawn = usize::try_from(drawn).unwrap_or_default();
        let mut wanted = vec![(node + 1) % count, (node + 2) % count, drawn];
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
        match self.answer(from, to, offer) {
            Some(answered) => {
                let lost = self.net.blocked(to, from.node, self.now_ms).is_some();
                if lost {
                    return self.after(SIGNAL_DEADLINE_MS, Event::DialFails(from, id, to));
                }
                let answered = Answered { id, ..answered };
                self.after(back_ms, Event::Answered(Box::new(answered)));
            }
            None => self.after(back_ms, Event::DialFails(from, id, to)),
        }
    }

    fn answer(&mut self, from: Life, to: usize, offer: Offer) -> Option<Answered> {
        let now = self.now_at(to);
        let context = VerifyContext {
            network: NETWORK,
            now_ms: now.wall_ms,
        };
        let nonce = *seed_of(&mut self.chance);
        let sdp = format!("simulated answer {}", self.chance.next_u64());
        let jitter = self.chance.next_u64();
        let link = self.next_link;
        let running = self.running(to)?;
        let offer = offer.verify(&context).ok()?;
        let address = u32::try_from(from.node).ok()?.to_be_bytes();
        let source = Source::V4(address);
        let id = running.registry.begin(Direction::Inbound(source)).ok()?;
        let mark = Mark {
            offerer: offer.signer(),
            issued_ms: offer.life().issued_ms,
            nonce: *offer.nonce(),
        };
        let peer = offer.signer();
        let admitted = (|| {
            running.registry.may_admit(id, peer, mark).ok()?;
            running.guard.admit(&offer, source, now.wall_ms).ok()?;
            running.registry.admit(id, peer, mark).ok()?;
            let lifetime = lifetime(now.wall_ms);
            Answer::sign(offer.digest(), sdp, nonce, lifetime, &running.signer).ok()
        })();
        let Some(answer) = admitted else {
            running.registry.remove(id);
            self.heed_registry(to);
            return None;
        };
        self.next_link += 1;
        let end = End::new(id, jitter, now.steady_ms);
        self.links.insert(
            link,
            SimLink {
                ends: [None, Some(end)],
                ways: Default::default(),
                nodes: [from.node, to],
            },
        );
        self.attach((link, 1), to, id, peer);
        self.open_channels((link, 1));
        Some(Answered {
            to: from,
            from: to,
            id,
            link,
            mark,
            digest: offer.digest(),
            answer,
        })
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
        let now = self.now_at(to.node);
        let context = VerifyContext {
            network: NETWORK,
            now_ms: now.wall_ms,
        };
        let jitter = self.chance.next_u64();
        let Some(running) = self.living(to) else {
            return;
        };
        let issued_ms = answer.life().issued_ms;
        let peer = answer.verify(digest, &context).ok().map(|it| it.signer());
        let peer = peer.filter(|&peer| running.registry.admit(id, peer, mark).is_ok());
        self.heed_registry(to.node);
        let state = self.links.get_mut(&link);
        let Some((peer, state)) = peer.zip(state) else {
            return self.dial_fails(to, id, from);
        };
        let mut end = End::new(id, jitter, now.steady_ms);
        end.witness = Some((issued_ms, now.steady_ms));
        state.ends = [Some(end), state.ends.get_mut(1).and_then(Option::take)];
        self.attach((link, 0), to.node, id, peer);
        self.open_channels((link, 0));
    }

    fn attach(&mut self, at: EndId, node: usize, id: LinkId, peer: overlane_core::Did) {
        let Some(running) = self.running(node) else {
            return;
        };
        running.links.insert(id, at);
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

fn lifetime(issued_ms: u64) -> Lifetime {
    Lifetime {
        issued_ms,
        ttl_ms: SIGNAL_TTL_DEFAULT_MS,
    }
}
