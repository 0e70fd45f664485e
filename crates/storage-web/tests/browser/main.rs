//! The store in a real browser: `scripts/wasm test`.
#![cfg(target_family = "wasm")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod conformance;
mod crashes;
mod engine;
mod harm;
mod opening;
mod subject;

wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);
