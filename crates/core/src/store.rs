//! What the replay engine and a record store say to each other.
//!
//! A **record** is a named value that any crash leaves whole, at its previous or its new value.
//! The engine stages records into batches; a store makes a batch durable; only then does the
//! engine release what the batch decided. Laws of a store (each has a conformance test of its
//! name): release, atomicity, order, removals-last, fail-closed, isolation, never-delete,
//! missing, own-key, one-scan, budget, clear-one.

pub mod envelope;
#[cfg(feature = "testkit")]
pub mod testkit;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::fault::{Coded, Fault};
use crate::ids::{NotHex, parse_hex};

/// A record's name in a store: the first 20 bytes of the BLAKE3 hash of its record key, printed
/// as 40 hex digits. Source: protocol decision 5 (durable records).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordName(pub [u8; 20]);

impl RecordName {
    /// The name of the record that is kept under `record_key`.
    pub fn of(record_key: &[u8]) -> Self {
        let mut name = [0; 20];
        let hash = blake3::hash(record_key);
        name.iter_mut()
            .zip(hash.as_bytes())
            .for_each(|(to, from)| *to = *from);
        Self(name)
    }
}

impl fmt::Display for RecordName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RecordName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordName({self})")
    }
}

impl FromStr for RecordName {
    type Err = NotHex;

    /// Lower-case digits only: a name in upper case names no record.
    fn from_str(text: &str) -> Result<Self, NotHex> {
        let lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        lower
            .then(|| parse_hex(text).map(Self))
            .flatten()
            .ok_or(NotHex { digits: 40 })
    }
}

/// A record's new value, encoded by the store's writer and not under the engine's lock.
pub trait Image: fmt::Debug + Send + Sync {
    /// The whole record.
    fn whole(&self) -> Vec<u8>;

    /// How many batches have written the record, this one included, since it was last created;
    /// 0 for a value that does not count.
    fn version(&self) -> u64 {
        0
    }

    /// Appends what changed since the value that the last batch left under the same name, and
    /// tells which versions the change leads between; `None`, and nothing appended, where there
    /// was none, or where the whole record is the shorter way to say it. The owner of the
    /// records brings a delta and a whole record together (`replay::record::apply`).
    fn delta_into(&self, _into: &mut Vec<u8>) -> Option<Step> {
        None
    }

    /// The same in bytes of its own.
    fn delta(&self) -> Option<Delta> {
        let mut bytes = Vec::new();
        let Step { from, to } = self.delta_into(&mut bytes)?;
        Some(Delta { from, to, bytes })
    }
}

/// The versions that a change leads between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The version it applies to, and to no other.
    pub from: u64,
    /// The version it leads to.
    pub to: u64,
}

/// A record's change from one version to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta {
    /// The version it applies to, and to no other.
    pub from: u64,
    /// The version it leads to.
    pub to: u64,
    /// The change. It names `from` itself, so that it cannot be applied elsewhere.
    pub bytes: Vec<u8>,
}

impl Image for Vec<u8> {
    fn whole(&self) -> Vec<u8> {
        self.clone()
    }
}

/// What happens to one record in a batch.
#[derive(Debug)]
pub enum Effect {
    /// The record takes this value. Shared, so that a store may keep the newest image of a
    /// record and encode it whole when it compacts itself.
    Write(Arc<dyn Image>),
    /// The record leaves the store.
    Remove,
}

/// One record's change in a batch.
#[derive(Debug)]
pub struct Change {
    /// The record.
    pub name: RecordName,
    /// What happens to it.
    pub effect: Effect,
}

/// What a scan found under one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// The bytes, whole as far as the store can tell; whether they decode, and belong under
    /// this name, is the engine's to judge.
    Bytes(Vec<u8>),
    /// The store knows the bytes are not what it wrote.
    Torn(String),
    /// The bytes are whole, and are those of the record named here: only something outside the
    /// store can have put them under this name.
    Foreign(RecordName),
    /// The entry is there and cannot be read: any read error but absence.
    Unreadable(String),
    /// The store made this record durable and no longer holds it.
    Missing,
}

/// The longest record a store takes: room for the longest replay record (5,089 bytes, seed 1)
/// twelve times over, and short enough that one damaged length makes nothing read without end.
pub const RECORD_BYTES_MAX: usize = 64 * 1024;

/// Everything a store holds or has witnessed, read once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scan {
    /// One entry a name, ascending.
    pub records: Vec<(RecordName, Found)>,
}

/// A store of named records. One owner at a time; a call blocks until it is durable, so it is
/// never made on an asynchronous worker.
pub trait RecordStore: Send {
    /// Reads everything once.
    ///
    /// # Errors
    /// [`StoreError`] when the store as a whole cannot be listed.
    fn scan(&mut self) -> Result<Scan, StoreError>;

