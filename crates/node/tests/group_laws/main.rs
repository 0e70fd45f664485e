//! The groups of nodes on virtual time: who has what, who is given what, and what happens when
//! nodes lie, crash and run out of disk.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod bounds;
mod durable;
mod homes;
mod hostile;
mod keys;
mod members;
mod net;
mod plans;
mod posts;
mod scenes;
