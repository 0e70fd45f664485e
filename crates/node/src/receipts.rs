//! Admission receipts for whoever embeds a node.

use std::time::Duration;

use overlane_core::identity::Verified;
use overlane_core::receipt::AdmissionReceipt;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::error::NodeError;
use crate::node::Node;
use crate::peer::{Admission, Receipt};
use crate::runtime::Command;

/// How long an answer is waited for before it is asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(2);

impl Node {
    /// Asks the destination of what was sent for its signed word that it is admitted, durably, and waits
    /// for it at most so long. `None` where it did not come: the transaction was refused, is not there yet,
    /// or has left the window. Dropping the future gives the wait up, and no more.
    ///
    /// # Errors
    /// [`NodeError::Closed`].
    pub async fn receipt(
        &self,
        sent: &Receipt,
        within: Duration,
    ) -> Result<Option<Verified<AdmissionReceipt>>, NodeError> {
        let of = Admission {
            stream: sent.stream,
            sequence: sent.sequence,
            digest: sent.digest,
        };
        let deadline = Instant::now() + within;
        let commands = &self.parts().commands;
        while Instant::now() < deadline {
            let (reply, answer) = oneshot::channel();
            let asked = commands.send(Command::Receipt(of, reply)).await;
            asked.map_err(|_| NodeError::Closed)?;
            let until = deadline.min(Instant::now() + ASK_AGAIN);
            match timeout_at(until, answer).await {
                Ok(Ok(receipt)) => return Ok(Some(*receipt)),
                // As many are waited for as may be.
                Ok(Err(_)) => tokio::time::sleep_until(until).await,
                Err(_) => {}
            }
        }
        let given_up = commands.send(Command::NoReceipt(of)).await;
        given_up.map_err(|_| NodeError::Closed)?;
        Ok(None)
    }
}
