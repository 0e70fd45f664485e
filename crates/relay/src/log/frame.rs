//! What two sides of a log say to each other.
//!
//! Law (one form): bytes are accepted only if encoding what they say gives the same bytes again.

use super::bounds::{CODE_MAX_BYTES, ENVELOPE_MAX_BYTES, FRAME_MAX_BYTES, PUSH_IDS};
use super::id::{EnvelopeId, LogId};
use overlane_core::wire::cbor::{
    CborError, CborReason, Decode, Encode, Reader, Writer, from_slice, to_vec,
};

/// The sequence space a reconciliation runs over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// The holder's numbers. What is new stands at the end, so little is said about it.
    Numbered,
    /// The envelopes' own addresses: for two holders, each of which numbers for itself.
    Shared,
}

/// Whose turn a RECON payload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Turn {
    /// Of the side that drives.
    Ask,
    /// Of the side that answers.
    Answer,
    /// Of the side that drives and only wants to know: what it lacks is named and not pushed.
    Plan,
}

/// An envelope that a plan names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    /// The number it has at the sender.
    pub seq: u64,
    /// The envelope.
    pub id: EnvelopeId,
    /// Its bytes.
    pub bytes: u32,
}

/// Bytes of one envelope that is named: its number, its name, its length, each big-endian.
pub(super) const NAMED_BYTES: usize = 44;

impl Named {
    pub(super) fn write(&self, into: &mut Vec<u8>) {
        into.extend(self.seq.to_be_bytes());
        into.extend(self.id.0);
        into.extend(self.bytes.to_be_bytes());
    }

    /// What a frame names.
    pub fn read(items: &[u8]) -> impl Iterator<Item = Self> {
        let (items, _) = items.as_chunks::<NAMED_BYTES>();
        items.iter().filter_map(|item| {
            let (seq, rest) = item.split_first_chunk()?;
            let (id, bytes) = rest.split_first_chunk()?;
            Some(Self {
                seq: u64::from_be_bytes(*seq),
                id: overlane_recon::Id(*id),
                bytes: u32::from_be_bytes(bytes.try_into().ok()?),
            })
        })
    }
}

/// What a refusal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refused {
    /// The RECON message.
    Recon,
    /// The envelope of this name.
    Envelope(EnvelopeId),
}

/// One frame. What it holds borrows from the bytes it was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// `[0, log, envelope]`: keep this.
    Send {
        /// The log.
        log: LogId,
        /// The envelope.
        envelope: &'a [u8],
    },
    /// `[1, log, id, seq]`: it is durable, and has this number here.
    SendAck {
        /// The log.
        log: LogId,
        /// The envelope.
        id: EnvelopeId,
        /// Its number.
        seq: u64,
    },
    /// `[2, log, seq, envelope]`: you lack this.
    Push {
        /// The log.
        log: LogId,
        /// The number it has at the sender.
        seq: u64,
        /// The envelope.
        envelope: &'a [u8],
    },
    /// `[3, log, space, turn, payload]`: a message of a reconciliation, or of a plan of one.
    Recon {
        /// The log.
        log: LogId,
        /// The space it runs over.
        space: Space,
        /// Whose turn it is.
        turn: Turn,
        /// The payload.
        payload: &'a [u8],
    },
    /// `[4, log, what, code, retry_ms]`: not done; `what` is null for the RECON message.
    Refuse {
        /// The log.
        log: LogId,
        /// What is refused.
        what: Refused,
        /// The stable code of the reason.
        code: &'a str,
        /// When to try again, in milliseconds; zero for never as it is.
        retry_ms: u64,
    },
    /// `[5, log, items]`: you lack these ([`Named`]); to one that asked with [`Turn::Plan`].
    Named {
        /// The log.
        log: LogId,
        /// The envelopes, one after the other.
        items: &'a [u8],
    },
}

impl<'a> Frame<'a> {
    /// The frame's one form.
    pub fn to_bytes(&self) -> Vec<u8> {
        to_vec(self)
    }

    /// The frame that `bytes` are the one form of.
    ///
    /// # Errors
    /// Over [`FRAME_MAX_BYTES`], or bytes that [`Frame::to_bytes`] would not have written.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, CborError> {
        if bytes.len() > FRAME_MAX_BYTES {
            return Err(over(0, FRAME_MAX_BYTES, bytes.len()));
        }
        from_slice(bytes)
    }

    /// The log it speaks of.
    pub fn log(&self) -> LogId {
        match self {
            Self::Send { log, .. }
            | Self::SendAck { log, .. }
            | Self::Push { log, .. }
            | Self::Recon { log, .. }
            | Self::Refuse { log, .. }
            | Self::Named { log, .. } => *log,
        }
    }
}

