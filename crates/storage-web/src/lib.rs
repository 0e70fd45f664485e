//! The replay store of a browser, and what drives the replay engine on it.
//!
//! `WebStore` keeps records in IndexedDB under the laws of [`overlane_core::store`]; its calls are
//! futures, since a browser answers later. `Replay` is the engine over it: what is staged while one
//! batch is written gathers in the next. Both exist on wasm32 alone; what the object store holds is
//! described, and judged, in [`rows`].
//!
//! Laws: release (a result only on the transaction's `complete`, of a transaction that says it is
//! `strict`), atomicity (a batch is one transaction), budget (a row too many is refused, nothing is
//! evicted), one owner (a Web Lock, for as long as the store is open). Source: seed 1, "Persistence
//! and bounds"; what each browser's strict commit promises is in `docs/browser.md`.

pub mod rows;

#[cfg(target_family = "wasm")]
mod idb;
#[cfg(target_family = "wasm")]
pub mod inspect;
#[cfg(target_family = "wasm")]
mod lock;
#[cfg(target_family = "wasm")]
mod platform;
#[cfg(target_family = "wasm")]
mod runtime;
#[cfg(target_family = "wasm")]
mod store;

#[cfg(target_family = "wasm")]
pub use runtime::{Replay, SEAL_AFTER_MS, now};
#[cfg(target_family = "wasm")]
pub use store::{Cleared, WebConfig, WebStore, WebSummary};

/// How many records a store takes: what all bounds of replay protection together allow (seed 1), so
/// that a full node never meets it.
pub const RECORDS_MAX: u64 = 32_768;

/// How many frames are kept before a batch folds them into the rows.
pub const FRAMES_MAX: u64 = 256;

/// How many bytes of frames are kept before a batch folds them into the rows.
pub const FRAME_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How long an opener waits for the page before it to let go of the store: a page that is loaded
/// again may ask before the browser has taken its lock back.
pub const LOCK_WAIT_MS: u32 = 2_000;
