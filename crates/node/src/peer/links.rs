//! The admitted links, and the delegations each has shown.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use overlane_core::Did;
use overlane_core::identity::{Delegation, DelegationDigest, Verified};
use overlane_core::replay::{Bucket, QuotaLimits, Slot};

use crate::link::LinkId;

/// Verified delegations that a link remembers; the earliest leaves first. Forgetting one costs two
/// signature checks and nothing else. Source: protocol decision 6 (delegation references).
pub const DELEGATIONS_MAX: usize = 128;

/// How many transactions whose origin's proof fails a link may pass on under good hop proofs, at
/// once and a second. An honest carrier checks before it carries, so each of these cost the peer a
/// signature and this node two checks; a link beyond it is cut.
pub const BAD_ORIGINS: QuotaLimits = QuotaLimits {
    messages_per_s: 1,
    burst_messages: 64,
    bytes_per_s: 1,
    burst_bytes: 1,
};

/// The admitted links.
#[derive(Debug, Default)]
pub(super) struct LinkTable {
    links: BTreeMap<LinkId, Link>,
    ups: u64,
}

/// The connection slot of a link. Source: protocol section 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotUse {
    /// The slot.
    pub slot: Slot,
    /// Streams that are charged to it: those this link brought, and those that links before it left
    /// and that are not spent yet.
    pub streams: usize,
}

/// One admitted link.
#[derive(Debug)]
pub(super) struct Link {
    /// Who is at its other end.
    pub(super) peer: Did,
    /// Whether it is up. One that is down stays until the frames it brought have left, and holds
    /// its slot for them.
    up: bool,
    /// Whether it was cut: it brings nothing any more, and carries nothing.
    cut: bool,
    /// Whether it refused a frame because it is ending: it may still bring some.
    gone: bool,
    /// When it came up, among all.
    order_up: u64,
    /// The connection slot that new streams on it are charged to.
    pub(super) slot: Slot,
    bad_origins: Bucket,
    known: BTreeMap<DelegationDigest, Arc<Verified<Delegation>>>,
    order: VecDeque<DelegationDigest>,
}

impl LinkTable {
    pub(super) fn up(&mut self, link: LinkId, peer: Did, slot: Slot, steady_ms: u64) {
        self.ups += 1;
        let state = Link {
            peer,
            up: true,
            cut: false,
            gone: false,
            order_up: self.ups,
            slot,
            bad_origins: Bucket::full(&BAD_ORIGINS, steady_ms),
            known: BTreeMap::new(),
            order: VecDeque::new(),
        };
        self.links.insert(link, state);
    }

    /// The link is down: who was at its other end, unless that was told before.
    pub(super) fn down(&mut self, link: LinkId) -> Option<Did> {
        let link = self.links.get_mut(&link).filter(|link| link.up)?;
        link.up = false;
        Some(link.peer)
    }

    /// The link is being cut; `false` if it was already, or is down.
    pub(super) fn cut(&mut self, link: LinkId) -> bool {
        let up = self.links.get_mut(&link).filter(|link| link.up);
        up.is_some_and(|link| !std::mem::replace(&mut link.cut, true))
    }

    /// The link passed on a transaction whose origin's proof fails: whether it may have.
    pub(super) fn bad_origin(&mut self, link: LinkId, steady_ms: u64) -> bool {
        self.links
            .get_mut(&link)
            .is_none_or(|link| link.bad_origins.take(&BAD_ORIGINS, 0, steady_ms).is_ok())
    }

    /// Forgets a link that is down.
    pub(super) fn retire(&mut self, link: LinkId) -> Option<Link> {
        self.links.get(&link).filter(|link| !link.up)?;
        self.links.remove(&link)
    }

    /// Whether the link is up.
    pub(super) fn is_up(&self, link: LinkId) -> bool {
        self.links.get(&link).is_some_and(|link| link.up)
    }

    pub(super) fn link(&self, link: LinkId) -> Option<&Link> {
        self.links.get(&link)
    }

    /// The link that messages to `peer` take: the one that came up last. A link comes up only if it
    /// stands against every other to its peer, so all others give way to that one, whichever number
    /// it has.
    pub(super) fn to(&self, peer: Did) -> Option<LinkId> {
        let links = self.links.iter();
        let to_peer = links.filter(|(_, link)| link.carries() && link.peer == peer);
        let last = to_peer.max_by_key(|(_, link)| link.order_up);
        last.map(|(&link, _)| link)
    }

    /// The other links to `peer` that are up, or not known to be down.
    pub(super) fn others(&self, peer: Did, link: LinkId) -> Vec<LinkId> {
        let others = self.iter().filter(|&(of, did)| of != link && did == peer);
        others.map(|(of, _)| of).collect()
    }

    /// The link takes no frames any more.
    pub(super) fn gone(&mut self, link: LinkId) {
        if let Some(link) = self.links.get_mut(&link) {
            link.gone = true;
        }
    }

    pub(super) fn remember(&mut self, link: LinkId, delegation: &Arc<Verified<Delegation>>) {
        if let Some(link) = self.links.get_mut(&link) {
            link.remember(delegation);
        }
    }

    /// Every link that is up and its peer, in the order they came up.
    pub(super) fn iter(&self) -> impl Iterator<Item = (LinkId, Did)> {
        let up = self.links.iter().filter(|(_, link)| link.up);
        up.map(|(&id, link)| (id, link.peer))
    }

    /// The links that are up, and the connection slot of each.
    pub(super) fn slots(&self) -> impl Iterator<Item = (LinkId, Slot)> {
        let up = self.links.iter().filter(|(_, link)| link.up);
        up.map(|(&id, link)| (id, link.slot))
    }
}

impl Link {
    fn carries(&self) -> bool {
        self.up && !self.cut && !self.gone
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    /// A delegation that was verified on this link.
    pub(super) fn known(&self, digest: DelegationDigest) -> Option<Arc<Verified<Delegation>>> {
        self.known.get(&digest).map(Arc::clone)
    }

    fn remember(&mut self, delegation: &Arc<Verified<Delegation>>) {
        let digest = delegation.digest();
        if self.known.contains_key(&digest) {
            return;
        }
        if self.order.len() >= DELEGATIONS_MAX
            && let Some(earliest) = self.order.pop_front()
        {
            self.known.remove(&earliest);
        }
        self.order.push_back(digest);
        self.known.insert(digest, Arc::clone(delegation));
    }
}
