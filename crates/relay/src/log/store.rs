//! What keeps the envelopes.
//!
//! Laws asked of a store: a commit is durable when it returns, whole or not at all; reads see what was
//! committed and nothing else; the index answers without reading an envelope, and its memory does not
//! grow with the log by more than a directory of it.

use super::id::{EnvelopeId, LogId};
use overlane_core::Did;
use overlane_core::wire::cbor::{CborError, Decode, Encode, Reader, Writer};
use overlane_recon::Storage;

/// All that is known of an envelope but its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Its number in the log: never zero, never the top.
    pub seq: u64,
    /// Its name.
    pub id: EnvelopeId,
    /// Who wrote it.
    pub author: Did,
    /// The connection slot that brought it.
    pub slot: u32,
    /// When it came, by this node's clock.
    pub stored_ms: u64,
    /// The last instant at which it is kept.
    pub expires_ms: u64,
    /// Bytes of the envelope.
    pub bytes: u32,
}

/// One change of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// An envelope comes in. Neither its number nor its name is taken in the log.
    Append {
        /// The log.
        log: LogId,
        /// What is known of it.
        entry: Entry,
        /// Its bytes.
        envelope: Vec<u8>,
    },
    /// An envelope goes.
    Remove {
        /// The log.
        log: LogId,
        /// Its number.
        seq: u64,
        /// Its name.
        id: EnvelopeId,
    },
    /// A small row of this node's own accounts takes a value, or goes.
    Row {
        /// Its name.
        key: Vec<u8>,
        /// Its value.
        value: Option<Vec<u8>>,
    },
}

/// A row: its name and its value.
pub type Row = (Vec<u8>, Vec<u8>);

/// Envelopes by log and number, an index for reconciling, and rows. Every call blocks.
pub trait LogStore {
    /// Why it failed.
    type Error: std::error::Error + 'static;

    /// The index of a log in one order.
    type Index<'s>: Storage<Error = Self::Error>
    where
        Self: 's;

    /// The index of a log as it is committed, in the order of its numbers; an empty one of a log that has nothing.
    ///
    /// # Errors
    /// It cannot be read.
    fn index(&mut self, log: &LogId) -> Result<Self::Index<'_>, Self::Error>;

    /// The same in the order of the names, each at its [`shared_place`](super::shared_place): the space that all holders
    /// of a log share, whatever its numbers at each.
    ///
    /// # Errors
    /// It cannot be read.
    fn shared_index(&mut self, log: &LogId) -> Result<Self::Index<'_>, Self::Error>;

    /// The number of an envelope.
    ///
    /// # Errors
    /// It cannot be read.
    fn seq_of(&mut self, log: &LogId, id: &EnvelopeId) -> Result<Option<u64>, Self::Error>;

    /// What is known of the envelope of this number.
    ///
    /// # Errors
    /// It cannot be read.
    fn entry(&mut self, log: &LogId, seq: u64) -> Result<Option<Entry>, Self::Error>;

    /// The bytes of the envelope of this number.
    ///
    /// # Errors
    /// It cannot be read.
    fn envelope(&mut self, log: &LogId, seq: u64) -> Result<Option<Vec<u8>>, Self::Error>;

    /// Up to `most` entries from number `from` on, ascending.
    ///
    /// # Errors
    /// They cannot be read.
    fn entries(&mut self, log: &LogId, from: u64, most: usize) -> Result<Vec<Entry>, Self::Error>;

    /// Every row whose name begins so, ascending.
    ///
    /// # Errors
    /// They cannot be read.
    fn rows(&mut self, prefix: &[u8]) -> Result<Vec<Row>, Self::Error>;

    /// Makes all of these changes durable, in this order, or none of them.
    ///
    /// # Errors
    /// It is not known whether they are durable, and the store takes nothing more until it is opened
    /// again.
    fn commit(&mut self, changes: Vec<Change>) -> Result<(), Self::Error>;
}

/// All but the number, which is the entry's place: `[id, author, slot, stored_ms, expires_ms, bytes]`.
impl Encode for Entry {
    fn encode(&self, writer: &mut Writer) {
        writer
            .array(6)
            .value(&self.id.0)
            .value(&self.author)
            .value(&self.slot)
            .value(&self.stored_ms)
            .value(&self.expires_ms)
            .value(&self.bytes);
    }
}

impl<'a> Decode<'a> for Entry {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(6)?;
        Ok(Self {
            seq: 0,
            id: overlane_recon::Id(reader.value()?),
            author: reader.value()?,
            slot: reader.value()?,
            stored_ms: reader.value()?,
            expires_ms: reader.value()?,
            bytes: reader.value()?,
        })
    }
}
