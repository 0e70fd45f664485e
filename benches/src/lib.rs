//! Programs and criterion benches that measure Overlane.
