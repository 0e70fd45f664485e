//! Records: what a store keeps of a stream, as bytes.
//!
//! Law (own key): a record carries the key it is filed under, so a record under another's name is
//! noticed. Law (canonical): two different byte strings are never the same record.
//!
//! A record is `[table, key, version, …]` in strict CBOR, and its name is the hash of
//! `[table, key]`. It is encoded from an immutable snapshot by whoever writes it, never under the
//! engine's boundary. Sources: seed 1, "Persistence and bounds"; protocol decision 5.

mod codec;
mod delta;

pub use delta::{DELTA_OPS_MAX, DeltaError, Op, RecordImage, apply, apply_all};

use super::custody::{CUSTODY_CAPACITY, CustodyEntry};
use super::slots::{Introducer, Slot};
use super::window::Window;
use crate::ids::StreamKey;
use crate::store::RecordName;
use crate::wire::cbor::{CborError, Encode, Writer, from_slice, to_vec};

/// The largest encoding of a signed fork evidence that is kept.
pub const EVIDENCE_MAX_BYTES: usize = 4 * 1024;

/// The largest stream record: see `sizes` below for the sum.
pub const STREAM_RECORD_MAX_BYTES: usize = sizes::RECEIVER;

/// The largest record of a fork evidence.
pub const FORK_RECORD_MAX_BYTES: usize = sizes::FORK;

/// The largest record of any kind.
pub const RECORD_MAX_BYTES: usize = STREAM_RECORD_MAX_BYTES;

const _: () = assert!(STREAM_RECORD_MAX_BYTES <= 5_089, "the bound of seed 1");
const _: () =
    assert!(sizes::SENDER <= RECORD_MAX_BYTES && FORK_RECORD_MAX_BYTES <= RECORD_MAX_BYTES);

/// Largest encodings, from the largest heads: 1 byte below 24, then 2, 3, 5 and 9.
mod sizes {
    use super::{CUSTODY_CAPACITY, EVIDENCE_MAX_BYTES};
    use crate::replay::window::WINDOW_SLOTS;

    const U64: usize = 9;
    const DIGEST: usize = 2 + 32;
    const KEY: usize = 1 + 5 + (1 + 20) + (1 + 20) + 1;
    const WINDOW: usize = 1 + U64 + 5 + 3 + 32 * WINDOW_SLOTS;
    const CUSTODY: usize = 2 + CUSTODY_CAPACITY * (1 + U64 + DIGEST + U64);
    const INTRODUCER: usize = 1 + 1 + 3;
    /// Array head, table, key, version.
    const HEAD: usize = 1 + 1 + KEY + U64;

    pub(super) const RECEIVER: usize = HEAD + WINDOW + CUSTODY + INTRODUCER + U64;
    pub(super) const SENDER: usize = HEAD + U64 + U64;
    pub(super) const FORK: usize = HEAD + U64 + 3 + EVIDENCE_MAX_BYTES;
}

/// Which table a record belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Table {
    /// Windows of streams that end here.
    Receiver = 0,
    /// Leases of streams that begin here.
    Sender = 1,
    /// The one record of the floors.
    Floor = 2,
    /// Evidence of forks.
    Fork = 3,
}

impl Table {
    /// The table's one name, in logs and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Receiver => "receiver",
            Self::Sender => "sender",
            Self::Floor => "floor",
            Self::Fork => "fork",
        }
    }

    /// The name of this table's record of `stream`.
    pub fn record_name(self, stream: &StreamKey) -> RecordName {
        RecordId::new(self, *stream).name()
    }
}

/// Which record: a table and, but for the floor, a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordId {
    /// A receiver stream's.
    Receiver(StreamKey),
    /// A sender stream's.
    Sender(StreamKey),
    /// The floors'.
    Floor,
    /// A fork evidence's, by the forked stream.
    Fork(StreamKey),
}

impl RecordId {
    fn new(table: Table, stream: StreamKey) -> Self {
        match table {
            Table::Receiver => Self::Receiver(stream),
            Table::Sender => Self::Sender(stream),
            Table::Floor => Self::Floor,
            Table::Fork => Self::Fork(stream),
        }
    }

    /// The record's table.
    pub const fn table(&self) -> Table {
        match self {
            Self::Receiver(_) => Table::Receiver,
            Self::Sender(_) => Table::Sender,
            Self::Floor => Table::Floor,
            Self::Fork(_) => Table::Fork,
        }
    }

