//! The bounds of a node beside those of replay protection.

use overlane_core::replay::Bound;

use super::Peer;

const fn bytes(
    name: &'static str,
    [limit, current, high_water]: [u64; 3],
    at: &'static str,
) -> Bound {
    Bound {
        name,
        limit,
        current,
        high_water,
        unit: "bytes",
        at_limit: at,
    }
}

/// What the lanes of all links hold beyond their reserves.
pub(crate) const fn queued(levels: [u64; 3]) -> Bound {
    let at = "a lane takes no more until some have left";
    bytes("limits.queued_max_bytes", levels, at)
}

impl Peer {
    /// The bounds that the operator sets, under the names of their keys: how full each is, and has
    /// been.
    pub fn bounds(&self) -> [Bound; 4] {
        let (max, high_water) = self.chunks.max_and_high_water_bytes();
        let held = self.chunks.held_bytes();
        [
            self.ring.links_bound(),
            bytes(
                "limits.sends_max_bytes",
                self.outbound.bytes(),
                "a send waits for the end of another",
            ),
            bytes(
                "limits.dispatch_max_bytes",
                self.dispatch.bytes(),
                "the senders of a class are held back until messages are taken",
            ),
            bytes(
                "limits.chunks_max_bytes",
                [max, held, high_water],
                "another part of a large message is refused with chunk/node_bytes",
            ),
        ]
    }
}
