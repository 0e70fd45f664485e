//! The bytes of a record: `[table, key, version, …]`, structures as arrays in declared order.

use super::{EVIDENCE_MAX_BYTES, Introducer, Slot, Window};
use super::{FloorRecord, ForkRecord, ReceiverRecord, Record, SenderRecord, Table};
use crate::ids::TransactionDigest;
use crate::replay::custody::{CUSTODY_CAPACITY, CustodyEntry};
use crate::replay::window::WINDOW_SLOTS;
use crate::wire::cbor::{CborError, Decode, Encode, Reader, Writer};

impl Encode for Record {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Receiver(record) => record.encode(writer),
            Self::Sender(record) => record.encode(writer),
            Self::Floor(record) => record.encode(writer),
            Self::Fork(record) => record.encode(writer),
        }
    }
}

impl<'a> Decode<'a> for Record {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        let items = reader.array()?;
        let table = reader.u8()?;
        let fields = match table {
            0 => RECEIVER_FIELDS,
            1 => SENDER_FIELDS,
            2 => FLOOR_FIELDS,
            3 => FORK_FIELDS,
            _ => return Err(Reader::invalid(at, "a record's table is 0 to 3")),
        };
        if items != fields {
            return Err(Reader::invalid(at, "the table's records have other fields"));
        }
        match table {
            0 => decode_receiver(reader).map(Box::new).map(Self::Receiver),
            1 => decode_sender(reader).map(Self::Sender),
            2 => decode_floor(reader).map(Self::Floor),
            _ => decode_fork(reader).map(Self::Fork),
        }
    }
}

const RECEIVER_FIELDS: usize = 7;
const SENDER_FIELDS: usize = 5;
const FLOOR_FIELDS: usize = 5;
const FORK_FIELDS: usize = 5;

impl Encode for ReceiverRecord {
    fn encode(&self, writer: &mut Writer) {
        head(writer, RECEIVER_FIELDS, Table::Receiver)
            .value(&self.stream)
            .uint(self.version)
            .value(&self.window)
            .list(&self.custody)
            .value(&self.introducer)
            .uint(self.spent_ms);
    }
}

fn decode_receiver(reader: &mut Reader<'_>) -> Result<ReceiverRecord, CborError> {
    let stream = reader.value()?;
    let version = reader.uint()?;
    let window = reader.value()?;
    let at = reader.at();
    let custody: Vec<CustodyEntry> = reader.list(CUSTODY_CAPACITY)?;
    let ascending = custody
        .iter()
        .zip(custody.iter().skip(1))
        .all(|(one, next)| one.sequence < next.sequence);
    if !ascending {
        return Err(Reader::invalid(at, "custody ascends by sequence"));
    }
    Ok(ReceiverRecord {
        stream,
        version,
        window,
        custody,
        introducer: reader.value()?,
        spent_ms: reader.uint()?,
    })
}

impl Encode for SenderRecord {
    fn encode(&self, writer: &mut Writer) {
        head(writer, SENDER_FIELDS, Table::Sender)
            .value(&self.stream)
            .uint(self.version)
            .uint(self.end)
            .uint(self.spent_ms);
    }
}

fn decode_sender(reader: &mut Reader<'_>) -> Result<SenderRecord, CborError> {
    Ok(SenderRecord {
        stream: reader.value()?,
        version: reader.uint()?,
        end: reader.uint()?,
        spent_ms: reader.uint()?,
    })
}

impl Encode for FloorRecord {
    fn encode(&self, writer: &mut Writer) {
        head(writer, FLOOR_FIELDS, Table::Floor)
            .null()
            .uint(self.version)
            .uint(self.mail_ms)
            .uint(self.sender_end);
    }
}

fn decode_floor(reader: &mut Reader<'_>) -> Result<FloorRecord, CborError> {
    reader.null()?;
    Ok(FloorRecord {
        version: reader.uint()?,
        mail_ms: reader.uint()?,
        sender_end: reader.uint()?,
    })
}

impl Encode for ForkRecord {
    fn encode(&self, writer: &mut Writer) {
        head(writer, FORK_FIELDS, Table::Fork)
            .value(&self.stream)
            .uint(self.version)
            .uint(self.sequence)
            .bytes(&self.evidence);
    }
}

fn decode_fork(reader: &mut Reader<'_>) -> Result<ForkRecord, CborError> {
    let stream = reader.value()?;
    let version = reader.uint()?;
    let sequence = reader.uint()?;
    let at = reader.at();
    let evidence = reader.bytes()?;
    if evidence.len() > EVIDENCE_MAX_BYTES {
        return Err(Reader::invalid(at, "the evidence is over its bound"));
    }
    Ok(ForkRecord {
        stream,
        version,
        sequence,
        evidence: evidence.to_vec(),
    })
}

fn head(writer: &mut Writer, fields: usize, table: Table) -> &mut Writer {
    writer.array(fields).uint(u64::from(table as u8))
}

/// `[high, occupied, digests]`: the digests of the occupied slots in one byte string, the highest
/// sequence first.
impl Encode for Window {
    fn encode(&self, writer: &mut Writer) {
        let mut digests = Vec::with_capacity(32 * WINDOW_SLOTS);
        for (_, TransactionDigest(digest)) in self.admitted() {
            digests.extend_from_slice(&digest);
        }
        writer
            .array(3)
            .uint(self.high())
            .uint(u64::from(self.occupied()))
            .bytes(&digests);
    }
}

impl<'a> Decode<'a> for Window {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        reader.expect_array(3)?;
        let high = reader.uint()?;
        let occupied = reader.u32()?;
        let (digests, rest) = reader.bytes()?.as_chunks::<32>();
        if !rest.is_empty() {
            return Err(Reader::invalid(at, "a window's digests are 32 bytes each"));
        }
        let digests: Vec<_> = digests.iter().copied().map(TransactionDigest).collect();
        Self::from_parts(high, occupied, &digests)
            .map_err(|_| Reader::invalid(at, "no admissions lead to such a window"))
    }
}

impl Encode for CustodyEntry {
    fn encode(&self, writer: &mut Writer) {
        writer
            .array(3)
            .uint(self.sequence)
            .bytes(&self.digest.0)
            .uint(self.spent_ms);
    }
}

impl<'a> Decode<'a> for CustodyEntry {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(3)?;
        Ok(Self {
            sequence: reader.uint()?,
            digest: TransactionDigest(reader.byte_array()?),
            spent_ms: reader.uint()?,
        })
    }
}

/// `[0, slot]`, `[1]` or `[2]`.
impl Encode for Introducer {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Slot(slot) => writer.array(2).uint(0).uint(u64::from(slot.number())),
            Self::Inbox => writer.array(1).uint(1),
            Self::Own => writer.array(1).uint(2),
        };
    }
}

impl<'a> Decode<'a> for Introducer {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        match (reader.array()?, reader.u8()?) {
            (2, 0) => Ok(Self::Slot(Slot::restored(reader.u16()?))),
            (1, 1) => Ok(Self::Inbox),
            (1, 2) => Ok(Self::Own),
            _ => Err(Reader::invalid(at, "no introducer of this form")),
        }
    }
}
