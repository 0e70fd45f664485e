//! The ring: who is whose neighbour, and how a message comes to any node.
//!
//! [`Ring`] is one node's part of it, a state machine: requests and their answers are [`RingMessage`]s,
//! which travel as control transactions; it says which links it wants, and [`route()`] says where a
//! message goes from here. Source: protocol decision 7.
//!
//! Laws, and where they are kept: **order** and Zave's invariants (`members`, `rounds`), **range proof**
//! (`fingers`), **a route ends** (`route`), and of [`Ring`] **correlation**: an answer counts only
//! if the node that was asked gives it, once, and only if it says what such an answer can say.

#[macro_use]
mod mutant;

pub mod bounds;
mod chain;
mod chance;
mod error;
#[cfg(test)]
mod explore;
mod fingers;
mod lookup;
mod machine;
mod members;
mod message;
mod place;
mod requests;
mod rounds;
mod route;
mod ticket;
mod trace;
mod wants;

pub use chain::CHAIN_NAMED;
pub use error::{RingError, RingRefusal};
pub use fingers::Fingers;
pub use machine::{Counters, Ring, RingAction, RingConfig};
pub use members::Members;
pub use message::{RING_MARKER, RequestId, RingMessage, WhyUnreachable};
#[cfg(feature = "sim")]
pub use mutant::{Mutant as RingMutant, with as with_mutant};
pub use place::{Distance, PLACE_BITS, is_between, is_owned};
pub use requests::RingAnswer;
pub use route::{Route, is_progress, route};
pub use ticket::{NotATicket, TICKET_URL_MAX_BYTES, TICKET_URLS_MAX, Ticket};
pub use trace::{Path, PathEnd};
