//! Links: admitted WebRTC connections between two nodes, four ordered channels each.

mod id;

pub use id::LinkId;
