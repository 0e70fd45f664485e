//! Inboxes: a chain of holders, a sender, and an account that comes back.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod chain;
mod endless;
mod holding;
mod support;
