//! References: the drop, ack, revoke and resolve protocol between two nodes.
//!
//! A reference names an object or a promise of another node. Both ends can let go of it without a
//! round trip, it survives reconnects, and the node it belongs to can take it back. Source: seed 3
//! (distributed drop protocol).
//!
//! - [`wire`]: frames and operations, in their one form.
//! - [`table`]: all that a node knows of references, changed one transaction at a time.
//! - [`limits`]: how much one link may cost.
//!
//! What is not here: keeping the tables on disk, and the node that carries the frames. A driver makes
//! what a [`table::Step`] changed durable before anything of the step leaves the node, and hands the
//! tables what arrives.

mod error;
pub mod limits;
pub mod table;
pub mod wire;

pub use error::{LinkError, Malformed, SendError};
pub use limits::Limits;
