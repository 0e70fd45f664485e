//! What a node keeps for others: references that outlive a connection, logs, and mail.
//!
//! Nothing here does I/O, reads a clock or draws randomness. Time comes in as milliseconds, frames
//! come in and go out as bytes.
//!
//! - [`inbox`]: mail for those who are away, held by others.
//! - [`log`]: sets of sealed envelopes, numbered by who holds them and reconciled.
//! - [`refs`]: names between two nodes that can be dropped, revoked and resolved.

pub mod inbox;
pub mod log;
pub mod refs;
