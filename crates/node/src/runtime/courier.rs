//! Links by way of the ring: offers that go out and come in as control messages.
//!
//! A dial makes the offer, has the driver ask for an answer, and goes on as any dial does: who is at the
//! other end is proved by its signature and DTLS, whoever carried the two. Tasks hold the driver's
//! inbox weakly, so that none keeps a node running.

use overlane_core::ring::{RingAnswer, RingError};
use overlane_core::signal::Source;
use overlane_core::{Coded, Did};
use tokio::sync::{mpsc, oneshot};

use super::driver::{Command, DialReply};
use crate::link::{LinkError, Links};
use crate::peer::{Ask, OfferId};

/// Has offers brought to their nodes.
#[derive(Clone)]
pub(crate) struct Courier {
    links: Links,
    commands: mpsc::WeakSender<Command>,
}

impl Courier {
    pub(crate) fn new(links: Links, commands: mpsc::WeakSender<Command>) -> Self {
        Self { links, commands }
    }

    /// Dials the node of this account by way of the ring. The peer hears of it as a link, or as one
    /// that could not be had.
    pub(crate) fn dial(&self, peer: Did, reply: Option<DialReply>) {
        let courier = self.clone();
        tokio::spawn(async move {
            let carry = |offer| courier.carry(peer, offer);
            let dialed = courier.links.dial_peer(peer, carry).await;
            if let Err(error) = &dialed {
                tracing::debug!(%peer, %error, "no link by way of the ring");
                let failed = Command::ConnectFailed(peer, error.code());
                courier.tell(failed).await;
            }
            if let Some(reply) = reply {
                let _ = reply.send(dialed);
            }
        });
    }

    /// Answers an offer that `by` brought from `from`.
    pub(crate) fn answer(&self, offer: OfferId, from: Did, by: Did, bytes: Vec<u8>) {
        let courier = self.clone();
        tokio::spawn(async move {
            let source = Source::Carrier(by);
            let answered = courier.links.answer_peer(from, &bytes, source).await;
            if let Err(error) = &answered {
                tracing::debug!(%from, %error, "offer by way of the ring refused");
                courier.links.count_refused(error.code());
            }
            let answer = answered.map_err(|error| error.code());
            courier.tell(Command::OfferAnswered(offer, answer)).await;
        });
    }

    async fn carry(&self, peer: Did, offer: Vec<u8>) -> Result<Vec<u8>, LinkError> {
        let (reply, answer) = oneshot::channel();
        self.tell(Command::Ask(Ask::Offer(peer, offer), reply))
            .await;
        match answer.await {
            Ok(Ok(RingAnswer::Answered(answer))) => Ok(answer),
            Ok(Err(RingError::Declined { code, .. })) if code == CROSSED => {
                Err(LinkError::Crossed { peer })
            }
            Ok(Err(error)) => Err(error.into()),
            Ok(Ok(_)) | Err(_) => Err(LinkError::ShuttingDown),
        }
    }

    async fn tell(&self, command: Command) {
        if let Some(commands) = self.commands.upgrade() {
            // A driver that ended needs to hear nothing.
            let _ = commands.send(command).await;
        }
    }
}

/// The code of an offer that gives way to the peer's own, whose link is to be waited for.
const CROSSED: &str = "link/crossed";
