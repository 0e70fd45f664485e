//! What became of a message after a lane took it, as far as its sender can know.
//!
//! A link of the destination's own delivers what its lane took, or goes down. What goes by way of others may end
//! on its way, and then a hop reports it. That nobody reports is no arrival: so the destination is asked
//! whether it is there, by the same way, and what comes first ends the wait: a report of the message, an
//! answer, or the time that an answer may take
//! ([`REQUEST_MS`](overlane_core::ring::bounds::REQUEST_MS)).

use overlane_core::Did;
use overlane_core::ring::{RingError, WhyUnreachable};
use overlane_core::transaction::Payload;
use overlane_core::wire::bounds::FRAME_MAX_BYTES;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::error::NodeError;
use crate::node::Node;
use crate::peer::{Event, Receipt};

/// What became of a message after a lane took it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// A link of the destination's own has it.
    Placed,
    /// A neighbour has it, and the destination is there: it answers over so many hops.
    PassedOn {
        /// Hops to the destination.
        hops: u8,
    },
    /// A node on the way says that it does not arrive.
    Unreachable {
        /// The node where the way ended.
        reporter: Did,
        /// Why.
        why: WhyUnreachable,
    },
    /// A neighbour has it; neither a report nor an answer of the destination came in time.
    Unanswered,
}

/// Sees what becomes of a message. Made before the message is sent, so that no report is missed.
#[derive(Debug)]
pub struct Outcomes {
    node: Node,
    events: Receiver<Event>,
}

impl Node {
    /// Sees what becomes of the message that is sent next.
    pub fn outcomes(&self) -> Outcomes {
        Outcomes {
            node: self.clone(),
            events: self.events(),
        }
    }
}

impl Outcomes {
    /// What became of the message of this receipt.
    pub async fn of(mut self, receipt: &Receipt) -> Outcome {
        let destination = receipt.stream.destination;
        if self.is_direct(receipt) {
            return Outcome::Placed;
        }
        let ping = self.node.ping(destination);
        tokio::pin!(ping);
        loop {
            tokio::select! {
                // A report of the message says more than an answer that overtook it.
                biased;
                event = self.events.recv() => match event {
                    Ok(Event::Unreachable { digest, reporter, why, .. })
                        if digest == receipt.digest =>
                    {
                        return Outcome::Unreachable { reporter, why };
                    }
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return Outcome::Unanswered,
                },
                pong = &mut ping => return match pong {
                    Ok(pong) => Outcome::PassedOn { hops: pong.hops },
                    // Where the question ended, the message did: its own report may have been paced away.
                    Err(NodeError::Ring(RingError::Unreachable { reporter, why, .. })) => {
                        Outcome::Unreachable { reporter, why }
                    }
                    Err(_) => Outcome::Unanswered,
                },
            }
        }
    }

    /// Whether the message went over a link of its destination's own.
    fn is_direct(&self, receipt: &Receipt) -> bool {
        let destination = receipt.stream.destination;
        if let (1..=FRAME_MAX_BYTES, Ok(payload)) =
            (receipt.signed.len(), Payload::from_frame(&receipt.signed))
        {
            return payload.relay().next_hop == destination;
        }
        // A message in chunks names a next hop with each.
        let links = self.node.links();
        links
            .iter()
            .any(|link| link.peer == destination && !link.leaving)
    }
}