    /// Makes every change of the batch durable, each name at most once in a batch, and returns
    /// only then. After an error the store is poisoned: every later call fails until it is
    /// opened again. The refusals [`StoreError::BudgetExhausted`],
    /// [`StoreError::CapacityExhausted`], [`StoreError::BadRecord`] and
    /// [`StoreError::RecordTooLarge`] are the exception: they come before anything is written
    /// and leave the store as it was. No removal is durable before every write of its batch: what
    /// outlives a record, such as the floors of retired streams, is never lost with it.
    ///
    /// # Errors
    /// [`StoreError`]; what the batch held is then at its previous or its new value, record by
    /// record, and nothing of it may be released.
    fn write(&mut self, batch: &[Change]) -> Result<(), StoreError>;

    /// Work that can wait: marks the end of what was written, so that a later loss of its tail
    /// is noticed. Called by the writer after a few idle milliseconds and before it closes the
    /// store.
    ///
    /// # Errors
    /// [`StoreError`]; the store is then poisoned, as after [`write`](Self::write).
    fn seal(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Why a store refused, or failed closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The platform refused a call.
    #[error("{action} {path}: {cause}")]
    Io {
        /// What was being done: "open", "write", "flush", …
        action: &'static str,
        /// The file or folder.
        path: String,
        /// The platform's words.
        cause: String,
    },
    /// The disk or a quota is full.
    #[error("no space left while writing {path}: free space, then restart the node")]
    Full {
        /// The file or folder.
        path: String,
    },
    /// A write would pass the store's budget. Nothing is evicted to make room.
    #[error("the store's budget of {budget_bytes} bytes is used up ({needed_bytes} needed)")]
    BudgetExhausted {
        /// The budget.
        budget_bytes: u64,
        /// What the store would hold after the write, or holds at open.
        needed_bytes: u64,
    },
    /// A batch would make more records than the store takes. Nothing is evicted to make room.
    #[error("the store takes {capacity} records and no more ({needed} needed)")]
    CapacityExhausted {
        /// How many records it takes.
        capacity: u64,
        /// How many it would hold after the write, or holds at open.
        needed: u64,
    },
    /// The platform keeps nothing here, or nothing for long.
    #[error("{path} cannot be kept: {cause}")]
    NoStorage {
        /// The store.
        path: String,
        /// The platform's words.
        cause: String,
    },
    /// The platform commits when it likes: it was asked for a strict commit and did not take it.
    #[error("{path} is on a platform that promises no durable commit: use another one")]
    NotStrict {
        /// The store.
        path: String,
    },
    /// A page of an older version has the store open, and does not let go of it.
    #[error("{path} is held open by a page of an older version: close that page")]
    Blocked {
        /// The store.
        path: String,
    },
    /// Another process, or another page, has the store open.
    #[error("{path} is in use by {}: stop it first", holder(*.pid))]
    Locked {
        /// The store's folder.
        path: String,
        /// The process that holds it, where the lock file tells.
        pid: Option<u32>,
    },
    /// An earlier write did not become durable; the store must be opened again.
    #[error(
        "an earlier write did not become durable ({cause}): restart the node to scan the store"
    )]
    Poisoned {
        /// The first failure.
        cause: String,
    },
    /// The folder holds something that is not this kind of store.
    #[error("{path} is not a store of this kind: {cause}")]
    WrongKind {
        /// The store's folder.
        path: String,
        /// What was found instead.
        cause: String,
    },
    /// A batch would overwrite a record that is kept as bad.
    #[error("record {name} is kept as bad: stop the node and clear it before its stream goes on")]
    BadRecord {
        /// The record.
        name: RecordName,
    },
    /// A record is longer than any store takes.
    #[error("record {name} of {bytes} bytes is longer than the {bytes_max} a record may have")]
    RecordTooLarge {
        /// The record.
        name: RecordName,
        /// Its length.
        bytes: usize,
        /// The bound.
        bytes_max: usize,
    },
    /// So much of the store is damaged that the records it concerns cannot be named.
    #[error("{path} is damaged: {cause}")]
    Damaged {
        /// The file or folder.
        path: String,
        /// What is lost.
        cause: String,
    },
    /// The store holds no record of this name.
    #[error("the store holds no record named {name}")]
    UnknownRecord {
        /// The name asked for.
        name: RecordName,
    },
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(
        || String::from("another process or page"),
        |pid| format!("process {pid}"),
    )
}

impl Coded for StoreError {
    fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "store/io",
            Self::Full { .. } => "store/full",
            Self::BudgetExhausted { .. } => "store/budget_exhausted",
            Self::CapacityExhausted { .. } => "store/capacity_exhausted",
            Self::NoStorage { .. } => "store/no_storage",
            Self::NotStrict { .. } => "store/not_strict",
            Self::Blocked { .. } => "store/blocked",
            Self::Locked { .. } => "store/locked",
            Self::Poisoned { .. } => "store/poisoned",
            Self::WrongKind { .. } => "store/wrong_kind",
            Self::BadRecord { .. } => "store/bad_record",
            Self::RecordTooLarge { .. } => "store/record_too_large",
            Self::Damaged { .. } => "store/damaged",
            Self::UnknownRecord { .. } => "store/unknown_record",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::BudgetExhausted { .. }
            | Self::CapacityExhausted { .. }
            | Self::RecordTooLarge { .. } => Fault::RefusedByBound,
            Self::UnknownRecord { .. } => Fault::Usage,
            _ => Fault::StoreFailedClosed,
        }
    }
}
