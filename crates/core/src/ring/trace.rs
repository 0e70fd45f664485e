//! The way that messages take to a node, asked of one hop after another.
//!
//! No message carries its way: the node that wants to know asks each hop where it sends such a message.
//! Source: failure story 21.

use crate::ids::Did;

/// The way from this node, as its hops tell it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// The hops, the destination included where it is reached.
    pub hops: Vec<Did>,
    /// How it ends.
    pub end: PathEnd,
}

/// How a way ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathEnd {
    /// At the destination.
    Arrives,
    /// The last hop knows nobody nearer.
    NoRoute,
    /// The last hop does not answer.
    Silent,
    /// It took as many hops as a message may.
    HopBudget,
}

/// A trace under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Trace {
    pub(super) destination: Did,
    pub(super) hops: Vec<Did>,
    pub(super) handed_off: bool,
}

impl Trace {
    pub(super) fn ends(self, end: PathEnd) -> Path {
        let hops = self.hops;
        Path { hops, end }
    }
}
