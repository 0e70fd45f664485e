//! What a node keeps for others: references that outlive a connection.
//!
//! Nothing here does I/O, reads a clock or draws randomness. Time comes in as milliseconds, frames
//! come in and go out as bytes.
//!
//! - [`refs`]: names between two nodes that can be dropped, revoked and resolved.

pub mod refs;
