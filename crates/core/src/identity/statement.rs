//! Small things a delegatee signs: the thing, the delegation it is signed under, when it counts.
//!
//! Law (its own domain): what is signed is the hash of the statement's fields in the context of its
//! kind, so a statement of one kind never verifies as one of another.
//!
//! A statement counts while its own life lasts; the delegation must have counted when it was issued.
//! It is then checked by anyone who has it, also after the signer rotated its key.

use super::{Checked, Delegation, DelegationError, DelegationReason, Life, LifeError};
use super::{Signature, Signer, VerifyContext, sealed, transcript};
use crate::fault::{Coded, Fault};
use crate::ids::Did;
use crate::wire::cbor::{CborError, Decode, Encode, Reader, Writer};

/// A kind of statement. Only this crate says which there are.
pub trait Subject: Encode + sealed::Sealed {
    /// What a statement of this kind is called in an error.
    const NAME: &'static str;
    /// The context its signature is over.
    const CONTEXT: &'static str;
    /// The longest life a statement of this kind may have, in milliseconds.
    const TTL_MAX_MS: u64;
}

/// `[subject, issued_ms, ttl_ms, delegation, signature]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement<T> {
    subject: T,
    life: Life,
    delegation: Delegation,
    signature: Signature,
}

/// A statement that does not count, and the account that would have made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the {kind} of {signer}: {reason}")]
pub struct StatementError {
    /// What was stated.
    pub kind: &'static str,
    /// The account it claims.
    pub signer: Did,
    /// Why it does not count.
    pub reason: StatementReason,
}

/// Why a statement does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StatementReason {
    /// Its own life.
    #[error(transparent)]
    Life(#[from] LifeError),
    /// The delegation it was signed under.
    #[error(transparent)]
    Delegation(#[from] DelegationError),
    /// The signature does not verify.
    #[error("the delegatee's signature does not verify")]
    BadSignature,
}

impl<T: Subject> Statement<T> {
    /// States `subject` for the signer's account.
    ///
    /// # Errors
    /// The life is longer than such a statement may have.
    pub fn sign(subject: T, signer: &Signer, life: Life) -> Result<Self, StatementError> {
        let delegation = Delegation::clone(signer.delegation());
        if life.ttl_ms > T::TTL_MAX_MS {
            let (ttl_ms, ttl_max_ms) = (life.ttl_ms, T::TTL_MAX_MS);
            return Err(StatementError {
                kind: T::NAME,
                signer: signer.did(),
                reason: LifeError::TooLong { ttl_ms, ttl_max_ms }.into(),
            });
        }
        let signed = transcript(T::CONTEXT, &Signed(&subject, life, &delegation));
        Ok(Self {
            signature: signer.sign(&signed),
            subject,
            life,
            delegation,
        })
    }

    /// What is stated.
    pub fn subject(&self) -> &T {
        &self.subject
    }

    /// When it counts.
    pub fn life(&self) -> Life {
        self.life
    }

    /// The account it claims to be of; true of a verified one.
    pub fn signer(&self) -> Did {
        self.delegation.did()
    }

    /// The delegation it is signed under.
    pub fn delegation(&self) -> &Delegation {
        &self.delegation
    }

    fn refuse(&self, reason: impl Into<StatementReason>) -> StatementError {
        StatementError {
            kind: T::NAME,
            signer: self.signer(),
            reason: reason.into(),
        }
    }
}

impl<T: Subject> sealed::Sealed for Statement<T> {}

impl<T: Subject> Checked for Statement<T> {
    type Context<'c> = &'c VerifyContext;
    type Facts = ();
    type Error = StatementError;

    fn check(&self, context: &VerifyContext) -> Result<(), StatementError> {
        let found = self.delegation.network();
        if found != context.network {
            let wanted = context.network;
            return Err(self.refuse(DelegationError {
                account: self.signer(),
                reason: DelegationReason::WrongNetwork { wanted, found },
            }));
        }
        let life = self.life.check(context.now_ms, T::TTL_MAX_MS);
        life.map_err(|error| self.refuse(error))?;
        let lived = self.delegation.check_life(self.life.issued_ms);
        lived.map_err(|error| self.refuse(error))?;
        let signed = transcript(
            T::CONTEXT,
            &Signed(&self.subject, self.life, &self.delegation),
        );
        if !self
            .delegation
            .delegatee()
            .verifies(&signed, &self.signature)
        {
            return Err(self.refuse(StatementReason::BadSignature));
        }
        let delegated = self.delegation.check_signatures();
        delegated.map_err(|error| self.refuse(error))
    }
}

impl<T: Encode> Encode for Statement<T> {
    fn encode(&self, writer: &mut Writer) {
        writer.array(5).value(&self.subject);
        self.life
            .encode_fields(writer)
            .value(&self.delegation)
            .value(&self.signature);
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Statement<T> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(5)?;
        Ok(Self {
            subject: reader.value()?,
            life: Life::decode_fields(reader)?,
            delegation: reader.value()?,
            signature: reader.value()?,
        })
    }
}

/// What a statement's signature covers.
struct Signed<'a, T>(&'a T, Life, &'a Delegation);

impl<T: Encode> Encode for Signed<'_, T> {
    fn encode(&self, writer: &mut Writer) {
        let Self(subject, life, delegation) = self;
        let digest = delegation.digest();
        life.encode_fields(writer.array(4).value(*subject).value(&digest));
    }
}

impl Coded for StatementError {
    fn code(&self) -> &'static str {
        match self.reason {
            StatementReason::Life(LifeError::FromTheFuture { .. }) => "statement/from_the_future",
            StatementReason::Life(LifeError::Expired { .. }) => "statement/expired",
            StatementReason::Life(LifeError::TooLong { .. }) => "statement/life_too_long",
            StatementReason::Delegation(error) => error.code(),
            StatementReason::BadSignature => "statement/bad_signature",
        }
    }

    fn fault(&self) -> Fault {
        match self.reason {
            StatementReason::Life(_) => Fault::RefusedByBound,
            StatementReason::Delegation(error) => error.fault(),
            StatementReason::BadSignature => Fault::PeerMisbehaved,
        }
    }
}
