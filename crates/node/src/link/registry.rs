//! Which links there are, and who gives way to whom.
//!
//! Values only: it is asked under a lock and never waits. Bounds: handshakes under way in each
//! direction, peers linked, and so sockets open. No source fills the handshakes or the links that
//! peers begin ([`Source`]).

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::Did;
use overlane_core::signal::Source;

use super::error::{DownReason, LinkError};
use super::id::LinkId;
use super::rule::Mark;

/// A running link, as far as the registry needs one.
pub(crate) trait Handle: Clone {
    /// Ends it in order, for a reason of this node's own.
    fn end(&self, reason: DownReason);

    /// Ends it at once.
    fn cut(&self, reason: DownReason);
}

/// How far a link came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its session is not open.
    Opening,
    /// Its session is open.
    Up,
    /// It gives way, or was told to end.
    Leaving,
}

/// Who began a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// This node offered.
    Outbound,
    /// The peer offered, from there.
    Inbound(Source),
}

impl Direction {
    /// Whether both count against one bound.
    const fn is_as(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::Outbound, Self::Outbound) | (Self::Inbound(_), Self::Inbound(_))
        )
    }
}

#[derive(Debug)]
struct Entry<H> {
    direction: Direction,
    stage: Stage,
    peer: Option<(Did, Mark)>,
    /// There once the session runs.
    link: Option<H>,
}

impl<H: Handle> Entry<H> {
    fn end(&mut self, reason: DownReason) {
        self.stage = Stage::Leaving;
        if let Some(link) = &self.link {
            link.end(reason);
        }
    }
}

/// All links of a node that have a socket.
#[derive(Debug)]
pub(crate) struct Registry<H> {
    peers_max: usize,
    handshakes_max: usize,
    last: u64,
    shutting_down: bool,
    entries: BTreeMap<LinkId, Entry<H>>,
}

impl<H: Handle> Registry<H> {
    pub(crate) fn new(peers_max: usize, handshakes_max: usize) -> Self {
        Self {
            peers_max,
            handshakes_max,
            last: 0,
            shutting_down: false,
            entries: BTreeMap::new(),
        }
    }

    /// A place for a handshake, and the number of the link it may lead to.
    pub(crate) fn begin(&mut self, direction: Direction) -> Result<LinkId, LinkError> {
        if self.shutting_down {
            return Err(LinkError::ShuttingDown);
        }
        // A link that gives way holds its socket until it has ended: it counts here, so that a peer
        // that offers again and again cannot make sockets grow.
        let under_way = self.entries.values();
        let under_way = under_way.filter(|entry| entry.stage != Stage::Up);
        let under_way = under_way.map(|entry| entry.direction);
        let used = under_way.clone().filter(|of| of.is_as(direction)).count();
        let max = self.handshakes_max;
        if used >= max {
            return Err(LinkError::HandshakesFull { max });
        }
        let held = under_way.filter(|&of| of == direction).count();
        if let Direction::Inbound(source) = direction
            && !source.may_take(held, used, max)
        {
            let places = "handshakes";
            return Err(LinkError::ShareFull { held, places });
        }
        self.last += 1;
        let id = LinkId(self.last);
        let entry = Entry {
            direction,
            stage: Stage::Opening,
            peer: None,
            link: None,
        };
        self.entries.insert(id, entry);
        Ok(id)
    }

    /// Whether a handshake with this peer may go on; nothing changes.
    pub(crate) fn may_admit(&self, id: LinkId, peer: Did, mark: Mark) -> Result<(), LinkError> {
        if self.shutting_down {
            return Err(LinkError::ShuttingDown);
        }
        if self.stands_against(id, peer, mark).is_some() {
            return Err(LinkError::Crossed { peer });
        }
        let used = self.peers_but(peer, |_| true);
        let max = self.peers_max;
        if used >= max {
            return Err(LinkError::LinksFull { max });
        }
        let direction = self.entries.get(&id).map(|entry| entry.direction);
        if let Some(Direction::Inbound(source)) = direction {
            let held = self.peers_but(peer, |of| of == Direction::Inbound(source));
            if !source.may_take(held, used, max) {
                let places = "links";
                return Err(LinkError::ShareFull { held, places });
            }
        }
        Ok(())
    }

