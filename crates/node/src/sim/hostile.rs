//! Hostile nodes: what they do to others while faults come.
//!
//! A hostile node runs the production code as any does, and so has its place on the ring, links and
//! streams. Beside that it does what that code never would: it answers with what is not so, sends what it
//! should not, and takes nothing. Everything it signs it signs as itself: it has nobody else's key. Once
//! no fault comes any more it is as any other, and what it left behind must heal.

use overlane_core::identity::{Account, Delegatee, Life as Lifetime, Signer};
use overlane_core::ring::{Distance, RequestId, RingMessage, RingRefusal, WhyUnreachable};
use overlane_core::signal::Offer;
use overlane_core::transaction::{
    Data, Draft, Message, Namespace, PROOF_TTL_DEFAULT_MS, Payload, RelayFields, Transaction,
};
use overlane_core::wire::cbor::to_vec;
use overlane_core::wire::frame::PAYLOAD_MARKER;
use overlane_core::{Class, Did, TransactionDigest, TxId};

use super::check::Seen;
use super::config::HOSTILE_ONE_IN;
use super::dial::lifetime;
use super::drive::signed;
use super::names::Act;
use super::node::{EndId, NETWORK, seed_of};
use super::report::Phase;
use super::world::{Event, Life, World};
use crate::link::LinkId;
use crate::peer::Refusal;

/// Offers of a flood.
const FLOOD: u64 = 24;

/// Reports and frames of an act.
const VOLLEY: u64 = 4;

