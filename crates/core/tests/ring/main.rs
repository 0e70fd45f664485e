//! The ring over many nodes on virtual time: it settles, heals, and every node reaches every other.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod healing;
mod hostile;
mod world;
