//! An Overlane node, as a library to embed: links over WebRTC, signalling, and the runtime
//! that drives a peer.

pub mod api;
mod builder;
mod error;
pub mod groups;
mod handlers;
pub mod home;
mod limits;
pub mod link;
pub mod logs;
mod mail;
mod messages;
mod node;
mod outcome;
mod overlay;
pub mod peer;
mod places;
pub mod policy;
mod receipts;
pub mod refs;
mod runtime;
mod sending;
mod session;
pub mod share;
#[cfg(feature = "sim")]
pub mod sim;
mod status;
mod store_times;
mod watch;
mod words;
/// For tests of applications: many nodes of the production code on a virtual clock, network and disk, each with an
/// application of yours ([`Application`](testkit::Application)), under faults that a seed draws.
#[cfg(feature = "sim")]
pub mod testkit {
    pub use crate::sim::{Application, ConfigError, Faults, Outbox, Report, Sim, SimConfig};
}

pub use builder::NodeBuilder;
pub use error::NodeError;
pub use handlers::HANDLER_DEADLINE_MS;
pub use limits::Limits;
pub use mail::SentMail;
pub use messages::Messages;
pub use node::Node;
pub use outcome::{Outcome, Outcomes};
pub use overlay::Pong;
pub use peer::inbox;
pub use peer::{Delivery, Event, Receipt, Refusal, SendError};
pub use runtime::{EVENTS_KEPT_MAX, NEIGHBOURS_MAX, Neighbour, PEERS_MAX, Progress};
pub use sending::{Sealing, Sending};
pub use session::Session;
pub use status::{NeighbourStatus, PeerState, PeerStatus, QueueStatus, Role, Status, StoreStatus};
pub use store_times::{Distribution, StoreTimes};
pub use watch::{Health, Waiting};
