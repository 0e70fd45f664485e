//! What one transaction did: told to the application, sent, and counted.

use super::local::Source;
use super::names::{LinkId, Local, LocalObject, LocalPromise};
use crate::refs::error::LinkError;
use crate::refs::wire::{Body, Hardness, Outcome, Reason, Seq};
use std::sync::Arc;

/// What one transaction did. The changed tables must be durable before any of it leaves the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    /// The frame that caused it, if it was one. Together with an event's index it names the event
    /// for ever.
    pub cause: Option<(LinkId, Seq)>,
    /// What the application is told, in order. Every reference in it is a handle that the
    /// application releases when it is done with it.
    pub events: Vec<Event>,
    /// Frames to send, in order for each link.
    pub transmits: Vec<Transmit>,
    /// What happened, for metrics.
    pub counts: Counts,
}

/// A frame to send.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Transmit {
    /// Where to.
    pub link: LinkId,
    /// Its number, if it has one: it may have to be sent again until it is acknowledged.
    pub seq: Option<Seq>,
    /// The frame.
    pub bytes: Arc<[u8]>,
}

/// Something the application is told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    /// A message to an object of the application.
    Deliver {
        /// Who sent it, or passed it on.
        from: Source,
        /// The object.
        target: LocalObject,
        /// What it says.
        body: Body<Local>,
        /// The promise to resolve with the answer.
        result: Option<LocalPromise>,
    },
    /// A promise that the application holds became something.
    Resolved {
        /// The promise.
        promise: LocalPromise,
        /// What it became.
        outcome: Outcome<Local>,
    },
    /// An object that the application holds was taken back, or lost with its link.
    Revoked {
        /// The object.
        object: LocalObject,
        /// Whether its identity went too.
        hardness: Hardness,
        /// Why.
        reason: Reason,
        /// What its owner says about it.
        error: Arc<[u8]>,
    },
    /// Nobody but the application itself holds this object of its own any more.
    Unreferenced(LocalObject),
    /// Nobody waits any more for what the application was asked to resolve.
    Unwanted(LocalPromise),
    /// The epoch of a link is over, and its references with it.
    Ended {
        /// The link.
        link: LinkId,
        /// Why.
        cause: LinkError,
    },
}

/// How often what happened in a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Counts {
    /// Drops that freed a name.
    pub drops_executed: u32,
    /// Drops that had not seen the newest mention, and were ignored.
    pub drops_uninformed: u32,
    /// Names that a crossing mention brought back.
    pub resurrections: u32,
    /// Messages without a result that could not be answered.
    pub dead_letters: u32,
    /// Messages that a bound kept from their target.
    pub undeliverable: u32,
    /// Messages to what the peer knew takes none.
    pub soft_violations: u32,
    /// Frames that had been processed before.
    pub duplicates: u32,
    /// Frames, and acknowledgements, that came before one that is missing.
    pub gaps: u32,
    /// Frames of another epoch.
    pub stale: u32,
    /// Frames that were asked for again too soon, and not sent again.
    pub hurried: u32,
}
