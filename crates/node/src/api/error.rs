//! Why the local API refused, and how a refusal is answered.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use overlane_core::transaction::NamespaceTooLong;
use overlane_core::{Coded, Did, Fault, NetworkId};

use super::types::{Cause, Refusal};
use crate::groups::{BadGroupTicket, GroupsError};
use crate::home::{BackupError, HomeError};
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
    /// Text that is no digest of a transaction.
    #[error("\"{text}\" is no transaction's digest: expected 64 hexadecimal digits")]
    BadDigest {
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
    /// A request on TCP that names the host otherwise than the gate allows.
    #[error("the request names a host that this API is not known by")]
    HostNotAllowed,
    /// A request on TCP from a page that the gate does not allow.
    #[error("the request comes from a page of another origin")]
    OriginNotAllowed,
    /// A request on TCP without the token.
    #[error("the request brings no token, or a wrong one")]
    NoToken,
    /// Somebody takes the messages already.
    #[error("another watcher takes this node's messages already")]
    Watched,
    /// Messages are taken by who watches, and this one does not.
    #[error("only the current watcher takes messages")]
    NotWatching,
    /// The task that does the work off the asynchronous workers was stopped.
    #[error("the node is shutting down")]
    Stopping,
    /// Text that is no log filter.
    #[error("{cause}")]
    BadLogFilter {
        /// What is wrong with it.
        cause: String,
    },
    /// A path that does not begin at the root.
    #[error("\"{path}\" does not begin at the root")]
    RelativePath {
        /// The path.
        path: String,
    },
    /// What opens the key in the home is not to be had by the process that runs.
    #[error("the running node cannot open the key in its home: {cause}")]
    KeyNotOpened {
        /// Why.
        cause: String,
    },
    /// A copy of the home.
    #[error(transparent)]
    Backup(#[from] BackupError),
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
            Self::BadDigest { .. } => "api/bad_digest",
            Self::NotHex { .. } => "api/not_hex",
            Self::Namespace(_) => "api/namespace_too_long",
            Self::BadPeerUrl { .. } => "api/bad_peer_url",
            Self::HostNotAllowed => "api/host_not_allowed",
            Self::OriginNotAllowed => "api/origin_not_allowed",
            Self::NoToken => "api/no_token",
            Self::Watched => "api/watched",
            Self::NotWatching => "api/not_watching",
            Self::Stopping => "api/stopping",
            Self::BadLogFilter { .. } => "api/bad_log_filter",
            Self::RelativePath { .. } => "api/relative_path",
            Self::KeyNotOpened { .. } => "api/key_not_opened",
            Self::Backup(error) => error.code(),
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
            | Self::BadDigest { .. }
            | Self::NotHex { .. }
            | Self::BadPeerUrl { .. }
            | Self::GroupTicket(_)
            | Self::NoSuchGroup { .. }
            | Self::NoKey { .. }
            | Self::GroupOfOtherNetwork { .. }
            | Self::BadLogFilter { .. }
            | Self::RelativePath { .. }
            | Self::KeyNotOpened { .. }
            | Self::HostNotAllowed
            | Self::OriginNotAllowed
            | Self::NoToken
            | Self::Ticket(_) => Fault::Usage,
            Self::Namespace(_) | Self::Watched | Self::NotWatching => Fault::RefusedByBound,
            Self::Stopping => Fault::Unreachable,
            Self::Backup(error) => error.fault(),
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

/// The statuses of refusals. Only what fails in this node itself is a fault of the server: a store, or
/// that it is shutting down.
pub(super) const REFUSED_WITH: &[StatusCode] = &[
    StatusCode::BAD_REQUEST,
    StatusCode::UNAUTHORIZED,
    StatusCode::FORBIDDEN,
    StatusCode::NOT_FOUND,
    StatusCode::CONFLICT,
    StatusCode::FAILED_DEPENDENCY,
    StatusCode::SERVICE_UNAVAILABLE,
];

impl ApiError {
    fn status(&self) -> StatusCode {
        match (self, self.fault()) {
            (Self::NoSuchRequest, _) => StatusCode::NOT_FOUND,
            (Self::NoToken, _) => StatusCode::UNAUTHORIZED,
            (Self::HostNotAllowed | Self::OriginNotAllowed, _) => StatusCode::FORBIDDEN,
            (Self::Stopping | Self::Node(NodeError::Closed), _) => StatusCode::SERVICE_UNAVAILABLE,
            (_, Fault::Usage) => StatusCode::BAD_REQUEST,
            (_, Fault::RefusedByBound) => StatusCode::CONFLICT,
            (_, Fault::StoreFailedClosed) => StatusCode::SERVICE_UNAVAILABLE,
            // Another node was needed for it.
            (_, Fault::PeerMisbehaved | Fault::Unreachable) => StatusCode::FAILED_DEPENDENCY,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status(), Json(Refusal::of(&self))).into_response()
    }
}
