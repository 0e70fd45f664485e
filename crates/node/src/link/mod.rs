//! Links: admitted WebRTC connections between two nodes, four ordered channels each.

pub mod connection;
mod id;
pub mod sdp;
pub mod socket;
pub mod transport;

pub use id::LinkId;

#[cfg(test)]
mod tests;
