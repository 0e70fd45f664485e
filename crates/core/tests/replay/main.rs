//! The laws of replay protection, on the production engine.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

mod bad_records;
mod custody;
mod group_commit;
mod leases;
mod link_local;
mod model;
mod payloads;
mod quota;
mod retirement;
mod slots;
mod stories;
mod window;
