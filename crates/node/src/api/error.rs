//! Why the local API refused, and how a refusal is answered.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use overlane_core::transaction::NamespaceTooLong;
use overlane_core::{Coded, Did, Fault, NetworkId};

use super::types::{Cause, Refusal};
use crate::groups::{BadGroupTicket, GroupsError};
use crate::home::HomeError;
use crate::inbox::InboxError;
use crate::refs::{BadTicket, ReferenceError};
use crate::share::ShareError;
use crate::{NodeError, SendError};

/// Why a request was refused.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ApiError {
    /// Nothing is answered at this path, or not with this method.
    #[error("the node answers no such request")]
    NoSuchRequest,
    /// The request's body is not what its path takes.
    #[error("the request is not understood: {cause}")]
    BadRequest {
        /// What is wrong with it.
        cause: String,
    },
    /// Text that names no destination.
    #[error("\"{text}\" names no node: expected 40 hexadecimal digits, or did:key:z…")]
    BadDestination {
        /// The text.
        text: String,
    },
    /// Text that is not hexadecimal.
    #[error("\"{field}\" is not hexadecimal")]
    NotHex {
        /// The field of the request.
        field: &'static str,
    },
    /// A namespace over its bound.
    #[error(transparent)]
    Namespace(NamespaceTooLong),
    /// Text that is no address of a node.
    #[error("{cause}")]
    BadPeerUrl {
        /// What is wrong with it.
        cause: String,
    },
    /// Somebody takes the messages already.
    #[error("another watcher takes this node's messages already")]
    Watched,
    /// Messages are taken by who watches, and this one does not.
    #[error("only the current watcher takes messages")]
    NotWatching,
    /// The task that does the work off the asynchronous workers was stopped.
    #[error("the node is shutting down")]
    Stopping,
    /// The home's files.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The node as a whole.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// A send.
    #[error(transparent)]
    Send(#[from] SendError),
    /// References.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// A file by reference.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// Groups.
    #[error(transparent)]
    Groups(#[from] GroupsError),
    /// Text that is no ticket of a group.
    #[error(transparent)]
    GroupTicket(BadGroupTicket),
    /// Text that names no group here.
    #[error("no group here is called \"{text}\"")]
    NoSuchGroup {
        /// The text.
        text: String,
    },
    /// A member whose key is not given.
    #[error("a member is invited by its key: give did:key:z… instead of {account}")]
    NoKey {
        /// Who.
        account: Did,
    },
    /// A ticket of a group on another network.
    #[error("the ticket is of a group on network {found}, and this node is of network {wanted}")]
    GroupOfOtherNetwork {
        /// This node's.
        wanted: NetworkId,
        /// The group's.
        found: NetworkId,
    },
    /// Mail.
    #[error(transparent)]
    Inbox(#[from] InboxError),
    /// Text that is no ticket.
    #[error(transparent)]
    Ticket(#[from] BadTicket),
}

impl Coded for ApiError {
    fn code(&self) -> &'static str {
        match self {
            Self::NoSuchRequest => "api/no_such_request",
            Self::BadRequest { .. } => "api/bad_request",
            Self::BadDestination { .. } => "api/bad_destination",
            Self::NotHex { .. } => "api/not_hex",
            Self::Namespace(_) => "api/namespace_too_long",
            Self::BadPeerUrl { .. } => "api/bad_peer_url",
            Self::Watched => "api/watched",
            Self::NotWatching => "api/not_watching",
            Self::Stopping => "api/stopping",
            Self::Home(error) => error.code(),
            Self::Node(error) => error.code(),
            Self::Send(error) => error.code(),
            Self::Reference(error) => error.code(),
            Self::Share(error) => error.code(),
            Self::Groups(error) => error.code(),
            Self::GroupTicket(_) => "group/bad_ticket",
            Self::NoSuchGroup { .. } => "api/no_such_group",
            Self::NoKey { .. } => "api/no_key",
            Self::GroupOfOtherNetwork { .. } => "api/group_of_other_network",
            Self::Inbox(error) => error.code(),
            Self::Ticket(_) => "refs/bad_ticket",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::NoSuchRequest
            | Self::BadRequest { .. }
            | Self::BadDestination { .. }
            | Self::NotHex { .. }
            | Self::BadPeerUrl { .. }
            | Self::GroupTicket(_)
            | Self::NoSuchGroup { .. }
            | Self::NoKey { .. }
            | Self::GroupOfOtherNetwork { .. }
            | Self::Ticket(_) => Fault::Usage,
            Self::Namespace(_) | Self::Watched | Self::NotWatching => Fault::RefusedByBound,
            Self::Stopping => Fault::Unreachable,
            Self::Home(error) => error.fault(),
            Self::Node(error) => error.fault(),
            Self::Send(error) => error.fault(),
            Self::Reference(error) => error.fault(),
            Self::Share(error) => error.fault(),
            Self::Groups(error) => error.fault(),
            Self::Inbox(error) => error.fault(),
        }
    }
}

impl From<JsonRejection> for ApiError {
    fn from(rejection: JsonRejection) -> Self {
        Self::BadRequest {
            cause: rejection.body_text(),
        }
    }
}

impl Refusal {
    /// The refusal that tells of `error`.
    pub fn of(error: &(impl Coded + std::fmt::Display)) -> Self {
        Self {
            error: error.code().to_owned(),
            message: error.to_string(),
            fault: error.fault().into(),
        }
    }
}

impl Cause {
    /// What is remembered of `error`.
    pub fn of(error: &(impl Coded + std::fmt::Display)) -> Self {
        Self {
            error: error.code().to_owned(),
            message: error.to_string(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = match (&self, self.fault()) {
            (Self::NoSuchRequest, _) => StatusCode::NOT_FOUND,
            (_, Fault::Usage) => StatusCode::BAD_REQUEST,
            (_, Fault::RefusedByBound) => StatusCode::CONFLICT,
            (_, Fault::StoreFailedClosed) => StatusCode::SERVICE_UNAVAILABLE,
            (_, Fault::PeerMisbehaved) => StatusCode::BAD_GATEWAY,
            (_, Fault::Unreachable) => StatusCode::GATEWAY_TIMEOUT,
        };
        (status, Json(Refusal::of(&self))).into_response()
    }
}
