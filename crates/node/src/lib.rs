//! An Overlane node, as a library to embed: links over WebRTC, signalling, and the runtime
//! that drives a peer.

pub mod api;
pub mod home;
pub mod link;
