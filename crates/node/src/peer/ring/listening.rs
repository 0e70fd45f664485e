//! Where linked peers take offers: what each says of itself, so that a node that was started again, and whose
//! bootstrap is away, dials its old neighbours.
//!
//! Law **its own address**: a peer names a port alone; the address is the one that its link is to. So nobody
//! has this node dial somebody else. What is known is of the peers that are linked, and no more.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use overlane_core::Did;
use overlane_core::ring::RingMessage;

use super::super::{Now, Peer};

/// Ports, this node's and those of the linked peers.
#[derive(Debug, Default)]
pub(super) struct Listening {
    own: Option<NonZeroU16>,
    told: BTreeMap<Did, NonZeroU16>,
    changed: bool,
}

impl Listening {
    pub(super) fn unlinked(&mut self, peer: Did) {
        self.told.remove(&peer);
    }
}

impl Peer {
    /// Tells those it is linked to from now on that this node takes offers on this port.
    pub fn listens(&mut self, port: NonZeroU16) {
        self.ring.listening.own = Some(port);
    }

    /// The linked peers that take offers, each with its port; those that the ring needs come first, the most
    /// needed at the front.
    pub fn listening(&self) -> Vec<(Did, NonZeroU16)> {
        let told = &self.ring.listening.told;
        let ring = self.ring.ring.as_ref();
        let needed = ring.map(|ring| ring.needs()).unwrap_or_default();
        let others = told.keys().filter(|it| !needed.contains(it)).copied();
        let all = needed.iter().copied().chain(others);
        all.filter_map(|peer| Some((peer, *told.get(&peer)?)))
            .collect()
    }

    /// Whether another peer said that it takes offers since this was asked.
    pub fn listening_changed(&mut self) -> bool {
        std::mem::take(&mut self.ring.listening.changed)
    }

    /// A link to this peer carries: it is told.
    pub(super) fn tell_port(&mut self, peer: Did, now: Now) {
        if let (Some(port), Some(_)) = (self.ring.listening.own, &self.ring.ring) {
            let message = RingMessage::Listens { port };
            self.send_control(peer, (None, None), &message, now);
        }
    }

    /// What a peer says of itself over a link of its own.
    pub(super) fn take_port(&mut self, peer: Did, port: NonZeroU16) {
        if self.ring.linked.contains(&peer) {
            let before = self.ring.listening.told.insert(peer, port);
            self.ring.listening.changed |= before != Some(port);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::inbox::fixture::{NOW, peer};

    #[test]
    fn law_ports_are_of_linked_peers_alone_and_are_forgotten_with_their_links() {
        let mut peer = peer();
        let port = NonZeroU16::new(7_000).unwrap();
        let [one, other] = [Did([3; 20]), Did([4; 20])];
        peer.ring.linked.insert(one);
        for from in [one, other] {
            peer.take_port(from, port);
        }
        assert_eq!(peer.listening(), [(one, port)]);
        assert!(peer.listening_changed() && !peer.listening_changed());
        peer.take_port(one, port);
        assert!(!peer.listening_changed(), "nothing new");
        peer.ring_links_changed(one, NOW);
        assert_eq!(peer.listening(), []);
    }
}
