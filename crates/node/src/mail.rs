//! Mail, for whoever embeds a node: sending to those who may be away, and taking what came while this node was.

use std::sync::atomic::Ordering;

use overlane_core::replay::CUSTODY_CAPACITY;
use overlane_core::seal::{SealContext, SealError};
use overlane_core::transaction::{Data, Message};
use overlane_core::{Did, TransactionDigest};
use tokio::sync::oneshot;
use tokio::time::{Duration, Instant, interval};

use crate::error::NodeError;
use crate::node::Node;
use crate::peer::inbox::{Arrived, InboxError, MailStatus};
use crate::peer::{Delivery, Peer, Receipt, SendError, SendId};
use crate::runtime::{Awaited, Command, MailRequest, Posted};
use crate::sending::Sealing;

/// Between two looks after what a probe left.
const PROBE_EVERY: Duration = Duration::from_millis(250);

/// A message that left, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentMail {
    /// What is known here of the transaction.
    pub receipt: Receipt,
    /// Whether its destination admitted it, or who holds it, or why neither.
    pub arrived: Result<Arrived, InboxError>,
}

impl Node {
    /// As [`send`](Self::send), and waits until the destination says that it admitted the message,
    /// or, where it does not answer, until others hold it for it. An application's message is sealed to
    /// the destination; others are delivered or not, and held by nobody.
    ///
    /// # Errors
    /// [`SendError`]: nothing left. What became of what left is in [`SentMail::arrived`].
    pub async fn send_or_hold(
        &self,
        destination: Did,
        message: Message<'_>,
    ) -> Result<SentMail, SendError> {
        let outgoing = self.outgoing(destination, &message, Sealing::Sealed)?;
        let bytes = outgoing.data_bytes();
        let parts = self.parts();
        let place = parts.places.take(destination, bytes).await;
        let place = place.ok_or(SendError::Closed)?;
        let id = SendId(parts.next_send.fetch_add(1, Ordering::Relaxed));
        let (reply, result) = oneshot::channel();
        let (arrived, arrival) = oneshot::channel();
        let posted = Posted::SendOrHold(id, outgoing, Awaited { reply, place }, arrived);
        parts.posts.send(posted).map_err(|_| SendError::Closed)?;
        let receipt = result.await.unwrap_or(Err(SendError::Closed))?;
        let arrived = arrival.await.unwrap_or(Err(InboxError::Closed));
        Ok(SentMail { receipt, arrived })
    }

    /// Takes the mail that came first, or this one. It is this caller's alone, once: those who hold it are
    /// told to let go of it, and after a crash it does not come again.
    ///
    /// # Errors
    /// [`InboxError`]: no mail waits, or not this one.
    pub async fn take_mail(
        &self,
        digest: Option<TransactionDigest>,
    ) -> Result<Delivery, InboxError> {
        let (reply, answer) = oneshot::channel();
        let request = Command::Mail(MailRequest::Take(digest, reply));
        let sent = self.command(request).await;
        sent.map_err(|_| InboxError::Closed)?;
        answer.await.unwrap_or(Err(InboxError::Closed))
    }

    /// Asks those who hold mail for this node for it now, and not when it is due.
    ///
    /// # Errors
    /// [`NodeError::Closed`].
    pub async fn fetch_mail(&self) -> Result<(), NodeError> {
        self.command(Command::Mail(MailRequest::Fetch)).await
    }

    /// What a mail that was taken says, opened with this account's key.
    ///
    /// # Errors
    /// [`SealError`]: it was not sealed to this account, or for another origin.
    pub fn open_mail(&self, delivery: &Delivery) -> Result<Data, SealError> {
        let stream = delivery.item().stream();
        let context = SealContext {
            network: stream.network,
            origin: stream.origin,
            destination: stream.destination,
        };
        let message = delivery.item().message();
        self.parts().identity.open(&context, message.body())
    }

    /// Leaves a sealed item of its own with each node that holds this one's inbox, by the ring, and takes
    /// it again: the whole way of a mail. For each, how long that took; `None` where it did not come back.
    ///
    /// # Errors
    /// [`InboxError`]
    pub async fn probe_inbox(
        &self,
        within: Duration,
    ) -> Result<Vec<(Did, Option<Duration>)>, InboxError> {
        let begun = Instant::now();
        let closed = |_| InboxError::Closed;
        let status = self.mail().await.map_err(closed)?;
        if !status.has_store {
            return Err(InboxError::NoStore);
        }
        // What is left would stay with its holders, and come as mail when there is room.
        if status.custody >= CUSTODY_CAPACITY {
            return Err(InboxError::CustodyFull);
        }
        let identity = &self.parts().identity;
        let items = identity.probes(status.holders.len());
        let items = items.map_err(|cause| InboxError::StoreFailed {
            cause: cause.to_string(),
        })?;
        let mut left: Vec<(Did, TransactionDigest, Option<Duration>)> = Vec::new();
        for (&holder, (digest, payload)) in status.holders.iter().zip(items) {
            left.push((holder, digest, None));
            let leave = Command::Mail(MailRequest::Leave(holder, payload));
            self.command(leave).await.map_err(closed)?;
        }
        let mut every = interval(PROBE_EVERY);
        while begun.elapsed() < within && left.iter().any(|it| it.2.is_none()) {
            every.tick().await;
            for (_, digest, taken) in left.iter_mut().filter(|it| it.2.is_none()) {
                match self.take_mail(Some(*digest)).await {
                    Ok(delivery) if self.open_mail(&delivery).is_ok() => {
                        *taken = Some(begun.elapsed());
                    }
                    Err(error @ (InboxError::Closed | InboxError::StoreFailed { .. })) => {
                        return Err(error);
                    }
                    _ => {}
                }
            }
            self.fetch_mail().await.map_err(closed)?;
        }
        Ok(left.into_iter().map(|it| (it.0, it.2)).collect())
    }

    /// This node's mail: what waits to be taken, what others hold, what is held here.
    ///
    /// # Errors
    /// [`NodeError::Closed`].
    pub async fn mail(&self) -> Result<MailStatus, NodeError> {
        let (reply, answer) = oneshot::channel();
        let look = Command::Look(Box::new(move |peer: &Peer| {
            let _ = reply.send(peer.mail());
        }));
        self.command(look).await?;
        answer.await.map_err(|_| NodeError::Closed)
    }
}