    /// The peer of a handshake is proved. What gives way to it and is not open ends; what it gives
    /// way to refuses it.
    pub(crate) fn admit(&mut self, id: LinkId, peer: Did, mark: Mark) -> Result<(), LinkError> {
        self.may_admit(id, peer, mark)?;
        self.replace(id, peer, Stage::Opening);
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.peer = Some((peer, mark));
        }
        Ok(())
    }

    /// The session of an admitted handshake runs.
    ///
    /// # Errors
    /// It gave way in the meantime.
    pub(crate) fn attach(&mut self, id: LinkId, peer: Did, link: H) -> Result<(), LinkError> {
        if self.shutting_down {
            return Err(LinkError::ShuttingDown);
        }
        let entry = self.entries.get_mut(&id).ok_or(LinkError::Unknown(id))?;
        if entry.stage == Stage::Leaving {
            return Err(LinkError::Crossed { peer });
        }
        entry.link = Some(link);
        Ok(())
    }

    /// The session is open. Every other link to the same peer gives way; or this one does, and ends.
    pub(crate) fn up(&mut self, id: LinkId) -> bool {
        let admitted = self
            .entries
            .get(&id)
            .filter(|entry| entry.stage == Stage::Opening);
        let Some((peer, mark)) = admitted.and_then(|entry| entry.peer) else {
            return false;
        };
        if let Some(by) = self.stands_against(id, peer, mark) {
            self.leave(id, DownReason::Replaced { by });
            return false;
        }
        self.replace(id, peer, Stage::Opening);
        self.replace(id, peer, Stage::Up);
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.stage = Stage::Up;
        }
        true
    }

    /// Every link ends, and no other begins.
    pub(crate) fn shut_down(&mut self) {
        self.shutting_down = true;
        for entry in self.entries.values_mut() {
            entry.end(DownReason::ShuttingDown);
        }
    }

    /// A link is to end.
    pub(crate) fn leave(&mut self, id: LinkId, reason: DownReason) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.end(reason);
        }
    }

    /// A link ends at once.
    pub(crate) fn cut(&mut self, id: LinkId, reason: DownReason) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.stage = Stage::Leaving;
            if let Some(link) = &entry.link {
                link.cut(reason);
            }
        }
    }

    /// A link, or a handshake, holds nothing any more.
    pub(crate) fn remove(&mut self, id: LinkId) {
        self.entries.remove(&id);
    }

    /// A link that is open, also while it gives way.
    pub(crate) fn link(&self, id: LinkId) -> Option<H> {
        self.entries.get(&id)?.link.clone()
    }

    /// The link that stands to `peer`.
    pub(crate) fn up_to(&self, peer: Did) -> Option<LinkId> {
        let mut entries = self.entries.iter();
        let up = |entry: &Entry<H>| {
            entry.stage == Stage::Up && entry.peer.is_some_and(|of| of.0 == peer)
        };
        entries.find(|(_, entry)| up(entry)).map(|(&id, _)| id)
    }

    /// Whether some link to `peer` is up or may come up.
    pub(crate) fn may_reach(&self, peer: Did) -> bool {
        self.entries.values().any(|entry| {
            entry.stage != Stage::Leaving && entry.peer.is_none_or(|(did, _)| did == peer)
        })
    }

    /// All links whose session runs, with their stage.
    pub(crate) fn links(&self) -> Vec<(H, Stage)> {
        let entries = self.entries.values();
        entries
            .filter_map(|entry| Some((entry.link.clone()?, entry.stage)))
            .collect()
    }

    /// How many other peers there are with a link, open or not, of a direction that `counts`.
    fn peers_but(&self, peer: Did, counts: impl Fn(Direction) -> bool) -> usize {
        let entries = self.entries.values();
        let peers = entries.filter(|entry| counts(entry.direction));
        let peers = peers.filter_map(|entry| entry.peer).map(|(did, _)| did);
        let others: BTreeSet<Did> = peers.filter(|&did| did != peer).collect();
        others.len()
    }

    /// Another link to `peer`, open or not, that stands against one with this mark.
    fn stands_against(&self, id: LinkId, peer: Did, mark: Mark) -> Option<LinkId> {
        let stands = |entry: &Entry<H>| {
            entry.stage != Stage::Leaving
                && entry
                    .peer
                    .is_some_and(|(did, theirs)| did == peer && theirs.stands_against(&mark))
        };
        let mut entries = self.entries.iter();
        let found = entries.find(|&(&other, entry)| other != id && stands(entry));
        found.map(|(&other, _)| other)
    }

    /// Ends the other links to `peer` at `stage`.
    fn replace(&mut self, by: LinkId, peer: Did, stage: Stage) {
        for (&id, entry) in &mut self.entries {
            let same = entry.peer.is_some_and(|(did, _)| did == peer);
            if id != by && same && entry.stage == stage {
                entry.end(DownReason::Replaced { by });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEERS: usize = 3;
    const HANDSHAKES: usize = 2;

    const HERE: Direction = Direction::Inbound(Source::Local);

    impl Handle for () {
        fn end(&self, _: DownReason) {}

        fn cut(&self, _: DownReason) {}
    }

    fn registry() -> Registry<()> {
        Registry::<()>::new(PEERS, HANDSHAKES)
    }

    fn did(number: u8) -> Did {
        Did([number; 20])
    }

    fn mark(offerer: u8, issued_ms: u64) -> Mark {
        Mark {
            offerer: did(offerer),
            issued_ms,
            nonce: [0; 32],
        }
    }

    fn link_up(registry: &mut Registry<()>, peer: u8, mark: Mark) -> LinkId {
        let id = registry.begin(HERE).unwrap();
        registry.admit(id, did(peer), mark).unwrap();
        assert!(registry.up(id));
        id
    }

    #[test]
    fn half_open_handshakes_are_bounded_in_each_direction() {
        let mut registry = registry();
        let ids: Vec<_> = (0..HANDSHAKES)
            .map(|_| registry.begin(HERE).unwrap())
            .collect();
        let full = LinkError::HandshakesFull { max: HANDSHAKES };
        assert_eq!(registry.begin(HERE), Err(full));
        assert!(registry.begin(Direction::Outbound).is_ok());
        registry.remove(ids[0]);
        assert!(registry.begin(HERE).is_ok());
    }

    #[test]
    fn law_handshakes_begun_at_one_source_leave_places_to_others() {
        let from = |last| Direction::Inbound(Source::V4([192, 0, 2, last]));
        let mut registry = Registry::<()>::new(PEERS, 8);
        let begun: Vec<_> = (0..4).map(|_| registry.begin(from(1)).unwrap()).collect();
        let (held, places) = (4, "handshakes");
        let refused = Err(LinkError::ShareFull { held, places });
        assert_eq!(registry.begin(from(1)), refused);
        let other = registry.begin(from(2)).unwrap();
        assert!(registry.begin(from(3)).is_ok());
        assert!(registry.begin(Direction::Outbound).is_ok());
        // A link that is up holds no place of a handshake.
        registry.admit(other, did(2), mark(2, 0)).unwrap();
        assert!(registry.up(other));
        registry.remove(begun[0]);
        assert!(registry.begin(from(1)).is_ok());
    }

    #[test]
    fn law_identities_minted_at_one_source_leave_links_to_others() {
        let from = |last| Direction::Inbound(Source::V4([192, 0, 2, last]));
        let mut registry = Registry::<()>::new(4, HANDSHAKES);
        let mut link = |direction, peer| {
            let id = registry.begin(direction).unwrap();
            let admitted = registry.admit(id, did(peer), mark(peer, u64::from(peer)));
            match admitted {
                Ok(()) => assert!(registry.up(id)),
                Err(_) => registry.remove(id),
            }
            admitted
        };
        assert_eq!(link(from(1), 1), Ok(()));
        assert_eq!(link(from(1), 2), Ok(()));
        let (held, places) = (2, "links");
        let refused = Err(LinkError::ShareFull { held, places });
        assert_eq!(link(from(1), 3), refused);
        assert_eq!(link(from(2), 3), Ok(()));
        // This node's own choice is nobody's share.
        assert_eq!(link(Direction::Outbound, 4), Ok(()));
    }

    #[test]
    fn peers_are_bounded_and_a_linked_one_may_link_again() {
        let mut registry = registry();
        for peer in 1..=PEERS as u8 {
            link_up(&mut registry, peer, mark(peer, 0));
        }
        let id = registry.begin(HERE).unwrap();
        let full = LinkError::LinksFull { max: PEERS };
        assert_eq!(registry.admit(id, did(9), mark(9, 0)), Err(full));
        assert_eq!(registry.admit(id, did(1), mark(1, 1)), Ok(()));
    }

    #[test]
    fn numbers_are_never_used_again() {
        let mut registry = registry();
        let mut last = LinkId(0);
        for _ in 0..10 {
            let id = registry.begin(Direction::Outbound).unwrap();
            assert!(id > last);
            registry.remove(id);
            last = id;
        }
    }

    #[test]
    fn a_later_link_replaces_once_it_is_up_and_not_before() {
        let mut registry = registry();
        let old = link_up(&mut registry, 1, mark(1, 0));
        let new = registry.begin(HERE).unwrap();
        registry.admit(new, did(1), mark(1, 5)).unwrap();
        assert_eq!(registry.up_to(did(1)), Some(old));
        assert!(registry.up(new));
        assert_eq!(registry.up_to(did(1)), Some(new));
    }

    #[test]
    fn law_crossing_offers_leave_one_link_in_whatever_order_they_are_heard() {
        // This node is 2; its own offer and the one of peer 1 cross.
        let (mine, theirs) = (mark(2, 1_000), mark(1, 1_500));
        for first_up in [false, true] {
            for order in [[mine, theirs], [theirs, mine]] {
                let mut registry = registry();
                let mut up = None;
                for mark in order {
                    let id = registry.begin(Direction::Outbound).unwrap();
                    match registry.admit(id, did(1), mark) {
                        Ok(()) => {
                            assert!(!first_up || registry.up(id));
                            up = Some((id, mark));
                        }
                        Err(error) => assert_eq!(error, LinkError::Crossed { peer: did(1) }),
                    }
                }
                let (id, mark) = up.unwrap();
                assert_eq!(mark, theirs, "the smaller Did's offer stands");
                assert!(first_up || registry.up(id));
                assert_eq!(registry.up_to(did(1)), Some(id));
            }
        }
    }

    #[test]
    fn nothing_begins_once_the_node_shuts_down() {
        let mut registry = registry();
        let id = registry.begin(HERE).unwrap();
        registry.shut_down();
        assert_eq!(registry.begin(HERE), Err(LinkError::ShuttingDown));
        let refused = registry.admit(id, did(1), mark(1, 0));
        assert_eq!(refused, Err(LinkError::ShuttingDown));
    }
}
