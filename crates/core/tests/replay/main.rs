//! The laws of replay protection, on the production engine.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod support;

mod bad_records;
mod group_commit;
mod leases;
mod model;
mod window;
