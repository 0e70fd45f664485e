//! The suites that any store of the contract runs under, over the [`disk`](crate::disk) that
//! records, fails and crashes: conformance (one test a law), crash enumeration, and failing calls.

pub mod conformance;
pub mod crash;
pub mod failing;
mod memory;
pub mod scenario;
mod subject;

pub use crate::disk::{Calls, CrashChoices, Disk, FaultKind, FaultPlan, Image, Recording, Seeded};
pub use crate::mutant::Mutant;
pub use memory::MemoryStore;
pub use overlane_core::store::testkit::{name, splice};
pub use scenario::{
    Model, Scenario, Step, alone_scenario, drawn_scenario, long_scenario, scenarios,
};
pub use subject::{FilesSubject, JournalSubject, STORE_FOLDER, Subject};
