//! What a node does about references.

use std::sync::Arc;

use overlane_core::{Coded, Fault};
use tokio::sync::oneshot;
use tokio::time::{Duration, timeout};

use super::{
    CallError, FarView, KeptView, Pending, Ref, ReferenceCounters, ReferenceError, Service,
    TICKET_URL_MAX_BYTES, Ticket, Token,
};
use crate::error::NodeError;
use crate::node::Node;
use crate::peer::Peer;
use crate::peer::refs::{Ask, References, ticket_digest};
use crate::runtime::{Command, Given};

/// How often a ticket's node is asked, when the link to it is lost just then.
const REACH_TRIES: u32 = 3;

/// How long a link that the other side dialled may take after a dial that failed.
const REACH_WITHIN: Duration = Duration::from_secs(2);

/// Why a ticket gave no reference.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RedeemError {
    /// The node that has it could not be linked to.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// Another node answers at the ticket's address.
    #[error("the ticket is of {wanted}, and {found} answers at its address")]
    OtherNode {
        /// Whose it is.
        wanted: overlane_core::Did,
        /// Who answers.
        found: overlane_core::Did,
    },
    /// Nothing was asked.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// The node that has it says no.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl Coded for RedeemError {
    fn code(&self) -> &'static str {
        match self {
            Self::Node(error) => error.code(),
            Self::OtherNode { .. } => "refs/other_node",
            Self::Reference(error) => error.code(),
            Self::Call(error) => error.code(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Node(error) => error.fault(),
            Self::OtherNode { .. } => Fault::Unreachable,
            Self::Reference(error) => error.fault(),
            Self::Call(error) => error.fault(),
        }
    }
}

/// What a node knows of references, at one instant.
#[derive(Debug, Clone, Default)]
pub struct ReferenceStatus {
    /// Whether there is a store, and why it failed if it did.
    pub store: Option<Result<(), String>>,
    /// Services that are offered.
    pub exports: usize,
    /// Calls that are not answered.
    pub open_calls: usize,
    /// Objects and promises that are known.
    pub known: (usize, usize),
    /// The nodes that references are shared with.
    pub fars: Vec<FarView>,
    /// Counts since the start.
    pub counters: ReferenceCounters,
}

impl Node {
    /// Offers a service: whoever gets the reference can call it. It ends with this process, unless
    /// it is kept ([`Ref::token`]) and offered again with [`attach`](Self::attach); those who hold it
    /// are told.
    ///
    /// # Errors
    /// [`ReferenceError`]
    pub async fn export(&self, service: impl Service) -> Result<Ref, ReferenceError> {
        let service: Arc<dyn Service> = Arc::new(service);
        self.reference(Ask::Export, Some(service)).await
    }

    /// Offers a kept reference of this node's own again, after a restart. Calls that came meanwhile
    /// are given to the service first.
    ///
    /// # Errors
    /// [`ReferenceError`]
    pub async fn attach(&self, token: Token, service: impl Service) -> Result<Ref, ReferenceError> {
        let service: Arc<dyn Service> = Arc::new(service);
        self.reference(Ask::Attach(token), Some(service)).await
    }

    /// A kept reference; its [`state`](Ref::state) says what it is still worth.
    ///
    /// # Errors
    /// [`ReferenceError`]
    pub async fn restore(&self, token: Token) -> Result<Ref, ReferenceError> {
        self.reference(Ask::Restore(token), None).await
    }

    /// Keeps a reference no longer, and its tickets lead nowhere.
    ///
    /// # Errors
    /// [`ReferenceError::HeldElsewhere`]: one of this node's own that others hold must be taken back
    /// first.
    pub async fn forget(&self, token: Token) -> Result<(), ReferenceError> {
        let asked = self.parts().refs.ask(Ask::Forget(token), None, Vec::new());
        asked.await.map(drop)
    }

    /// A ticket to a kept reference. Its secret is not kept here: what is printed once cannot be
    /// printed again.
    ///
    /// # Errors
    /// [`ReferenceError`]
    pub async fn ticket(&self, token: Token) -> Result<Ticket, ReferenceError> {
        let secret = self.parts().identity.nonce();
        let ask = Ask::Admit(token, ticket_digest(&secret));
        self.parts().refs.ask(ask, None, Vec::new()).await?;
        let url = self.url().filter(|url| url.len() <= TICKET_URL_MAX_BYTES);
        Ok(Ticket {
            peer: self.did(),
            url: url.map(str::to_owned),
            secret,
        })
    }

