//! What the reference tables do, step by step: the ways messages can cross, the carrier's faults, and
//! what a hostile or broken peer may try.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod crossing_faults;
mod crossing_objects;
mod crossing_promises;
mod durable;
mod hostile;
mod mesh;
mod oracle;
mod split;
mod translation;
