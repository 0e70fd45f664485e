//! What a holder keeps, and what the destination makes of it.

use super::error::MailError;
use super::hold::{HoldProof, HoldSubject};
use crate::identity::{Life, Signer, Verified, VerifyContext};
use crate::ids::{Class, Did, TransactionDigest};
use crate::seal::is_sealed;
use crate::transaction::Payload;
use crate::wire::bounds::{FRAME_MAX_BYTES, PAYLOAD_OVERHEAD_MAX_BYTES};
use crate::wire::cbor::{
    CborError, CborReason, Decode, Encode, Reader, Writer, from_slice, to_vec,
};

/// The most signed data of one mail. Source: protocol decision 8.
pub const MAIL_DATA_MAX_BYTES: usize = 32 * 1024;

/// The most bytes of held mail: its data, what a payload adds, and the hold proof.
pub const HELD_MAIL_MAX_BYTES: usize = MAIL_DATA_MAX_BYTES + PAYLOAD_OVERHEAD_MAX_BYTES + 1024;

const _: () = assert!(HELD_MAIL_MAX_BYTES < FRAME_MAX_BYTES);

/// `[payload, hold proof]`, not verified yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldMail {
    payload: Payload,
    hold: HoldProof,
}

/// Mail that verified as of its hold instant. It is made by [`HeldMail::verify`] and by
/// [`Mail::hold`] alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    payload: Verified<Payload>,
    hold: HoldProof,
}

/// Whether a payload may be held at all: a sealed application message within its bound.
///
/// # Errors
/// What is wrong with it.
pub fn check_holdable(payload: &Verified<Payload>) -> Result<(), MailError> {
    let class = payload.class();
    if class != Class::Application {
        return Err(MailError::NotApplication { class });
    }
    let (size_bytes, bound_bytes) = (payload.data_bytes(), MAIL_DATA_MAX_BYTES);
    if size_bytes > bound_bytes {
        return Err(MailError::TooLarge {
            size_bytes,
            bound_bytes,
        });
    }
    if !is_sealed(&payload.message()) {
        return Err(MailError::NotSealed);
    }
    Ok(())
}

impl HeldMail {
    /// Its one form.
    pub fn to_bytes(&self) -> Vec<u8> {
        to_vec(self)
    }

    /// The held mail that `bytes` are the one form of.
    ///
    /// # Errors
    /// Over [`HELD_MAIL_MAX_BYTES`], or another form.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CborError> {
        if bytes.len() > HELD_MAIL_MAX_BYTES {
            let (bound, found) = (HELD_MAIL_MAX_BYTES, bytes.len());
            let reason = CborReason::OverBound { bound, found };
            return Err(CborError { at: 0, reason });
        }
        from_slice(bytes)
    }

    /// Whom it claims to be for.
    pub fn destination(&self) -> Did {
        self.payload.transaction().destination()
    }

    /// The hold proof it carries.
    pub fn hold(&self) -> &HoldProof {
        &self.hold
    }

    /// Checks the hold proof now, and the payload as of the hold instant.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn verify(self, context: &VerifyContext) -> Result<Mail, MailError> {
        let Self { payload, hold } = self;
        let hold = Verified::verify(hold, context)?;
        let as_of = VerifyContext {
            now_ms: hold.held_ms(),
            ..*context
        };
        let payload = payload.verify(&as_of)?;
        if payload.digest() != hold.digest() {
            return Err(MailError::OtherTransaction);
        }
        check_holdable(&payload)?;
        let hold = hold.into_inner();
        Ok(Mail { payload, hold })
    }
}

impl Mail {
    /// Holds a payload that verified now, from `now_ms` for `keep_ms`.
    ///
    /// # Errors
    /// It is not to be held, or not for that long.
    pub fn hold(
        payload: Verified<Payload>,
        holder: &Signer,
        now_ms: u64,
        keep_ms: u64,
    ) -> Result<Self, MailError> {
        check_holdable(&payload)?;
        let life = Life {
            issued_ms: now_ms,
            ttl_ms: keep_ms,
        };
        let hold = HoldProof::sign(HoldSubject(payload.digest()), holder, life)?;
        Ok(Self { payload, hold })
    }

    /// The transaction's digest, by which holders name the mail.
    pub fn digest(&self) -> TransactionDigest {
        self.payload.digest()
    }

    /// Whose mail it is.
    pub fn destination(&self) -> Did {
        self.payload.stream().destination
    }

    /// Who sent it.
    pub fn origin(&self) -> Did {
        self.payload.origin()
    }

    /// The hold proof.
    pub fn hold_proof(&self) -> &HoldProof {
        &self.hold
    }

    /// The payload.
    pub fn payload(&self) -> &Verified<Payload> {
        &self.payload
    }

    /// The payload, for the one admission path.
    pub fn into_payload(self) -> Verified<Payload> {
        self.payload
    }

    /// What a holder keeps and hands on.
    pub fn to_held(&self) -> HeldMail {
        HeldMail {
            payload: self.payload.clone().into_payload(),
            hold: self.hold.clone(),
        }
    }
}

impl Encode for HeldMail {
    fn encode(&self, writer: &mut Writer) {
        writer.array(2).value(&self.payload).value(&self.hold);
    }
}

impl<'a> Decode<'a> for HeldMail {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(2)?;
        Ok(Self {
            payload: reader.value()?,
            hold: reader.value()?,
        })
    }
}
