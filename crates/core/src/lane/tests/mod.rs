//! The laws of links and lanes, driven on virtual time.
//!
//! [`pair`] drives two sessions over four simulated channels each way and checks, at every step,
//! what must always hold. A run returns the first law that it saw broken; the laws' tests want none,
//! and for each law a session with one rule broken must be caught.

mod delegations;
mod early;
mod frames;
mod hostile;
mod laws;
mod mesh;
mod missing;
mod page;
mod pair;
