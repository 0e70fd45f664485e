//! Deltas: what a batch changed in a record, in fewer bytes than the whole.
//!
//! Law (delta): a delta applied to the whole record of the version it names gives the whole
//! record of the next version, byte for byte, and applies to no other version. The engine
//! changes its own records through the same [`Op`]s, so there is one meaning of each.

use std::fmt;
use std::sync::Arc;

use super::{CustodyEntry, FloorRecord, ForkRecord, ReceiverRecord, Record, SenderRecord};
use crate::ids::TransactionDigest;
use crate::replay::custody::CUSTODY_CAPACITY;
use crate::store::{Image, Step};
use crate::wire::cbor::{CborError, Decode, Encode, Reader, Writer, from_slice, to_vec};

/// How many changes a delta lists at most; above it the whole record is written.
pub const DELTA_OPS_MAX: usize = 12;

/// One change of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// A receiver stream admits a transaction into its window.
    Admit {
        /// Its sequence.
        sequence: u64,
        /// Its digest.
        digest: TransactionDigest,
        /// When the transaction is spent.
        spent_ms: u64,
        /// Whether it is mail, held until its application takes it.
        custody: bool,
    },
    /// A mail leaves custody.
    LeaveCustody {
        /// Its sequence.
        sequence: u64,
    },
    /// A sender stream leases up to `end`.
    Lease {
        /// The first sequence that is not leased.
        end: u64,
        /// When everything signed under the lease is spent.
        spent_ms: u64,
    },
    /// The floors rise.
    RaiseFloor {
        /// The largest instant at which a receiver stream retired.
        mail_ms: u64,
        /// The largest end of a retired sender stream.
        sender_end: u64,
    },
}

/// Why a delta does not apply to the record at hand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeltaError {
    /// The bytes are no delta.
    #[error("not a delta: {0}")]
    Cbor(#[from] CborError),
    /// The bytes it should apply to are no record.
    #[error(transparent)]
    Record(#[from] super::RecordError),
    /// It applies to another version of the record.
    #[error("the delta applies to version {from}, the record is version {found}")]
    Version {
        /// The version it applies to.
        from: u64,
        /// The record's version.
        found: u64,
    },
    /// It is a change that this record cannot undergo.
    #[error("the record cannot undergo {op}")]
    Misfit {
        /// The change.
        op: &'static str,
    },
}

/// The whole record that `delta` makes of the `whole` one.
///
/// # Errors
/// [`DeltaError`] where either is damaged or they do not belong together.
pub fn apply(whole: &[u8], delta: &[u8]) -> Result<Vec<u8>, DeltaError> {
    apply_all(whole, [delta])
}

/// The whole record that these deltas, one after the other, make of the `whole` one.
///
/// # Errors
/// As [`apply`].
pub fn apply_all<'a>(
    whole: &[u8],
    deltas: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<u8>, DeltaError> {
    let mut record = Record::decode(whole)?;
    for delta in deltas {
        record.apply(delta)?;
    }
    Ok(to_vec(&record))
}

impl Record {
    /// Brings the record to the next version.
    ///
    /// # Errors
    /// [`DeltaError`]; the record may then be half changed and is of no further use.
    pub fn apply(&mut self, delta: &[u8]) -> Result<(), DeltaError> {
        let DeltaBytes { from, ops } = from_slice(delta)?;
        let found = self.version();
        if from != found {
            return Err(DeltaError::Version { from, found });
        }
        for op in &ops {
            match self {
                Self::Receiver(record) => record.apply(op)?,
                Self::Sender(record) => record.apply(op)?,
                Self::Floor(record) => record.apply(op)?,
                Self::Fork(_) => return Err(op.misfit()),
            }
        }
        let next = from.saturating_add(1);
        match self {
            Self::Receiver(record) => record.version = next,
            Self::Sender(record) => record.version = next,
            Self::Floor(record) => record.version = next,
            Self::Fork(record) => record.version = next,
        }
        Ok(())
    }
}

impl ReceiverRecord {
    /// Undergoes one change.
    ///
    /// # Errors
    /// [`DeltaError::Misfit`]; the record is unchanged.
    pub(in crate::replay) fn apply(&mut self, op: &Op) -> Result<(), DeltaError> {
        match *op {
            Op::Admit {
                sequence,
                digest,
                spent_ms,
                custody,
            } => {
                let place = self.custody_place(sequence);
                let custody = match (custody, place) {
                    (false, _) => None,
                    (true, Err(place)) if self.custody.len() < CUSTODY_CAPACITY => Some(place),
                    (true, _) => return Err(op.misfit()),
                };
                if !self.window.observe(sequence, digest).admits() {
                    return Err(op.misfit());
                }
                self.spent_ms = self.spent_ms.max(spent_ms);
                if let Some(place) = custody {
                    let entry = CustodyEntry {
                        sequence,
                        digest,
                        spent_ms,
                    };
                    self.custody.insert(place, entry);
                }
            }
            Op::LeaveCustody { sequence } => {
                let place = self.custody_place(sequence).map_err(|_| op.misfit())?;
                self.custody.remove(place);
            }
            Op::Lease { .. } | Op::RaiseFloor { .. } => return Err(op.misfit()),
        }
        Ok(())
    }

    /// The mail in custody under this sequence.
    pub(in crate::replay) fn custody_entry(&self, sequence: u64) -> Option<&CustodyEntry> {
        let place = self.custody_place(sequence).ok()?;
        self.custody.get(place)
    }

    fn custody_place(&self, sequence: u64) -> Result<usize, usize> {
        self.custody
            .binary_search_by_key(&sequence, |entry| entry.sequence)
    }
}

impl SenderRecord {
    pub(in crate::replay) fn apply(&mut self, op: &Op) -> Result<(), DeltaError> {
        match *op {
            Op::Lease { end, spent_ms } if end >= self.end && spent_ms >= self.spent_ms => {
                self.end = end;
                self.spent_ms = spent_ms;
                Ok(())
            }
            _ => Err(op.misfit()),
        }
    }
}

impl FloorRecord {
    pub(in crate::replay) fn apply(&mut self, op: &Op) -> Result<(), DeltaError> {
        match *op {
            Op::RaiseFloor {
                mail_ms,
                sender_end,
            } if mail_ms >= self.mail_ms && sender_end >= self.sender_end => {
                self.mail_ms = mail_ms;
                self.sender_end = sender_end;
                Ok(())
            }
            _ => Err(op.misfit()),
        }
    }
}

/// A record as the last batch that touched it left it, and how it got there.
#[derive(Debug)]
pub struct RecordImage<R> {
    record: Arc<R>,
    /// Empty for a record the batch created.
    ops: Vec<Op>,
}

impl<R> RecordImage<R> {
    /// The image of `record`, reached from its previous version by `ops`; no `ops` where there
    /// is no previous version.
    pub(in crate::replay) fn new(record: Arc<R>, ops: Vec<Op>) -> Self {
        Self { record, ops }
    }
}

/// A record that counts its versions.
pub(in crate::replay) trait Versioned {
    fn version(&self) -> u64;
}

macro_rules! versioned {
    ($($record:ty),*) => {$(
        impl Versioned for $record {
            fn version(&self) -> u64 {
                self.version
            }
        }
    )*};
}

versioned!(ReceiverRecord, SenderRecord, FloorRecord, ForkRecord);

impl<R: Versioned + Encode + fmt::Debug + Send + Sync> Image for RecordImage<R> {
    fn whole(&self) -> Vec<u8> {
        to_vec(&*self.record)
    }

    fn version(&self) -> u64 {
        self.record.version()
    }

    fn delta_into(&self, into: &mut Vec<u8>) -> Option<Step> {
        let to = self.record.version();
        let from = to.checked_sub(1).filter(|from| *from > 0)?;
        (1..=DELTA_OPS_MAX).contains(&self.ops.len()).then(|| {
            let mut writer = Writer::append(std::mem::take(into));
            writer.array(2).uint(from).list(&self.ops);
            *into = writer.into_bytes();
            Step { from, to }
        })
    }
}

impl Op {
    const fn name(&self) -> &'static str {
        match self {
            Self::Admit { .. } => "an admission",
            Self::LeaveCustody { .. } => "a leave of custody",
            Self::Lease { .. } => "a lease",
            Self::RaiseFloor { .. } => "a rise of the floors",
        }
    }

    pub(in crate::replay) const fn misfit(&self) -> DeltaError {
        DeltaError::Misfit { op: self.name() }
    }
}