impl Encode for Frame<'_> {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Send { log, envelope } => {
                writer.array(3).uint(0).value(&log.0).bytes(envelope);
            }
            Self::SendAck { log, id, seq } => {
                let writer = writer.array(4).uint(1).value(&log.0);
                writer.value(&id.0).uint(*seq);
            }
            Self::Push { log, seq, envelope } => {
                let writer = writer.array(4).uint(2).value(&log.0);
                writer.uint(*seq).bytes(envelope);
            }
            Self::Recon {
                log,
                space,
                turn,
                payload,
            } => {
                let writer = writer.array(5).uint(3).value(&log.0);
                let turn = match turn {
                    Turn::Ask => 0,
                    Turn::Answer => 1,
                    Turn::Plan => 2,
                };
                let writer = writer.uint(u64::from(*space == Space::Shared));
                writer.uint(turn).bytes(payload);
            }
            Self::Refuse {
                log,
                what,
                code,
                retry_ms,
            } => {
                let writer = writer.array(5).uint(4).value(&log.0);
                let what = match what {
                    Refused::Recon => None,
                    Refused::Envelope(id) => Some(id.0),
                };
                writer.value(&what).text(code).uint(*retry_ms);
            }
            Self::Named { log, items } => {
                writer.array(3).uint(5).value(&log.0).bytes(items);
            }
        }
    }
}

impl<'a> Decode<'a> for Frame<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        let fields = reader.array()?;
        let kind = reader.u8()?;
        let log = LogId::read(reader)?;
        Ok(match (kind, fields) {
            (0, 3) => Self::Send {
                log,
                envelope: envelope(reader)?,
            },
            (1, 4) => Self::SendAck {
                log,
                id: overlane_recon::Id(reader.value()?),
                seq: reader.uint()?,
            },
            (2, 4) => Self::Push {
                log,
                seq: reader.uint()?,
                envelope: envelope(reader)?,
            },
            (3, 5) => Self::Recon {
                log,
                space: if flag(reader)? {
                    Space::Shared
                } else {
                    Space::Numbered
                },
                turn: turn(reader)?,
                payload: reader.bytes()?,
            },
            (4, 5) => Self::Refuse {
                log,
                what: reader
                    .value::<Option<[u8; 32]>>()?
                    .map_or(Refused::Recon, |id| {
                        Refused::Envelope(overlane_recon::Id(id))
                    }),
                code: code(reader)?,
                retry_ms: reader.uint()?,
            },
            (5, 3) => Self::Named {
                log,
                items: items(reader)?,
            },
            _ => return Err(Reader::invalid(at, "log frame")),
        })
    }
}

fn envelope<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], CborError> {
    let at = reader.at();
    let bytes = reader.bytes()?;
    if bytes.len() > ENVELOPE_MAX_BYTES {
        return Err(over(at, ENVELOPE_MAX_BYTES, bytes.len()));
    }
    Ok(bytes)
}

fn code<'a>(reader: &mut Reader<'a>) -> Result<&'a str, CborError> {
    let at = reader.at();
    let code = reader.text()?;
    if code.len() > CODE_MAX_BYTES {
        return Err(over(at, CODE_MAX_BYTES, code.len()));
    }
    let plain = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || b"/_".contains(&it);
    if !code.bytes().all(plain) {
        return Err(Reader::invalid(at, "code"));
    }
    Ok(code)
}

fn items<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], CborError> {
    let at = reader.at();
    let bytes = reader.bytes()?;
    let bound = PUSH_IDS * NAMED_BYTES;
    if bytes.len() > bound {
        return Err(over(at, bound, bytes.len()));
    }
    if !bytes.len().is_multiple_of(NAMED_BYTES) {
        return Err(Reader::invalid(at, "log frame: named"));
    }
    Ok(bytes)
}

fn turn(reader: &mut Reader<'_>) -> Result<Turn, CborError> {
    let at = reader.at();
    match reader.u8()? {
        0 => Ok(Turn::Ask),
        1 => Ok(Turn::Answer),
        2 => Ok(Turn::Plan),
        _ => Err(Reader::invalid(at, "log frame: turn")),
    }
}

fn flag(reader: &mut Reader<'_>) -> Result<bool, CborError> {
    let at = reader.at();
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Reader::invalid(at, "log frame: space")),
    }
}

fn over(at: usize, bound: usize, found: usize) -> CborError {
    let reason = CborReason::OverBound { bound, found };
    CborError { at, reason }
}
