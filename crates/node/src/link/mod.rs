//! Links: admitted WebRTC connections between two nodes, four ordered channels each.
//!
//! [`Links`] dials and answers. Each link has a `driver` that drives a session of
//! `overlane_core::lane` over a [`transport::Transport`]; WebRTC is one ([`connection`]). Who is at
//! the other end is the signer of the session description whose fingerprint DTLS proved.
//!
//! Law (proved peer): a link's peer is proved before it is told of. Law (one link): two nodes keep
//! at most one link between them, and the same one (`rule`). Law (nothing left): a link that is
//! down holds no task, no driver and no socket ([`count::Held`]).
//!
//! Source: protocol decision 6 (links and lanes), threats 1 to 4, 14 and 16.

mod beside;
pub mod config;
pub mod connection;
pub mod count;
mod driver;
mod error;
mod handshake;
pub mod http;
pub mod ice;
mod id;
mod links;
mod listening;
pub mod ports;
mod probe;
mod queued;
pub(crate) mod registry;
mod relay;
pub(crate) mod rule;
pub mod sdp;
pub mod server;
mod settings;
pub mod signal;
pub mod socket;
#[cfg(test)]
mod tests;
pub mod transport;
pub mod tried;

pub use config::LinkConfig;
pub use error::{DownReason, LinkError};
pub use id::LinkId;
pub use links::{ClockWitness, LinkEvent, LinkHandle, LinkIdentity, LinkStatus, LinkUp, Links};
pub use rule::CROSSING_MS;
