//! References: the drop, ack, revoke and resolve protocol between two nodes.
//!
//! A reference names an object or a promise of another node. Both ends can let go of it without a
//! round trip, it survives reconnects, and the node it belongs to can take it back. Source: seed 3
//! (distributed drop protocol).
//!
//! - [`wire`]: frames and operations, in their one form.
//! - [`table`]: all that a node knows of references, changed one transaction at a time.
//! - [`limits`]: how much one link may cost.
//! - [`store`]: the order in which a step becomes durable and is told.
//!
//! What is not here: a store on a disk, and the node that carries the frames.

mod error;
pub mod limits;
pub mod store;
pub mod table;
pub mod wire;

pub use error::{LinkError, Malformed, SendError};
pub use limits::Limits;
