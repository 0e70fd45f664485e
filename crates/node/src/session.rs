//! E2E sessions for whoever embeds a node.

use overlane_core::Did;
use overlane_core::transaction::{Data, Message, SignError};
use overlane_core::wire::cbor;
use zeroize::Zeroizing;

use crate::error::NodeError;
use crate::node::Node;
use crate::peer::{Outgoing, Receipt, SendError};
use crate::runtime::Command;

/// What is said to one other node, and heard of it, under keys that nobody has any more afterwards: who
/// learns either account's secret later reads nothing of it. Handles to the sessions with one node share
/// what comes; each body goes to one of them, once.
///
/// Sessions come about by themselves, are followed by others, and are lost when either node is restarted:
/// what was sent in one that is lost may be lost with it
/// ([`Event::SessionLost`](crate::Event::SessionLost)).
#[derive(Debug, Clone)]
pub struct Session {
    node: Node,
    with: Did,
}

impl Node {
    /// A handle to the E2E sessions with the node of this account. Nothing is sent for it.
    pub fn session(&self, with: Did) -> Session {
        let node = self.clone();
        Session { node, with }
    }
}

impl Session {
    /// Whom the sessions are with.
    pub fn with(&self) -> Did {
        self.with
    }

    /// Sends a body of at most [`BODY_MAX_BYTES`](overlane_core::e2e::bounds::BODY_MAX_BYTES), in the session there is or in one that is
    /// asked for first. The receipt says that the message which holds it is signed and in its lane.
    ///
    /// # Errors
    /// [`SendError`]: as of any send, or [`Session`](SendError::Session) and why there is none.
    pub async fn send(&self, body: &[u8]) -> Result<Receipt, SendError> {
        let data = Data::parse(cbor::to_vec(&Message::E2e(body)));
        let data = data.map_err(|error| SendError::Sign(SignError::from(error)))?;
        let tx_id = self.node.parts().identity.tx_id();
        let outgoing = Outgoing::new(self.with, data, tx_id).in_session();
        self.node.send_outgoing(outgoing, None).await?.await
    }

    /// The next body of the other node. `None` once this node has shut down and all are taken. Dropping
    /// the future takes nothing.
    pub async fn recv(&self) -> Option<Zeroizing<Vec<u8>>> {
        self.node.messages().next_in_session(self.with).await
    }

    /// Ends the sessions: their keys are wiped here and there, and the next body goes in another.
    ///
    /// # Errors
    /// [`NodeError::Closed`].
    pub async fn end(&self) -> Result<(), NodeError> {
        self.node.command(Command::EndSession(self.with)).await
    }
}