impl World<'_> {
    /// Chooses who is hostile.
    pub(super) fn begin_hostility(&mut self) {
        if self.config.hostile.iter().next().is_none() {
            return;
        }
        let count = (self.nodes.len() / HOSTILE_ONE_IN).max(1);
        while self.hostile.len() < count {
            let node = self.any_of(self.nodes.len());
            if self.hostile.insert(node) {
                self.act_later(node);
            }
        }
        let hostile = self.hostile.iter();
        let hostile = hostile.filter_map(|&it| Some(self.nodes.get(it)?.did));
        let hostile = hostile.collect();
        if let Some(mails) = &mut self.checks.mail {
            mails.hostile(hostile);
        }
    }

    fn act_later(&mut self, node: usize) {
        let wait_ms = self.between(1_000, 9_000);
        self.after(wait_ms, Event::Act(node));
    }

    /// Whether a node does this now.
    pub(super) fn does(&self, node: usize, act: Act) -> bool {
        let now = self.phase == Phase::Faults && self.hostile.contains(&node);
        now && self.config.hostile.has(act)
    }

    /// A hostile node does one of the things that it does.
    pub(super) fn act(&mut self, node: usize) {
        if self.phase != Phase::Faults {
            return;
        }
        self.act_later(node);
        self.ring_disturbed();
        let acts: Vec<Act> = self.config.hostile.iter().collect();
        let drawn = self.any_of(acts.len());
        let up = self.running(node).is_some_and(|it| !it.leaving);
        let Some(&act) = acts.get(drawn).filter(|_| up) else {
            return;
        };
        self.counts.hostile_acts += 1;
        let number = node.to_be_bytes();
        let noted: [&[u8]; 3] = [b"hostile", &number, act.name().as_bytes()];
        self.trace.note(self.now_ms, &noted, || {
            format!("node {node} is hostile: {act}")
        });
        match act {
            // They are done where its frames leave.
            Act::Lies | Act::Loops | Act::Drops => {}
            Act::OldMail => self.bring_old_mail(node),
            Act::BackDates => self.back_date(node),
            Act::Hosts => self.lie_as_host(node),
            Act::Reports => self.report_what_was_not_sent(node),
            Act::Offers => self.flood_with_offers(node),
            Act::Mute => self.mute(node),
            Act::Delegations => self.name_unknown_delegations(node),
            Act::Garbage => self.send_garbage(node),
        }
    }

    // What it says by way of its own ring.

    fn report_what_was_not_sent(&mut self, node: usize) {
        for _ in 0..VOLLEY {
            let (to, destination) = (self.any_did(), self.any_did());
            let digest = TransactionDigest(*seed_of(&mut self.chance));
            let why = WhyUnreachable::NoRoute;
            let report = RingMessage::Unreachable {
                digest,
                destination,
                why,
            };
            self.say(node, to, &report);
        }
    }

    fn flood_with_offers(&mut self, node: usize) {
        let (to, now) = (self.any_did(), self.now_at(node));
        let mut last = Vec::new();
        for _ in 0..FLOOD {
            let (nonce, kind) = (*seed_of(&mut self.chance), self.chance.below(8));
            let sdp = format!("simulated offer {}", self.chance.next_u64());
            let another = self.stranger(now.wall_ms);
            let own = self.running(node).map(|it| &it.signer);
            let signer = match kind {
                0 => another.as_ref(),
                _ => own.map(AsRef::as_ref),
            };
            let made = signer.and_then(|signer| {
                let offer = Offer::sign(sdp, nonce, lifetime(now.wall_ms), signer);
                offer.ok().map(|offer| offer.to_bytes())
            });
            let offer = match kind {
                1 => b"no offer".to_vec(),
                2 => last.clone(),
                _ => made.unwrap_or_default(),
            };
            last.clone_from(&offer);
            let id = RequestId(self.chance.next_u64() >> 1);
            self.say(node, to, &RingMessage::Offer { id, offer });
        }
    }

    fn say(&mut self, node: usize, to: Did, message: &RingMessage) {
        let body = message.to_body();
        if let Ok(data) = Data::parse(to_vec(&Message::Control(&body))) {
            self.send_data(node, to, data);
        }
    }

    // What it sends beside it.

    fn name_unknown_delegations(&mut self, node: usize) {
        for _ in 0..VOLLEY {
            let (now, chance) = (self.now_at(node), &mut self.chance);
            let fresh = self
                .nodes
                .get(node)
                .and_then(|it| it.signer(now.wall_ms, chance));
            let Some((at, peer)) = self.any_link(node) else {
                return;
            };
            let frame = fresh.and_then(|fresh| {
                let payload = self.payload(peer, RelayFields::direct(peer), &fresh, &fresh)?;
                Some(payload.to_frame(|_| true))
            });
            if let Some(frame) = frame {
                self.put(at, Class::Application, frame);
            }
        }
    }

    fn send_garbage(&mut self, node: usize) {
        let now = self.now_at(node);
        let Some((at, peer)) = self.any_link(node) else {
            return;
        };
        let Some(own) = self.running(node).map(|it| it.signer.clone()) else {
            return;
        };
        let (nobody, stranger) = (self.nobody(), self.stranger(now.wall_ms));
        let direct = RelayFields::direct(peer);
        let elsewhere = RelayFields {
            next_hop: nobody,
            ..direct
        };
        let (class, payload) = match self.chance.below(4) {
            0 => (Class::Storage, self.payload(peer, direct, &own, &own)),
            1 => (
                Class::Application,
                self.payload(peer, elsewhere, &own, &own),
            ),
            2 => {
                let hop = stranger.as_ref().unwrap_or(&own);
                (Class::Application, self.payload(peer, direct, &own, hop))
            }
            _ => (Class::Application, None),
        };
        let no_frame = || {
            let mut frame = PAYLOAD_MARKER.to_vec();
            frame.extend_from_slice(&nobody.0);
            frame
        };
        let frame = payload.map_or_else(no_frame, |payload| payload.to_frame(|_| false));
        self.put(at, class, frame);
    }

    /// A message of an application, under a sequence that its stream does not come to.
    pub(super) fn payload(
        &mut self,
        to: Did,
        relay: RelayFields,
        origin: &Signer,
        hop: &Signer,
    ) -> Option<Payload> {
        let number = self.by_did.get(&to).copied().unwrap_or_default();
        let life = Lifetime {
            issued_ms: self.now_at(number).wall_ms,
            ttl_ms: PROOF_TTL_DEFAULT_MS,
        };
        let draft = Draft {
            destination: to,
            tx_id: TxId([0x66; 16]),
            sequence: self.chance.next_u64() >> 1,
            message: Message::Application {
                namespace: Namespace::new("sim").ok()?,
                body: b"hostile",
            },
            life,
        };
        let transaction = Transaction::sign(&draft, origin).ok()?;
        Payload::carry(transaction, relay, hop, life).ok()
    }

    fn put(&mut self, at: EndId, class: Class, frame: Vec<u8>) {
        if let Some(end) = self.end(at) {
            // A lane that is full takes no more of it.
            let _ = end.session.send(class, frame);
            self.dirty_ends.insert(at);
        }
    }

    // What it does to what it would send.

    /// What a node puts in a lane instead of what its own code would; `None` for nothing.
    pub(super) fn twisted(&mut self, node: usize, frame: Vec<u8>) -> Option<Vec<u8>> {
        if !self.hostile.contains(&node) {
            return Some(frame);
        }
        let signed = signed(&frame);
        let own = signed.map(|of| self.by_did.get(&of.stream.origin) == Some(&node));
        match own {
            Some(true) if self.config.hostile.has(Act::Lies) => {
                let digest = signed.map_or(TransactionDigest([0; 32]), |it| it.digest);
                if !self.lies.contains_key(&digest) {
                    // What it said once it says again, whichever way that goes: it signs nothing twice.
                    let lies = self.does(node, Act::Lies) && self.permille(500);
                    let lie = lies.then(|| self.lie(node, &frame)).flatten();
                    if let Some((_, lied)) = lie.as_ref().and_then(|it| it.claims().ok()) {
                        // It may come back to who said it.
                        self.lies.insert(lied, None);
                    }
                    self.lies.insert(digest, lie);
                }
                Some(self.lied(node, digest, &frame).unwrap_or(frame))
            }
            Some(false) if self.does(node, Act::Loops) && self.permille(500) => {
                self.misroute(node, frame)
            }
            _ => Some(frame),
        }
    }

    /// The same answer of the ring, and not true.
    fn lie(&mut self, node: usize, frame: &[u8]) -> Option<Transaction> {
        let payload = Payload::from_frame(frame).ok()?;
        let transaction = payload.into_transaction();
        let (stream, _) = transaction.claims().ok()?;
        let Message::Control(body) = transaction.data().message() else {
            return None;
        };
        let told = RingMessage::from_body(body).ok()?;
        let (nobody, kind) = (self.nobody(), self.chance.below(3));
        let lie = match told {
            RingMessage::State {
                id,
                predecessor,
                mut successors,
            } => match kind {
                0 => {
                    successors.reverse();
                    RingMessage::State {
                        id,
                        predecessor,
                        successors,
                    }
                }
                1 => RingMessage::State {
                    id,
                    predecessor: Some(nobody),
                    successors,
                },
                _ => RingMessage::State {
                    id,
                    predecessor,
                    successors: vec![nobody],
                },
            },
            RingMessage::Owner { id, .. } => RingMessage::Owner {
                id,
                owners: vec![nobody],
            },
            RingMessage::Nearer { id, .. } => RingMessage::Nearer {
                id,
                node: nobody,
                after: None,
            },
            _ => return None,
        };
        let body = lie.to_body();
        let proof = transaction.proof();
        let draft = Draft {
            destination: stream.destination,
            tx_id: transaction.tx_id(),
            sequence: transaction.sequence(),
            message: Message::Control(&body),
            life: proof.life(),
        };
        let signer = self.running(node)?.signer.clone();
        Transaction::sign(&draft, &signer).ok()
    }

    /// What was said instead of a message, on the way of this frame of it.
    fn lied(&mut self, node: usize, digest: TransactionDigest, frame: &[u8]) -> Option<Vec<u8>> {
        let lie = self.lies.get(&digest).cloned().flatten()?;
        let relay = *Payload::from_frame(frame).ok()?.relay();
        let life = lie.proof().life();
        let signer = self.running(node)?.signer.clone();
        let payload = Payload::carry(lie, relay, &signer, life).ok()?;
        Some(payload.to_frame(|_| false))
    }

    /// A message of another's is dropped, sent back, or marked as crossed and spent.
    fn misroute(&mut self, node: usize, frame: Vec<u8>) -> Option<Vec<u8>> {
        let digest = signed(&frame)?.digest;
        // Where it went from here, no rule says.
        self.see(&Seen::OfferedAgain(digest));
        let own = self.nodes.get(node)?.did;
        let payload = Payload::from_frame(&frame).ok()?;
        let mut relay = *payload.relay();
        let transaction = payload.into_transaction();
        let life = Lifetime {
            issued_ms: self.now_at(node).wall_ms,
            ttl_ms: PROOF_TTL_DEFAULT_MS,
        };
        let signer = self.running(node)?.signer.clone();
        match self.chance.below(3) {
            0 => {
                let reach = |from| Distance::between(from, relay.destination);
                let (at, back) = self.any_link(node)?;
                if reach(back) <= reach(own) {
                    return None;
                }
                relay = RelayFields {
                    next_hop: back,
                    handed_off: false,
                    ..relay
                };
                let payload = Payload::carry(transaction, relay, &signer, life).ok()?;
                let class = payload.transaction().data().class();
                self.put(at, class, payload.to_frame(|_| false));
                None
            }
            1 if relay.next_hop != relay.destination => {
                relay = RelayFields {
                    hop_budget: 1,
                    handed_off: true,
                    ..relay
                };
                let payload = Payload::carry(transaction, relay, &signer, life).ok()?;
                Some(payload.to_frame(|_| false))
            }
            _ => None,
        }
    }

    // What it does not take.

    fn mute(&mut self, number: usize) {
        let for_ms = self.between(10_000, 60_000);
        let (until_ms, life) = (self.now_ms + for_ms, self.life(number));
        if let Some(running) = self.running(number) {
            running.mute_until_ms = until_ms;
            self.after(for_ms, Event::Unmute(life));
        }
    }

    /// Keeps what was taken of a lane from whoever sent it; `false` if the node does not do that.
    pub(super) fn withhold(&mut self, node: usize, link: LinkId, class: Class) -> bool {
        let now_ms = self.now_ms;
        let mute = self.running(node).filter(|it| it.mute_until_ms > now_ms);
        mute.map(|it| it.withheld.push((link, class))).is_some()
    }

    /// A node takes again what it is sent, and what it was.
    pub(super) fn unmute(&mut self, life: Life) {
        let healed = self.phase != Phase::Faults;
        let now_ms = self.now_ms;
        let over = self
            .living(life)
            .filter(|it| healed || it.mute_until_ms <= now_ms);
        let withheld = over.map(|running| {
            running.mute_until_ms = 0;
            std::mem::take(&mut running.withheld)
        });
        for (link, class) in withheld.unwrap_or_default() {
            self.taken(life.node, link, class);
        }
    }

    // What is not to be held against those who are honest.

    /// A link was ended for what its peer sent.
    pub(super) fn blamed(&mut self, node: usize, link: LinkId, words: &str) {
        // What came over it may be judged once it is gone.
        let far = self.running(node);
        let far = far.and_then(|it| it.far.get(&link).copied());
        if far.is_none_or(|far| !self.hostile.contains(&far)) {
            self.see(&Seen::PeerBlamed { node, words });
        }
    }

    /// Whether a hostile node refused something, or brought or signed what was refused.
    pub(super) fn is_of_hostile(&self, node: usize, peer: Did, refusal: &Refusal) -> bool {
        let is_hostile = |did: &Did| {
            let number = self.by_did.get(did);
            number.is_some_and(|number| self.hostile.contains(number))
        };
        let signer = match refusal {
            Refusal::UnknownReport { reporter } => Some(*reporter),
            Refusal::Ring(
                RingRefusal::Unasked { from, .. }
                | RingRefusal::Disordered { from }
                | RingRefusal::NoProgress { from }
                | RingRefusal::OtherAnswer { from, .. },
            ) => Some(*from),
            _ => None,
        };
        let hostile = self.hostile.contains(&node) || is_hostile(&peer);
        hostile || signer.as_ref().is_some_and(is_hostile)
    }

    // Whom and what it names.

    fn any_did(&mut self) -> Did {
        let drawn = self.any_of(self.nodes.len());
        let node = self.nodes.get(drawn);
        node.map_or(Did([0; 20]), |node| node.did)
    }

    /// A place that is nobody's.
    fn nobody(&mut self) -> Did {
        let drawn = seed_of(&mut self.chance);
        let mut place = Did([0; 20]);
        for (byte, drawn) in place.0.iter_mut().zip(drawn.iter()) {
            *byte = *drawn;
        }
        place
    }

    /// Somebody who has no node.
    pub(super) fn stranger(&mut self, now_ms: u64) -> Option<Signer> {
        let account = Account::ed25519(seed_of(&mut self.chance)).ok()?;
        let delegatee = Delegatee::from_seed(seed_of(&mut self.chance));
        super::node::delegated(&account, delegatee, NETWORK, now_ms)
    }

    /// One of a node's links, and who is at its other end.
    fn any_link(&mut self, node: usize) -> Option<(EndId, Did)> {
        let links = self.running(node)?.links.values().copied();
        let links: Vec<EndId> = links.collect();
        let drawn = self.any_of(links.len());
        let &(link, side) = links.get(drawn)?;
        let far = self.links.get(&link)?.node(1 - side);
        Some(((link, side), self.nodes.get(far)?.did))
    }
}
