//! The name of one connection generation.

use std::fmt;

/// One admitted connection generation. Numbers rise within a process and are never reused, so a
/// late event of a closed link can never be taken for one of its successor's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
