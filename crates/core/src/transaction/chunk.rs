//! Chunks: a payload too large for one frame, cut into envelopes.
//!
//! An envelope is a payload like any other: signed by the origin, carried hop by hop, verified before
//! it is looked at. Its transaction has the sequence that was reserved for the whole message, and the
//! message's own id; its digest has a domain of its own, so it takes no sequence and is no fork of
//! the message. Law (measured): what an envelope costs is measured on an envelope, never guessed, so
//! every frame but the last is full. Story 19. Source: protocol decision 6 (chunks).

use super::data::{Data, Message};
use super::error::SignError;
use super::payload::{Payload, RelayFields, Terms, Transaction};
use crate::identity::{Life, Signer};
use crate::ids::{Class, Did, TxId};
use crate::wire::bounds::{CHUNK_FRAME_BYTES, CHUNKS_MAX};
use crate::wire::cbor::{CborError, Encode, Reader, Writer, to_vec};

/// The tag of a chunk among messages.
const TAG: u64 = 4;

/// Which part of which message a chunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkHead {
    /// The message's class, which is also the chunk's.
    pub class: Class,
    /// Its place among the message's chunks, from 0.
    pub index: u32,
    /// How many chunks the message has, from 2 to [`CHUNKS_MAX`].
    pub total: u32,
    /// The last instant at which the message can be verified.
    pub expiry_ms: u64,
}

/// `[4, class, index, total, expiry_ms, bytes]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Which part it is.
    pub head: ChunkHead,
    /// The part.
    pub bytes: &'a [u8],
}

impl<'a> Chunk<'a> {
    /// Items of its array; no other message has as many.
    pub(super) const ITEMS: usize = 6;

    /// Reads what follows the head of the array.
    pub(super) fn decode_items(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        if reader.uint()? != TAG {
            return Err(Reader::invalid(at, "chunk"));
        }
        let class = reader.value()?;
        let at = reader.at();
        let (index, total) = (reader.u32()?, reader.u32()?);
        if !(2..=CHUNKS_MAX).contains(&total) || index >= total {
            return Err(Reader::invalid(at, "place of a chunk"));
        }
        let expiry_ms = reader.uint()?;
        Ok(Self {
            head: ChunkHead {
                class,
                index,
                total,
                expiry_ms,
            },
            bytes: reader.bytes()?,
        })
    }
}

impl Encode for Chunk<'_> {
    fn encode(&self, writer: &mut Writer) {
        let ChunkHead {
            class,
            index,
            total,
            expiry_ms,
        } = &self.head;
        writer
            .array(Self::ITEMS)
            .uint(TAG)
            .value(class)
            .value(index)
            .value(total)
            .value(expiry_ms)
            .bytes(self.bytes);
    }
}

/// Cuts one payload, whose bytes are in `B`.
#[derive(Debug, Clone)]
pub struct Cutter<B> {
    whole: B,
    destination: Did,
    tx_id: TxId,
    sequence: u64,
    life: Life,
    class: Class,
    expiry_ms: u64,
    chunk_bytes: usize,
    total: u32,
}

impl<B: AsRef<[u8]>> Cutter<B> {
    /// Cuts what [`Payload::to_frame`] wrote of `payload`, to travel under `relay`.
    ///
    /// # Errors
    /// The message needs more than [`CHUNKS_MAX`] chunks, or an envelope cannot be signed.
    pub fn new(
        payload: &Payload,
        whole: B,
        relay: RelayFields,
        signer: &Signer,
    ) -> Result<Self, SignError> {
        let transaction = payload.transaction();
        let life = transaction.proof().life();
        let delegation_ends_ms = signer.delegation().life().last_ms();
        let mut cutter = Self {
            destination: transaction.destination(),
            tx_id: transaction.tx_id(),
            sequence: transaction.sequence(),
            class: transaction.data().class(),
            expiry_ms: life.last_ms().min(delegation_ends_ms),
            life,
            chunk_bytes: CHUNK_FRAME_BYTES,
            total: CHUNKS_MAX,
            whole,
        };
        // Measured twice: the heads of a full frame are as long as those of one that is too full.
        for _ in 0..2 {
            let bytes = vec![0; cutter.chunk_bytes];
            let envelope = cutter.envelope(CHUNKS_MAX - 1, &bytes, relay, signer, life)?;
            let over = envelope
                .to_frame(|_| false)
                .len()
                .saturating_sub(CHUNK_FRAME_BYTES);
            cutter.chunk_bytes = cutter.chunk_bytes.saturating_sub(over);
        }
        let total = cutter
            .whole
            .as_ref()
            .len()
            .div_ceil(cutter.chunk_bytes.max(1));
        let size_bytes = cutter.whole.as_ref().len();
        cutter.total = u32::try_from(total)
            .ok()
            .filter(|total| (2..=CHUNKS_MAX).contains(total))
            .ok_or(SignError::Oversized { size_bytes })?;
        Ok(cutter)
    }

    /// Whom it is for.
    pub fn destination(&self) -> Did {
        self.destination
    }

    /// How many chunks there are.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// Bytes of the payload in all chunks before this one.
    pub fn bytes_before(&self, index: u32) -> usize {
        let before = usize::try_from(index).unwrap_or(usize::MAX);
        before
            .saturating_mul(self.chunk_bytes)
            .min(self.whole.as_ref().len())
    }

    /// Bytes of the payload.
    pub fn whole_bytes(&self) -> usize {
        self.whole.as_ref().len()
    }

    /// The envelope of the chunk with this index, carried under `relay`.
    ///
    /// # Errors
    /// It cannot be signed.
    pub fn chunk(
        &self,
        index: u32,
        relay: RelayFields,
        signer: &Signer,
        hop: Life,
    ) -> Result<Payload, SignError> {
        let (from, to) = (
            self.bytes_before(index),
            self.bytes_before(index.saturating_add(1)),
        );
        let bytes = self.whole.as_ref().get(from..to).unwrap_or_default();
        self.envelope(index, bytes, relay, signer, hop)
    }

    fn envelope(
        &self,
        index: u32,
        bytes: &[u8],
        relay: RelayFields,
        signer: &Signer,
        hop: Life,
    ) -> Result<Payload, SignError> {
        let head = ChunkHead {
            class: self.class,
            index,
            total: self.total,
            expiry_ms: self.expiry_ms,
        };
        let message = Message::Chunk(Chunk { head, bytes });
        let terms = Terms {
            destination: self.destination,
            tx_id: self.tx_id,
            sequence: self.sequence,
            life: self.life,
        };
        let data = Data::parse(to_vec(&message))?;
        let transaction = Transaction::sign_data(terms, data, signer)?;
        Payload::carry(transaction, relay, signer, hop)
    }
}