    /// The record's stream; the floors have none.
    pub const fn stream(&self) -> Option<&StreamKey> {
        match self {
            Self::Receiver(stream) | Self::Sender(stream) | Self::Fork(stream) => Some(stream),
            Self::Floor => None,
        }
    }

    /// The name the record is filed under.
    pub fn name(&self) -> RecordName {
        RecordName::of(&to_vec(self))
    }
}

/// The record key: `[table, key]`, the key being null for the floors.
impl Encode for RecordId {
    fn encode(&self, writer: &mut Writer) {
        writer.array(2).uint(u64::from(self.table() as u8));
        match self.stream() {
            Some(stream) => writer.value(stream),
            None => writer.null(),
        };
    }
}

/// A receiver stream: its window, what its application has yet to take, and whose charge it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ReceiverRecord {
    /// The stream.
    pub stream: StreamKey,
    /// How many batches have written the record.
    pub version: u64,
    /// What was admitted.
    pub window: Window,
    /// Mail that was admitted and that the application has not taken, ascending by sequence.
    pub custody: Vec<CustodyEntry>,
    /// Who brought the stream's first transaction.
    pub introducer: Introducer,
    /// When everything the stream admitted is spent.
    pub spent_ms: u64,
}

/// A sender stream: how far its signatures may have got.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SenderRecord {
    /// The stream.
    pub stream: StreamKey,
    /// How many batches have written the record.
    pub version: u64,
    /// The first sequence the stream has not leased.
    pub end: u64,
    /// When everything signed under the lease is spent.
    pub spent_ms: u64,
}

/// What outlives retired streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct FloorRecord {
    /// How many batches have written the record.
    pub version: u64,
    /// The largest instant at which a receiver stream retired.
    pub mail_ms: u64,
    /// The largest end of a retired sender stream: no later stream starts below.
    pub sender_end: u64,
}

/// One signed evidence of a fork.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ForkRecord {
    /// The forked stream.
    pub stream: StreamKey,
    /// How many batches have written the record.
    pub version: u64,
    /// The sequence that its origin signed twice.
    pub sequence: u64,
    /// The signed evidence, as it is exported.
    pub evidence: Vec<u8>,
}

/// A whole record of any table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A receiver stream.
    Receiver(Box<ReceiverRecord>),
    /// A sender stream.
    Sender(SenderRecord),
    /// The floors.
    Floor(FloorRecord),
    /// A fork evidence.
    Fork(ForkRecord),
}

impl Record {
    /// The record that these bytes are.
    ///
    /// # Errors
    /// [`RecordError`] for anything but the one encoding of a valid record.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        from_slice(bytes).map_err(RecordError)
    }

    /// The record that these bytes are, found under `name`.
    ///
    /// # Errors
    /// As [`decode`](Self::decode), and [`NotFiled::Foreign`] for another's record.
    pub fn decode_filed(bytes: &[u8], name: RecordName) -> Result<Self, NotFiled> {
        let record = Self::decode(bytes).map_err(NotFiled::Invalid)?;
        let own = record.id().name();
        if own == name {
            Ok(record)
        } else {
            Err(NotFiled::Foreign { own })
        }
    }

    /// Which record this is.
    pub const fn id(&self) -> RecordId {
        match self {
            Self::Receiver(record) => RecordId::Receiver(record.stream),
            Self::Sender(record) => RecordId::Sender(record.stream),
            Self::Floor(_) => RecordId::Floor,
            Self::Fork(record) => RecordId::Fork(record.stream),
        }
    }

    /// How many batches have written the record since it was created.
    pub const fn version(&self) -> u64 {
        match self {
            Self::Receiver(record) => record.version,
            Self::Sender(record) => record.version,
            Self::Floor(record) => record.version,
            Self::Fork(record) => record.version,
        }
    }
}

/// Bytes that are no record: not strict CBOR, or not a state any engine leaves.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a record: {0}")]
pub struct RecordError(#[from] pub CborError);

/// Bytes that are not the record their name says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotFiled {
    /// They are no record.
    #[error(transparent)]
    Invalid(#[from] RecordError),
    /// They are another's record, which only something outside the store can have put there.
    #[error("it is the record {own}")]
    Foreign {
        /// The record's own name.
        own: RecordName,
    },
}

#[cfg(test)]
mod tests;
