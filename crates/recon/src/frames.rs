//! The frames around an exchange, and the envelope whose hash an item's id is.
//!
//! The algorithm never looks at them; they are here so that an implementer finds the whole exchange in one place.
//! Law kept here: *one encoding*, as for the payload. Source: seed 4 and its vectors, kinds `envelope` and `frame`.

use alloc::vec::Vec;

use crate::codec::CborFault;
use crate::codec::cbor::{self, ARRAY, Reader, UINT};
use crate::item::Id;

/// Most bytes of one frame: 1 MiB and 4 KiB.
pub const FRAME_BYTES_MAX: usize = 1024 * 1024 + 4096;

const RECON: u64 = 9;
const PUSH: u64 = 10;
const SEND: u64 = 11;
const SEND_ACK: u64 = 12;
const ERROR: u64 = 15;

/// A sealed message of a group, as it is stored and pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// Whether the content is encrypted.
    pub encrypted: bool,
    /// The group.
    pub group: &'a [u8; 32],
    /// The group's key epoch.
    pub epoch: u64,
    /// The relay's number; outside the address, so numbering does not change it.
    pub seq: u64,
    /// When it was made, in milliseconds; outside the address.
    pub made_ms: u64,
    /// The content.
    pub content: &'a [u8],
}

/// A frame of an exchange, one in each message of the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A RECON payload of a group.
    Recon {
        /// The group.
        group: &'a [u8; 32],
        /// The payload, as [`crate::Message`] reads it.
        payload: &'a [u8],
    },
    /// An encoded envelope from the relay.
    Push(&'a [u8]),
    /// An encoded envelope from the client.
    Send(&'a [u8]),
    /// The relay's number for a sent envelope, new or not.
    SendAck {
        /// The envelope's hash.
        hash: &'a [u8; 32],
        /// Its number.
        seq: u64,
    },
    /// A refusal. The session lives on.
    Error {
        /// The code's first half: `reject`, `retry` or `quota`.
        class: &'a [u8],
        /// The code's second half, without the class.
        reason: &'a [u8],
        /// When to try again, in seconds; zero for unsaid.
        retry_after_s: u64,
        /// More for a machine to read; its meaning goes with the code.
        detail: &'a [u8],
    },
}

/// Why bytes are no frame of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameFault {
    /// Not canonical CBOR of the frame's shape.
    #[error("the frame is not canonical CBOR: {0}")]
    Cbor(#[from] CborFault),
    /// A tag that has no part in an exchange.
    #[error("tag {0} has no part in an exchange")]
    Tag(u64),
    /// More bytes than a frame may have.
    #[error("a frame of {0} bytes is more than 1 MiB and 4 KiB")]
    TooLarge(usize),
}

impl Envelope<'_> {
    /// The content address: BLAKE3 over version, flag, group, epoch and content, each as encoded, without array head.
    #[must_use]
    pub fn hash(&self) -> Id {
        let mut head = Vec::with_capacity(64);
        self.put_addressed(&mut head);
        cbor::put_head(&mut head, cbor::BYTES, self.content.len() as u64);
        let mut hasher = blake3::Hasher::new();
        hasher.update(&head).update(self.content);
        Id(*hasher.finalize().as_bytes())
    }

    /// The encoded envelope, its hash inside.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.content.len() + 128);
        cbor::put_head(&mut out, ARRAY, 8);
        self.put_addressed(&mut out);
        cbor::put_head(&mut out, UINT, self.seq);
        cbor::put_head(&mut out, UINT, self.made_ms);
        cbor::put_bytes(&mut out, &self.hash().0);
        cbor::put_bytes(&mut out, self.content);
        out
    }

    fn put_addressed(&self, out: &mut Vec<u8>) {
        cbor::put_head(out, UINT, 1);
        cbor::put_head(out, UINT, u64::from(self.encrypted));
        cbor::put_bytes(out, self.group);
        cbor::put_head(out, UINT, self.epoch);
    }
}

impl<'a> Frame<'a> {
    /// The frame's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut begin = |tag, fields| {
            cbor::put_head(&mut out, ARRAY, 2);
            cbor::put_head(&mut out, UINT, tag);
            cbor::put_head(&mut out, ARRAY, fields);
        };
        match self {
            Self::Recon { group, payload } => {
                begin(RECON, 2);
                cbor::put_bytes(&mut out, *group);
                cbor::put_bytes(&mut out, payload);
            }
            Self::Push(envelope) => {
                begin(PUSH, 1);
                cbor::put_bytes(&mut out, envelope);
            }
            Self::Send(envelope) => {
                begin(SEND, 1);
                cbor::put_bytes(&mut out, envelope);
            }
            Self::SendAck { hash, seq } => {
                begin(SEND_ACK, 2);
                cbor::put_bytes(&mut out, *hash);
                cbor::put_head(&mut out, UINT, *seq);
            }
            Self::Error {
                class,
                reason,
                retry_after_s,
                detail,
            } => {
                begin(ERROR, 4);
                cbor::put_bytes(&mut out, class);
                cbor::put_bytes(&mut out, reason);
                cbor::put_head(&mut out, UINT, *retry_after_s);
                cbor::put_bytes(&mut out, detail);
            }
        }
        out
    }

    /// Reads a frame; what it holds borrows from the input.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FrameFault> {
        if bytes.len() > FRAME_BYTES_MAX {
            return Err(FrameFault::TooLarge(bytes.len()));
        }
        let mut reader = Reader::new(bytes);
        reader.array_of(2)?;
        let frame = match reader.uint()? {
            RECON => {
                reader.array_of(2)?;
                Self::Recon {
                    group: reader.bytes32()?,
                    payload: reader.bytes()?,
                }
            }
            PUSH => {
                reader.array_of(1)?;
                Self::Push(reader.bytes()?)
            }
            SEND => {
                reader.array_of(1)?;
                Self::Send(reader.bytes()?)
            }
            SEND_ACK => {
                reader.array_of(2)?;
                Self::SendAck {
                    hash: reader.bytes32()?,
                    seq: reader.uint()?,
                }
            }
            ERROR => {
                reader.array_of(4)?;
                Self::Error {
                    class: reader.bytes()?,
                    reason: reader.bytes()?,
                    retry_after_s: reader.uint()?,
                    detail: reader.bytes()?,
                }
            }
            unknown => return Err(FrameFault::Tag(unknown)),
        };
        reader.finish()?;
        Ok(frame)
    }
}
