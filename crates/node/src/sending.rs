//! How an embedder's messages are sent: with a wait for their place, or without one.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::Bytes;
use overlane_core::identity::AccountKey;
use overlane_core::transaction::{Data, Message, SignError};
use overlane_core::wire::cbor;
use overlane_core::{Class, Did};
use tokio::sync::{mpsc, oneshot, watch};

use crate::error::NodeError;
use crate::node::Node;
use crate::peer::{Outgoing, Receipt, SendError, SendId, claims_sealed, is_reserved};
use crate::places::Place;
use crate::runtime::{Awaited, Command, Posted, Progress};

/// Whether an application's message is sealed to its destination, so that it alone can read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sealing {
    /// Sealed. Where the destination's key is not known here, it is asked for first; a message is never
    /// sent plain for want of it.
    #[default]
    Sealed,
    /// As it is: every node on its way can read it.
    Plain,
}

/// A send that is on its way. It is a future: its result comes once a lane has the message.
///
/// Dropping it abandons only the wait: the message goes out all the same. [`cancel`](Self::cancel) takes
/// the message back.
#[derive(Debug)]
pub struct Sending {
    id: SendId,
    result: oneshot::Receiver<Result<Receipt, SendError>>,
    posts: Option<mpsc::UnboundedSender<Posted>>,
}

impl Sending {
    /// Takes the message back, if no lane has it yet. The result says what came of that:
    /// [`SendError::Cancelled`], and its destination never admits it; or the receipt, and it was too
    /// late. Repeating it does nothing.
    pub fn cancel(&mut self) {
        // Once a send, so that what waits for the driver stays bounded by the places.
        if let Some(posts) = self.posts.take() {
            // A node that shut down has given the result.
            let _ = posts.send(Posted::Cancel(self.id));
        }
    }
}

impl Future for Sending {
    type Output = Result<Receipt, SendError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = Pin::new(&mut self.result).poll(cx);
        result.map(|result| result.unwrap_or(Err(SendError::Closed)))
    }
}

impl Node {
    /// Seals an application's message to its destination, signs it, and puts it in the destination's lane.
    /// Messages of other classes are sent as they are. It waits for the destination's key where that is
    /// not known here, and waits for a place among the sends to
    /// this destination, the stream's pace, its durable lease, and room in the lane. Dropping the
    /// future while it waits for its place sends nothing; after that it abandons only the wait, and
    /// the message goes out all the same.
    ///
    /// # Errors
    /// [`SendError`]. After one that came before the signature, no sequence was used.
    pub async fn send(&self, destination: Did, message: Message<'_>) -> Result<Receipt, SendError> {
        self.send_as(destination, message, Sealing::Sealed).await
    }

    /// As [`send`](Self::send), sealed or plain.
    ///
    /// # Errors
    /// [`SendError`].
    pub async fn send_as(
        &self,
        destination: Did,
        message: Message<'_>,
        sealing: Sealing,
    ) -> Result<Receipt, SendError> {
        let outgoing = self.outgoing(destination, &message, sealing)?;
        self.send_outgoing(outgoing, None).await?.await
    }

    /// As [`send_as`](Self::send_as), telling how far a message that travels in chunks came into its lane.
    ///
    /// # Errors
    /// [`SendError`].
    pub async fn send_watched(
        &self,
        destination: Did,
        message: Message<'_>,
        sealing: Sealing,
        progress: watch::Sender<Progress>,
    ) -> Result<Receipt, SendError> {
        self.sending(destination, message, sealing, progress)
            .await?
            .await
    }

    /// As [`send_watched`](Self::send_watched), for whoever may take the message back: the send itself, once
    /// it has its place.
    ///
    /// # Errors
    /// [`SendError`], of what is known before the message is on its way.
    pub async fn sending(
        &self,
        destination: Did,
        message: Message<'_>,
        sealing: Sealing,
        progress: watch::Sender<Progress>,
    ) -> Result<Sending, SendError> {
        let outgoing = self.outgoing(destination, &message, sealing)?;
        self.send_outgoing(outgoing, Some(progress)).await
    }

    /// As [`send`](Self::send), without waiting for anything: what a handler answers with. The message
    /// goes its way whether or not the [`Sending`] is awaited, behind what was sent in its stream before.
    ///
    /// # Errors
    /// [`SendError::TooManyPending`]: the destination has its share of the sends under way; no other
    /// destination has anything to do with it. [`SendError`] otherwise.
    pub fn post(&self, destination: Did, message: Message<'_>) -> Result<Sending, SendError> {
        self.post_as(destination, message, Sealing::Sealed)
    }

