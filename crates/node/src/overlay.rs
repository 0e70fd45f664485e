//! What a node does by way of the ring.

use overlane_core::Did;
use overlane_core::ring::{Path, RingAnswer, RingError};
use tokio::sync::oneshot;

use crate::error::NodeError;
use crate::node::Node;
use crate::peer::Ask;
use crate::runtime::Command;

/// The answer to a ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pong {
    /// Hops that the ping took.
    pub hops: u8,
    /// From asking to answer, in milliseconds.
    pub round_trip_ms: u64,
}

impl Node {
    /// Asks the node of this account whether it is there, by way of the ring.
    ///
    /// # Errors
    /// [`NodeError::Ring`]: nothing leads there, or no answer came.
    pub async fn ping(&self, peer: Did) -> Result<Pong, NodeError> {
        match self.ask_ring(Ask::Ping(peer)).await? {
            RingAnswer::Pong {
                hops,
                round_trip_ms,
            } => Ok(Pong {
                hops,
                round_trip_ms,
            }),
            _ => Err(NodeError::Broken),
        }
    }

    /// The way that messages to the node of this account take now, asked of one hop after another.
    ///
    /// # Errors
    /// [`NodeError::Ring`].
    pub async fn way(&self, peer: Did) -> Result<Path, NodeError> {
        match self.ask_ring(Ask::Way(peer)).await? {
            RingAnswer::Path(path) => Ok(path),
            _ => Err(NodeError::Broken),
        }
    }

    /// Has a link to the node of this account made by way of the ring, and waits until it is open.
    ///
    /// # Errors
    /// [`NodeError::Link`].
    pub async fn link_to(&self, peer: Did) -> Result<(), NodeError> {
        let (reply, dialed) = oneshot::channel();
        self.command(Command::Dial(peer, reply)).await?;
        dialed.await.map_err(|_| NodeError::Closed)??;
        self.linked(peer).await;
        Ok(())
    }

    async fn ask_ring(&self, ask: Ask) -> Result<RingAnswer, NodeError> {
        let (reply, answer) = oneshot::channel();
        self.command(Command::Ask(ask, reply)).await?;
        let answer: Result<RingAnswer, RingError> = answer.await.map_err(|_| NodeError::Closed)?;
        Ok(answer?)
    }
}
