//! The store of references under every crash and every failing call, as far as the suites go.
//!
//! Law: what the store shows after an open is what it held before a step or after it, whole; after
//! a step that returned, what it held after it.

mod backup;
mod crash;
mod damage;
mod failing;
mod files;
mod kill;
mod node;
mod script;
