//! The **local API**: HTTP with JSON on a Unix socket in the home folder. The command line uses
//! nothing else to talk to a running daemon.
//!
//! | request | answer |
//! |---|---|
//! | `GET /v1/status` | [`StatusReport`] |
//! | `POST /v1/send` with [`SendRequest`] | [`SendReceipt`], once the lease is durable and the frame is in its lane |
//! | `POST /v1/offer_again` with [`OfferAgainRequest`] | [`SendReceipt`] of the bytes offered |
//! | `GET /v1/peers` | [`PeersReport`] |
//! | `POST /v1/peers`, `DELETE /v1/peers` with [`PeerRequest`] | [`PeerChanged`] |
//! | `GET /v1/messages` | a [`TakenMessage`] a line, taken as it is read |
//! | `GET /v1/events` | an [`EventLine`] a line |
//!
//! Everything else is answered with [`Refusal`]. The socket has mode 0600, and a process of
//! another user is refused by its credentials.

mod client;
mod socket;
mod types;

pub use client::{Client, ClientError, Lines};
pub use socket::{LocalListener, bind};
pub use types::{
    Cause, ClassName, EventLine, FaultName, Identity, LinkReport, OfferAgainRequest, PeerChanged,
    PeerReport, PeerRequest, PeersReport, QueueReport, Refusal, SendReceipt, SendRequest,
    StatusReport, StoreReport, TakenMessage,
};
