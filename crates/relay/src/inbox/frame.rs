//! What holders, senders and the owner of an inbox say besides the frames of its log.

use super::bounds::{FRAME_MAX_BYTES, OUTCOMES_PER_FRAME};
use super::outcome::Outcome;
use overlane_core::mail::{HoldProof, REMOVAL_DIGESTS_MAX, Removal};
use overlane_core::wire::cbor::{
    CborError, CborReason, Decode, Encode, Reader, Writer, from_slice, to_vec,
};
use overlane_core::{Did, TransactionDigest};

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// `[0, owner]`: I hold mail for this account, and by my view of the ring so should you.
    Announce(Did),
    /// `[1, hold proof]`: the receipt, to the sender.
    Held(Box<HoldProof>),
    /// `[2, removal]`: the owner took these.
    Remove(Box<Removal>),
    /// `[3, owner, [digest, …]]`: of these nothing is held here any more.
    Removed(Did, Vec<TransactionDigest>),
    /// `[4, [outcome, …]]`: what became of mail, to its sender.
    Outcomes(Vec<Outcome>),
    /// `[5, [digest, …]]`: the sender heard what became of these.
    Heard(Vec<TransactionDigest>),
}

impl Frame {
    /// The frame's one form.
    pub fn to_bytes(&self) -> Vec<u8> {
        to_vec(self)
    }

    /// The frame that `bytes` are the one form of.
    ///
    /// # Errors
    /// Over [`FRAME_MAX_BYTES`], or bytes that [`Frame::to_bytes`] would not have written.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CborError> {
        if bytes.len() > FRAME_MAX_BYTES {
            let (bound, found) = (FRAME_MAX_BYTES, bytes.len());
            let reason = CborReason::OverBound { bound, found };
            return Err(CborError { at: 0, reason });
        }
        from_slice(bytes)
    }
}

impl Encode for Frame {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Announce(owner) => writer.array(2).uint(0).value(owner),
            Self::Held(proof) => writer.array(2).uint(1).value(&**proof),
            Self::Remove(removal) => writer.array(2).uint(2).value(&**removal),
            Self::Removed(owner, digests) => writer.array(3).uint(3).value(owner).list(digests),
            Self::Outcomes(outcomes) => writer.array(2).uint(4).list(outcomes),
            Self::Heard(digests) => writer.array(2).uint(5).list(digests),
        };
    }
}

impl<'a> Decode<'a> for Frame {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        let fields = reader.array()?;
        Ok(match (reader.u8()?, fields) {
            (0, 2) => Self::Announce(reader.value()?),
            (1, 2) => Self::Held(Box::new(reader.value()?)),
            (2, 2) => Self::Remove(Box::new(reader.value()?)),
            (3, 3) => Self::Removed(reader.value()?, reader.list(REMOVAL_DIGESTS_MAX)?),
            (4, 2) => Self::Outcomes(reader.list(OUTCOMES_PER_FRAME)?),
            (5, 2) => Self::Heard(reader.list(OUTCOMES_PER_FRAME)?),
            _ => return Err(Reader::invalid(at, "inbox frame")),
        })
    }
}