struct DeltaBytes {
    from: u64,
    ops: Vec<Op>,
}

impl<'a> Decode<'a> for DeltaBytes {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(2)?;
        Ok(Self {
            from: reader.uint()?,
            ops: reader.list(DELTA_OPS_MAX)?,
        })
    }
}

/// `[0, sequence, digest, spent_ms, custody]`, `[1, sequence]`, `[2, end, spent_ms]` or
/// `[3, mail_ms, sender_end]`.
impl Encode for Op {
    fn encode(&self, writer: &mut Writer) {
        match *self {
            Self::Admit {
                sequence,
                digest,
                spent_ms,
                custody,
            } => writer
                .array(5)
                .uint(0)
                .uint(sequence)
                .bytes(&digest.0)
                .uint(spent_ms)
                .boolean(custody),
            Self::LeaveCustody { sequence } => writer.array(2).uint(1).uint(sequence),
            Self::Lease { end, spent_ms } => writer.array(3).uint(2).uint(end).uint(spent_ms),
            Self::RaiseFloor {
                mail_ms,
                sender_end,
            } => writer.array(3).uint(3).uint(mail_ms).uint(sender_end),
        };
    }
}

impl<'a> Decode<'a> for Op {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        match (reader.array()?, reader.u8()?) {
            (5, 0) => Ok(Self::Admit {
                sequence: reader.uint()?,
                digest: TransactionDigest(reader.byte_array()?),
                spent_ms: reader.uint()?,
                custody: reader.boolean()?,
            }),
            (2, 1) => Ok(Self::LeaveCustody {
                sequence: reader.uint()?,
            }),
            (3, 2) => Ok(Self::Lease {
                end: reader.uint()?,
                spent_ms: reader.uint()?,
            }),
            (3, 3) => Ok(Self::RaiseFloor {
                mail_ms: reader.uint()?,
                sender_end: reader.uint()?,
            }),
            _ => Err(Reader::invalid(at, "no change of this form")),
        }
    }
}
