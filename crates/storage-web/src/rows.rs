//! What an object store holds, as values: nothing here knows a browser.
//!
//! | key | value |
//! |---|---|
//! | 20 bytes: a record's name | the record in its [envelope](overlane_core::store::envelope) |
//! | a number, from 1 on | a [`frame`]: one batch that is not in the rows yet |
//! | `directory/a`, `directory/b` | the [`directory`] twice: every name that has, or should have, a row |
//! | `seal` | the number and names of the newest frame, written when the store is idle |
//! | `bad/NAME` | why the record is bad, where its row does not say so |
//! | `kept/NUMBER` | a frame that was found damaged |
//! | `cleared/NAME/NUMBER` | what an operator moved aside |
//!
//! A batch is one frame, which is one request however many records it changes. When frames reach
//! their bound, the next batch **folds** them: it writes the rows of every record that changed since,
//! the directory, and removes the frames, in one transaction. So the rows are the records as of the
//! last fold, and the frames are what came after, in order; no crash shows anything else. [`load()`]
//! puts the two together.

pub mod directory;
pub mod frame;
mod load;

pub use load::{ApplyDeltas, Base, Entry, Loaded, load};

use overlane_core::store::RecordName;

/// The key of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// A frame's number.
    Frame(u64),
    /// A record's name.
    Record(RecordName),
    /// Any text.
    Text(String),
    /// What the store never uses.
    Other,
}

/// One row. Its value is bytes, or something that the store never wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its key.
    pub key: Key,
    /// Its value, where it is bytes.
    pub bytes: Option<Vec<u8>>,
}

/// The keys of the two copies of the directory.
pub const DIRECTORIES: [&str; 2] = ["directory/a", "directory/b"];

/// The key of the seal.
pub const SEAL: &str = "seal";

/// What begins the key of a record that was moved aside.
pub const CLEARED: &str = "cleared/";

/// The key of what is wrong with a record.
pub fn bad_key(name: RecordName) -> String {
    format!("bad/{name}")
}

/// The key of a frame that was found damaged.
pub fn kept_key(number: u64) -> String {
    format!("kept/{number}")
}

/// The key of a record's `number`-th clearing.
pub fn cleared_key(name: RecordName, number: u64) -> String {
    format!("{CLEARED}{name}/{number}")
}