    /// The reference that a ticket leads to. Links to its node first, if there is no link and the
    /// ticket says where.
    ///
    /// # Errors
    /// [`RedeemError`]
    pub async fn redeem(&self, ticket: &Ticket) -> Result<Ref, RedeemError> {
        if ticket.peer == self.did() {
            return Err(ReferenceError::ToItself { did: ticket.peer }.into());
        }
        let pending = self.knock(ticket).await?;
        let mut reply = pending.await?;
        match reply.refs.pop() {
            Some(Ok(of)) => Ok(of),
            Some(Err(taken_back)) => Err(CallError::Broken(taken_back).into()),
            None => Err(CallError::Refused(reply.bytes).into()),
        }
    }

    /// Everything that is kept, in the order it was kept.
    ///
    /// # Errors
    /// [`ReferenceError`]
    pub async fn kept(&self) -> Result<Vec<KeptView>, ReferenceError> {
        let kept = |references: &References| references.kept().collect();
        self.look(kept).await?.ok_or(ReferenceError::NoStore)
    }

    /// What this node knows of references.
    ///
    /// # Errors
    /// [`ReferenceError::Closed`]
    pub async fn references(&self) -> Result<ReferenceStatus, ReferenceError> {
        let status = |references: &References| ReferenceStatus {
            store: Some(
                references
                    .failure()
                    .map_or(Ok(()), |cause| Err(cause.to_owned())),
            ),
            exports: references.exports(),
            open_calls: references.open_calls(),
            known: references.known(),
            fars: references.fars().collect(),
            counters: references.counters().clone(),
        };
        Ok(self.look(status).await?.unwrap_or_default())
    }

    /// Asks at the door of a ticket's node. A link that gave way to another meanwhile is no reason to
    /// give up: the other is waited for.
    async fn knock(&self, ticket: &Ticket) -> Result<Pending, RedeemError> {
        let mut tries = 1;
        loop {
            self.reach(ticket).await?;
            let ask = Ask::Redeem(ticket.peer, ticket.secret);
            match self.parts().refs.ask(ask, None, Vec::new()).await {
                Ok(Given::Pending(pending)) => return Ok(pending),
                Ok(_) => return Err(ReferenceError::Closed.into()),
                Err(ReferenceError::Unreachable { .. }) if tries < REACH_TRIES => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Links to a ticket's node, if no link is up and the ticket says where.
    async fn reach(&self, ticket: &Ticket) -> Result<(), RedeemError> {
        let up = &self.parts().up;
        let linked = up.borrow().values().any(|did| *did == ticket.peer);
        let (false, Some(url)) = (linked, &ticket.url) else {
            return Ok(());
        };
        match self.connect(url).await {
            Ok(found) if found == ticket.peer => Ok(()),
            Ok(found) => {
                let wanted = ticket.peer;
                Err(RedeemError::OtherNode { wanted, found })
            }
            // It may have dialled this node at the same time, and its link stands.
            Err(error) => match timeout(REACH_WITHIN, self.linked(ticket.peer)).await {
                Ok(true) => Ok(()),
                _ => Err(error.into()),
            },
        }
    }

    async fn reference(
        &self,
        ask: Ask,
        service: Option<Arc<dyn Service>>,
    ) -> Result<Ref, ReferenceError> {
        match self.parts().refs.ask(ask, service, Vec::new()).await? {
            Given::Ref(of) => Ok(of),
            _ => Err(ReferenceError::Closed),
        }
    }

    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&References) -> T + Send + 'static,
    ) -> Result<Option<T>, ReferenceError> {
        let (reply, answer) = oneshot::channel();
        let look = Command::Look(Box::new(move |peer: &Peer| {
            let _ = reply.send(peer.references().map(look));
        }));
        let sent = self.parts().commands.send(look).await;
        sent.map_err(|_| ReferenceError::Closed)?;
        answer.await.map_err(|_| ReferenceError::Closed)
    }
}
