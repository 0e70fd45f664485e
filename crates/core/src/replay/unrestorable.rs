//! Records that do not restore.
//!
//! Law (isolation): a record restores its stream iff it decodes, holds a valid state and lies
//! under its own name; any other is kept, refuses its own stream and no other, and holds a place
//! of both tables' bounds. A stream is unavailable exactly if the name of its record is among
//! them: so which stream a damaged record belonged to need not be known. Source: seed 1, "Bad
//! records".

use std::collections::BTreeMap;
use std::fmt;

use super::record::NotFiled;
use crate::store::RecordName;

/// What is wrong with a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bad {
    /// The store knows the bytes are not what it wrote.
    Torn(String),
    /// The bytes are no record, or hold a state that no engine leaves.
    Corrupt(String),
    /// It cannot be read.
    Unreadable(String),
    /// It is the record of another name.
    Foreign(RecordName),
    /// It was made durable and is gone.
    Missing,
}

impl Bad {
    /// The kind's one name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Torn(_) => "torn",
            Self::Corrupt(_) => "corrupt",
            Self::Unreadable(_) => "unreadable",
            Self::Foreign(_) => "foreign",
            Self::Missing => "missing",
        }
    }
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Torn(cause) | Self::Corrupt(cause) | Self::Unreadable(cause) => {
                write!(f, "{}: {cause}", self.name())
            }
            Self::Foreign(own) => write!(f, "foreign: it is the record {own}"),
            Self::Missing => f.write_str("missing: it was made durable and is gone"),
        }
    }
}

impl From<NotFiled> for Bad {
    fn from(cause: NotFiled) -> Self {
        match cause {
            NotFiled::Foreign { own } => Self::Foreign(own),
            NotFiled::Invalid(cause) => Self::Corrupt(cause.to_string()),
        }
    }
}

/// The set U of the records that do not restore, by name.
pub type Unrestorable = BTreeMap<RecordName, Bad>;
