//! The operations a frame holds. RETIRE, which would tell that a dropped name may be recognised no
//! longer, is not sent: dropping is letting go of the identity too, and its tag stays reserved.

use super::body::bounded;
use super::{
    Body, ERROR_MAX_BYTES, Outcome, REFS_PER_BODY_MAX, RESOLUTIONS_PER_OP_MAX, Reason, WireId,
};
use overlane_core::wire::cbor::{CborError, CborReason, Decode, Encode, Reader, Writer};
use std::sync::Arc;

/// One operation. Source: seed 3, the converged design.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Op {
    /// A message to something the receiver owns or decides.
    Deliver {
        /// Where it goes.
        target: WireId,
        /// The promise that its answer resolves; the receiver decides it from now on.
        result: Option<WireId>,
        /// What it says.
        body: Body<WireId>,
    },
    /// Promises became something. Naming one here retires its id.
    Resolve(Vec<Resolution>),
    /// The sender let go of these, and names them no more unless they are introduced again.
    Drop(Vec<WireId>),
    /// The sender takes objects of its own back.
    Revoke(Vec<Revocation>),
}

/// What one promise became.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Resolution {
    /// The promise.
    pub promise: WireId,
    /// What it became.
    pub outcome: Outcome<WireId>,
}

/// How much of an object a revocation takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hardness {
    /// Messages are refused; the identity stays, and two references to it are still the same.
    Soft,
    /// The identity goes too.
    Hard,
}

/// One object taken back.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Revocation {
    /// The object.
    pub object: WireId,
    /// How much is taken.
    pub hardness: Hardness,
    /// Why, in short. Kept for as long as the object is known.
    pub reason: Reason,
    /// What messages to it are answered with. Kept until every importer has acknowledged.
    pub error: Arc<[u8]>,
}

impl Encode for Op {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Deliver {
                target,
                result,
                body,
            } => writer
                .array(4)
                .uint(0)
                .value(target)
                .value(result)
                .value(body),
            Self::Resolve(resolutions) => writer.array(2).uint(1).list(resolutions),
            Self::Drop(ids) => writer.array(2).uint(2).list(ids),
            Self::Revoke(revocations) => writer.array(2).uint(3).list(revocations),
        };
    }
}

impl<'a> Decode<'a> for Op {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        let fields = reader.array()?;
        match (reader.u8()?, fields) {
            (0, 4) => Ok(Self::Deliver {
                target: reader.value()?,
                result: reader.value()?,
                body: reader.value()?,
            }),
            (1, 2) => some(reader, RESOLUTIONS_PER_OP_MAX).map(Self::Resolve),
            (2, 2) => some(reader, REFS_PER_BODY_MAX).map(Self::Drop),
            (3, 2) => some(reader, REFS_PER_BODY_MAX).map(Self::Revoke),
            _ => Err(Reader::invalid(at, "operation")),
        }
    }
}

/// A list of at least one and at most `bound` values.
pub(super) fn some<'a, T: Decode<'a>>(
    reader: &mut Reader<'a>,
    bound: usize,
) -> Result<Vec<T>, CborError> {
    let at = reader.at();
    let list = reader.list(bound)?;
    if list.is_empty() {
        let reason = CborReason::Invalid("list: it is empty");
        return Err(CborError { at, reason });
    }
    Ok(list)
}

impl Encode for Resolution {
    fn encode(&self, writer: &mut Writer) {
        writer.array(2).value(&self.promise).value(&self.outcome);
    }
}

impl<'a> Decode<'a> for Resolution {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(2)?;
        Ok(Self {
            promise: reader.value()?,
            outcome: reader.value()?,
        })
    }
}

impl Encode for Hardness {
    fn encode(&self, writer: &mut Writer) {
        writer.boolean(*self == Self::Hard);
    }
}

impl<'a> Decode<'a> for Hardness {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let hard = reader.boolean()?;
        Ok(if hard { Self::Hard } else { Self::Soft })
    }
}

impl Encode for Revocation {
    fn encode(&self, writer: &mut Writer) {
        writer
            .array(4)
            .value(&self.object)
            .value(&self.hardness)
            .value(&self.reason)
            .bytes(&self.error);
    }
}

impl<'a> Decode<'a> for Revocation {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(4)?;
        Ok(Self {
            object: reader.value()?,
            hardness: reader.value()?,
            reason: reader.value()?,
            error: bounded(reader, ERROR_MAX_BYTES)?,
        })
    }
}
