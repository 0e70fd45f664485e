//! Links and lanes: four ordered channels between two nodes, one a class, and how they share.
//!
//! A **link** is one admitted connection generation; [`Session`] is its state machine. A **lane** is
//! what one class has of it: a queue, a place in turn, and credit. Source: protocol decision 6
//! (links and lanes).

mod batch;
pub mod bounds;
mod channel;
pub mod chunks;
mod control;
mod credit;
mod delegations;
mod liveness;
mod numbers;
mod per_lane;
mod queue;
mod reason;
mod receive;
mod rules;
mod session;
mod status;
#[cfg(test)]
mod tests;
mod transmit;
mod waiting;

pub use control::{ControlFrame, Credit, Hello, Numbered, QuotaHint, Windows};
pub use delegations::Statements;
pub use per_lane::PerLane;
pub use reason::{CloseReason, SendError, Violation};
pub use session::{Phase, Session, SessionConfig, SessionEvent, Transmit};
pub use status::{Counters, LaneStatus, SessionStatus};