    /// As [`post`](Self::post), sealed or plain.
    ///
    /// # Errors
    /// [`SendError`].
    pub fn post_as(
        &self,
        destination: Did,
        message: Message<'_>,
        sealing: Sealing,
    ) -> Result<Sending, SendError> {
        let outgoing = self.outgoing(destination, &message, sealing)?;
        let place = self
            .parts()
            .places
            .take_now(destination, outgoing.data_bytes());
        let place = place.ok_or(SendError::TooManyPending)?;
        self.give(place, |id, awaited| {
            Posted::Send(id, outgoing, None, awaited)
        })
    }

    /// Carries the transaction of signed bytes ([`Receipt::signed`]) to its destination again.
    /// Where the first copy was admitted, this one is refused as a replay; where it was lost,
    /// this one is admitted, while its proof lives and its stream's window still speaks for it.
    ///
    /// # Errors
    /// [`SendError`].
    pub async fn offer_again(&self, signed: impl Into<Bytes>) -> Result<Receipt, SendError> {
        self.offer(signed.into(), None).await
    }

    /// As [`offer_again`](Self::offer_again), by way of a linked peer that need not be the
    /// destination.
    ///
    /// # Errors
    /// [`SendError`].
    pub async fn offer_via(
        &self,
        peer: Did,
        signed: impl Into<Bytes>,
    ) -> Result<Receipt, SendError> {
        self.offer(signed.into(), Some(peer)).await
    }

    async fn offer(&self, signed: Bytes, via: Option<Did>) -> Result<Receipt, SendError> {
        // Whom they are for is read by the peer; here they wait among themselves.
        let whose = via.unwrap_or(self.did());
        let bytes = u64::try_from(signed.len()).unwrap_or(u64::MAX);
        let place = self.parts().places.take(whose, bytes).await;
        let place = place.ok_or(SendError::Closed)?;
        let offer = |id, awaited| Posted::Offer(id, signed, via, awaited);
        self.give(place, offer)?.await
    }

    /// Notes an account's public key, wherever it was learnt: messages to it are sealed with no question
    /// asked first.
    ///
    /// # Errors
    /// [`NodeError::Closed`].
    pub async fn learn(&self, account: AccountKey) -> Result<(), NodeError> {
        self.command(Command::Learn(Box::new(account))).await?;
        // Noted once what was asked after it is answered: what is sent from now on finds the key.
        self.seen(|_| ()).await
    }

    pub(crate) fn outgoing(
        &self,
        destination: Did,
        message: &Message<'_>,
        sealing: Sealing,
    ) -> Result<Outgoing, SendError> {
        if is_reserved(message) || claims_sealed(message) {
            return Err(SendError::ReservedNamespace);
        }
        let data = Data::parse_large(cbor::to_vec(message)).map_err(SignError::from)?;
        let identity = &self.parts().identity;
        if sealing == Sealing::Sealed && data.class() == Class::Application {
            let outgoing = Outgoing::new(destination, data, identity.tx_id());
            return Ok(outgoing.sealed(identity.seal_seed()));
        }
        // The node's one task need not read a large message for it.
        data.hash();
        Ok(Outgoing::new(destination, data, identity.tx_id()))
    }

    /// Waits for a place and gives the message to the driver.
    pub(crate) async fn send_outgoing(
        &self,
        outgoing: Outgoing,
        progress: Option<watch::Sender<Progress>>,
    ) -> Result<Sending, SendError> {
        let (destination, bytes) = (outgoing.destination, outgoing.data_bytes());
        let place = self.parts().places.take(destination, bytes).await;
        let place = place.ok_or(SendError::Closed)?;
        self.give(place, |id, awaited| {
            Posted::Send(id, outgoing, progress, awaited)
        })
    }

    fn give(
        &self,
        place: Place,
        posted: impl FnOnce(SendId, Awaited) -> Posted,
    ) -> Result<Sending, SendError> {
        let parts = self.parts();
        let id = SendId(parts.next_send.fetch_add(1, Ordering::Relaxed));
        let (reply, result) = oneshot::channel();
        let given = parts.posts.send(posted(id, Awaited { reply, place }));
        given.map_err(|_| SendError::Closed)?;
        Ok(Sending {
            id,
            result,
            posts: Some(parts.posts.clone()),
        })
    }
}
