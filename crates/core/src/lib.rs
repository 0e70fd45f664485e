//! The Overlane protocol as values and state machines.
//!
//! Nothing here does I/O, reads a clock, draws randomness or spawns a task. Time comes in as
//! milliseconds, bytes come in as frames, durable results come in as events; what a state
//! machine wants done goes out as values. The same code is driven natively, in a simulator and
//! in a browser.

pub mod e2e;
pub mod fault;
pub mod group;
pub mod identity;
pub mod ids;
pub mod lane;
pub mod mail;
pub mod receipt;
pub mod replay;
pub mod ring;
pub mod seal;
pub mod signal;
pub mod store;
pub mod transaction;
pub mod wire;

pub use fault::{Coded, Fault};
pub use ids::{Class, Did, NetworkId, StreamKey, TransactionDigest, TxId};
