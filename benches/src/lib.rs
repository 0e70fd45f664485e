//! Programs and criterion benches that measure Overlane.
pub mod full;
