//! Frames: the numbered ones that carry operations, and the three that count for nothing.
//!
//! Law (stamped once): a numbered frame is encoded when it is decided, and the bytes sent again
//! after a loss are the same bytes. A DROP is judged by the acknowledgement in its frame, so a
//! later stamp would free a reference that is in use.

use super::op::some;
use super::{CLOSE_TEXT_MAX_BYTES, Epoch, FRAME_MAX_BYTES, OPS_PER_FRAME_MAX, Op, Seq};
use overlane_core::wire::cbor::{
    CborError, CborReason, Decode, Encode, Reader, Writer, from_slice, to_vec,
};

/// What one transmission says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Frame {
    /// Operations, in order, all or none of which take effect.
    Numbered(Numbered),
    /// An acknowledgement when there is nothing else to say.
    AckOnly(AckOnly),
    /// Where one end is, after a reconnect or a gap.
    Resume(Resume),
    /// The sender ended the epoch.
    Close(Close),
}

/// A frame that takes a number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Numbered {
    /// The life of the link it belongs to.
    pub epoch: Epoch,
    /// Its number, which is one more than that of the frame before. It may be left out, and is
    /// counted all the same.
    pub seq: Option<Seq>,
    /// How many of the receiver's frames the sender processed since its previous numbered frame.
    pub ack_delta: u64,
    /// What is done, in order.
    pub ops: Vec<Op>,
}

/// An acknowledgement without a number, which changes no counter and wants no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AckOnly {
    /// The life of the link it belongs to.
    pub epoch: Epoch,
    /// The sender's newest numbered frame when it said this. A receiver that has not processed that
    /// one must not believe the rest: frames decided before what is acknowledged here are still to
    /// come, and may name what the acknowledgement would let it forget.
    pub after: Seq,
    /// The receiver's newest frame that the sender processed.
    pub recv: Seq,
}

/// What one end knows. Said by both after a reconnect, and by one that noticed a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Resume {
    /// The life of the link the sender is in.
    pub epoch: Epoch,
    /// The sender's newest numbered frame.
    pub sent: Seq,
    /// The receiver's newest frame that the sender processed.
    pub recv: Seq,
    /// The sender's newest frame that it knows the receiver processed.
    pub acked: Seq,
}

/// The end of an epoch, said once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Close {
    /// The life of the link that ended.
    pub epoch: Epoch,
    /// The stable code of the cause.
    pub code: String,
    /// The cause for a reader.
    pub text: String,
}

impl Frame {
    /// The frame's one form.
    pub fn to_bytes(&self) -> Vec<u8> {
        to_vec(self)
    }

    /// The frame that `bytes` are the one form of.
    ///
    /// # Errors
    /// Bytes over [`FRAME_MAX_BYTES`], and bytes that [`Frame::to_bytes`] would not have written.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CborError> {
        if bytes.len() > FRAME_MAX_BYTES {
            let (found, bound) = (bytes.len(), FRAME_MAX_BYTES);
            let reason = CborReason::OverBound { bound, found };
            return Err(CborError { at: 0, reason });
        }
        from_slice(bytes)
    }

    /// The epoch the frame speaks of.
    pub fn epoch(&self) -> Epoch {
        match self {
            Self::Numbered(frame) => frame.epoch,
            Self::AckOnly(frame) => frame.epoch,
            Self::Resume(frame) => frame.epoch,
            Self::Close(frame) => frame.epoch,
        }
    }
}

impl Numbered {
    /// The bytes of a numbered frame whose operations are encoded already, one after another.
    pub(crate) fn assemble(
        epoch: Epoch,
        seq: Option<Seq>,
        ack_delta: u64,
        ops: usize,
        encoded_ops: &[u8],
    ) -> Vec<u8> {
        let mut writer = Writer::append(Vec::with_capacity(encoded_ops.len() + 16));
        head(&mut writer, epoch, seq, ack_delta).array(ops);
        let mut bytes = writer.into_bytes();
        bytes.extend_from_slice(encoded_ops);
        bytes
    }
}

fn head(writer: &mut Writer, epoch: Epoch, seq: Option<Seq>, ack_delta: u64) -> &mut Writer {
    writer
        .array(5)
        .uint(0)
        .value(&epoch)
        .value(&seq)
        .value(&ack_delta)
}

impl Encode for Frame {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Numbered(frame) => {
                head(writer, frame.epoch, frame.seq, frame.ack_delta).list(&frame.ops)
            }
            Self::AckOnly(frame) => writer
                .array(4)
                .uint(1)
                .value(&frame.epoch)
                .value(&frame.after)
                .value(&frame.recv),
            Self::Resume(frame) => writer
                .array(5)
                .uint(2)
                .value(&frame.epoch)
                .value(&frame.sent)
                .value(&frame.recv)
                .value(&frame.acked),
            Self::Close(frame) => writer
                .array(4)
                .uint(3)
                .value(&frame.epoch)
                .text(&frame.code)
                .text(&frame.text),
        };
    }
}

impl<'a> Decode<'a> for Frame {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        let fields = reader.array()?;
        match (reader.u8()?, fields) {
            (0, 5) => Ok(Self::Numbered(Numbered {
                epoch: reader.value()?,
                seq: reader.value()?,
                ack_delta: reader.value()?,
                ops: some(reader, OPS_PER_FRAME_MAX)?,
            })),
            (1, 4) => Ok(Self::AckOnly(AckOnly {
                epoch: reader.value()?,
                after: reader.value()?,
                recv: reader.value()?,
            })),
            (2, 5) => Ok(Self::Resume(Resume {
                epoch: reader.value()?,
                sent: reader.value()?,
                recv: reader.value()?,
                acked: reader.value()?,
            })),
            (3, 4) => Ok(Self::Close(Close {
                epoch: reader.value()?,
                code: short_text(reader)?,
                text: short_text(reader)?,
            })),
            _ => Err(Reader::invalid(at, "frame")),
        }
    }
}

fn short_text(reader: &mut Reader<'_>) -> Result<String, CborError> {
    let at = reader.at();
    let text = reader.text()?;
    if text.len() > CLOSE_TEXT_MAX_BYTES {
        let (found, bound) = (text.len(), CLOSE_TEXT_MAX_BYTES);
        let reason = CborReason::OverBound { bound, found };
        return Err(CborError { at, reason });
    }
    Ok(text.to_owned())
}
