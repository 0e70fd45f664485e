//! Offers and answers: making, writing, reading, checking.

use super::error::{SignalError, SignalRefusal};
use crate::identity::{
    AccountKey, Checked, Delegation, Life, LifeError, Signature, Signer, Verified, VerifyContext,
    sealed, transcript,
};
use crate::ids::Did;
use crate::wire::bounds::{SDP_MAX_BYTES, SIGNAL_MAX_BYTES};
use crate::wire::cbor::{
    CborError, CborReason, Decode, Encode, Reader, Writer, from_slice, to_vec,
};
use std::fmt;

/// How long an offer or an answer counts unless asked otherwise.
pub const SIGNAL_TTL_DEFAULT_MS: u64 = 30_000;

/// The longest an offer or an answer may count.
pub const SIGNAL_TTL_MAX_MS: u64 = 60_000;

const _: () = assert!(SIGNAL_TTL_DEFAULT_MS <= SIGNAL_TTL_MAX_MS);

const OFFER_DOMAIN: &str = "overlane offer";
const OFFER_DIGEST_DOMAIN: &str = "overlane offer digest";
const ANSWER_DOMAIN: &str = "overlane answer";

/// Names one signed offer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfferDigest(pub [u8; 32]);

impl fmt::Debug for OfferDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OfferDigest(")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

impl Encode for OfferDigest {
    fn encode(&self, writer: &mut Writer) {
        writer.bytes(&self.0);
    }
}

impl<'a> Decode<'a> for OfferDigest {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.byte_array().map(Self)
    }
}

/// What is established once an offer or an answer is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalFacts {
    /// The account whose node it is from: a link's peer, once DTLS proves the fingerprint.
    pub signer: Did,
}

/// What offers and answers have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Description {
    sdp: String,
    nonce: [u8; 32],
    life: Life,
    delegation: Delegation,
}

impl Description {
    const FIELDS: usize = 5;

    fn new(sdp: String, nonce: [u8; 32], life: Life, signer: &Signer) -> Result<Self, SignalError> {
        let size_bytes = sdp.len();
        if size_bytes > SDP_MAX_BYTES {
            return Err(SignalError::DescriptionTooLong { size_bytes });
        }
        let description = Self {
            sdp,
            nonce,
            life,
            delegation: Delegation::clone(signer.delegation()),
        };
        let (ttl_ms, ttl_max_ms) = (life.ttl_ms, SIGNAL_TTL_MAX_MS);
        if ttl_ms > ttl_max_ms {
            let error = LifeError::TooLong { ttl_ms, ttl_max_ms };
            return Err(description.refuse(SignalRefusal::Life(error)));
        }
        Ok(description)
    }

    /// Life and delegation, then the signature over `signed`.
    fn check(
        &self,
        signed: &[u8; 32],
        signature: &Signature,
        context: &VerifyContext,
    ) -> Result<SignalFacts, SignalError> {
        let live = self.life.check(context.now_ms, SIGNAL_TTL_MAX_MS);
        live.map_err(|error| self.refuse(SignalRefusal::Life(error)))?;
        self.delegation.check_live(context)?;
        if !self.delegation.delegatee().verifies(signed, signature) {
            return Err(self.refuse(SignalRefusal::BadSignature));
        }
        self.delegation.check_signatures()?;
        let signer = self.delegation.did();
        Ok(SignalFacts { signer })
    }

    fn refuse(&self, refusal: SignalRefusal) -> SignalError {
        let signer = self.delegation.did();
        SignalError::Refused { signer, refusal }
    }

    /// The fields as they stand in the array of an offer or an answer.
    fn encode_fields<'w>(&self, writer: &'w mut Writer) -> &'w mut Writer {
        writer.text(&self.sdp).value(&self.nonce);
        self.life.encode_fields(writer).value(&self.delegation)
    }

    fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, CborError> {
        let at = reader.at();
        let sdp = reader.text()?;
        if sdp.len() > SDP_MAX_BYTES {
            let (bound, found) = (SDP_MAX_BYTES, sdp.len());
            let reason = CborReason::OverBound { bound, found };
            return Err(CborError { at, reason });
        }
        Ok(Self {
            sdp: sdp.to_owned(),
            nonce: reader.value()?,
            life: Life::decode_fields(reader)?,
            delegation: reader.value()?,
        })
    }
}

/// What is signed: the network and the description, and the offer where it is an answer.
struct Signed<'a>(Option<OfferDigest>, &'a Description);

impl Encode for Signed<'_> {
    fn encode(&self, writer: &mut Writer) {
        let Self(offer, description) = self;
        writer
            .array(2 + Description::FIELDS)
            .value(offer)
            .value(&description.delegation.network());
        description.encode_fields(writer);
    }
}

/// `[SDP, nonce, issued_ms, ttl_ms, delegation, signature]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    description: Description,
    signature: Signature,
}

impl Offer {
    /// Signs an offer of `sdp`. The nonce is 32 random bytes, never used again.
    ///
    /// # Errors
    /// The description or the life is over its bound.
    pub fn sign(
        sdp: String,
        nonce: [u8; 32],
        life: Life,
        signer: &Signer,
    ) -> Result<Self, SignalError> {
        let description = Description::new(sdp, nonce, life, signer)?;
        let signed = transcript(OFFER_DOMAIN, &Signed(None, &description));
        Ok(Self {
            description,
            signature: signer.sign(&signed),
        })
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        to_vec(self)
    }

    /// The offer in `bytes`, whose size is judged first.
    ///
    /// # Errors
    /// Over a bound, or not the one form of an offer.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SignalError> {
        read(bytes)
    }

    /// The session description.
    pub fn sdp(&self) -> &str {
        &self.description.sdp
    }

    /// Its nonce.
    pub fn nonce(&self) -> &[u8; 32] {
        &self.description.nonce
    }

    /// When it counts.
    pub fn life(&self) -> Life {
        self.description.life
    }

    /// Its name, which an answer covers.
    pub fn digest(&self) -> OfferDigest {
        OfferDigest(transcript(OFFER_DIGEST_DOMAIN, self))
    }

    /// Checks network, lives and every signature. It must pass an [`OfferGuard`](super::OfferGuard)
    /// too.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn verify(self, context: &VerifyContext) -> Result<Verified<Self>, SignalError> {
        Verified::verify(self, context)
    }

    pub(super) fn refuse(&self, refusal: SignalRefusal) -> SignalError {
        self.description.refuse(refusal)
    }
}

impl sealed::Sealed for Offer {}

impl Checked for Offer {
    type Context<'c> = &'c VerifyContext;
    type Facts = SignalFacts;
    type Error = SignalError;

    fn check(&self, context: &VerifyContext) -> Result<SignalFacts, SignalError> {
        let signed = transcript(OFFER_DOMAIN, &Signed(None, &self.description));
        self.description.check(&signed, &self.signature, context)
    }
}

impl Verified<Offer> {
    /// The account whose node offers.
    pub fn signer(&self) -> Did {
        self.facts().signer
    }

    /// That account's public key.
    pub fn account(&self) -> &AccountKey {
        self.description.delegation.account()
    }
}

/// `[offer digest, SDP, nonce, issued_ms, ttl_ms, delegation, signature]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    offer: OfferDigest,
    description: Description,
    signature: Signature,
}

impl Answer {
    /// Signs an answer of `sdp` to the offer named `offer`.
    ///
    /// # Errors
    /// The description or the life is over its bound.
    pub fn sign(
        offer: OfferDigest,
        sdp: String,
        nonce: [u8; 32],
        life: Life,
        signer: &Signer,
    ) -> Result<Self, SignalError> {
        let description = Description::new(sdp, nonce, life, signer)?;
        let signed = transcript(ANSWER_DOMAIN, &Signed(Some(offer), &description));
        Ok(Self {
            offer,
            description,
            signature: signer.sign(&signed),
        })
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        to_vec(self)
    }

    /// The answer in `bytes`, whose size is judged first.
    ///
    /// # Errors
    /// Over a bound, or not the one form of an answer.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SignalError> {
        read(bytes)
    }

    /// The session description.
    pub fn sdp(&self) -> &str {
        &self.description.sdp
    }

    /// When it counts.
    pub fn life(&self) -> Life {
        self.description.life
    }

    /// Checks that it answers the offer named `offer`, then network, lives and every signature.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn verify(
        self,
        offer: OfferDigest,
        context: &VerifyContext,
    ) -> Result<Verified<Self>, SignalError> {
        Verified::verify(self, (offer, context))
    }
}

impl sealed::Sealed for Answer {}

impl Checked for Answer {
    type Context<'c> = (OfferDigest, &'c VerifyContext);
    type Facts = SignalFacts;
    type Error = SignalError;

    fn check(
        &self,
        (offer, context): (OfferDigest, &VerifyContext),
    ) -> Result<SignalFacts, SignalError> {
        if self.offer != offer {
            return Err(self.description.refuse(SignalRefusal::OtherOffer));
        }
        let signed = transcript(ANSWER_DOMAIN, &Signed(Some(offer), &self.description));
        self.description.check(&signed, &self.signature, context)
    }
}

impl Verified<Answer> {
    /// The account whose node answers.
    pub fn signer(&self) -> Did {
        self.facts().signer
    }

    /// That account's public key.
    pub fn account(&self) -> &AccountKey {
        self.description.delegation.account()
    }
}

fn read<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T, SignalError> {
    let size_bytes = bytes.len();
    if size_bytes > SIGNAL_MAX_BYTES {
        return Err(SignalError::Oversized { size_bytes });
    }
    from_slice(bytes).map_err(|error| match error.reason {
        CborReason::OverBound { bound, found } if bound == SDP_MAX_BYTES => {
            SignalError::DescriptionTooLong { size_bytes: found }
        }
        _ => SignalError::Malformed(error),
    })
}

impl Encode for Offer {
    fn encode(&self, writer: &mut Writer) {
        self.description
            .encode_fields(writer.array(Description::FIELDS + 1))
            .value(&self.signature);
    }
}

impl<'a> Decode<'a> for Offer {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(Description::FIELDS + 1)?;
        Ok(Self {
            description: Description::decode_fields(reader)?,
            signature: reader.value()?,
        })
    }
}

impl Encode for Answer {
    fn encode(&self, writer: &mut Writer) {
        writer.array(Description::FIELDS + 2).value(&self.offer);
        self.description
            .encode_fields(writer)
            .value(&self.signature);
    }
}

impl<'a> Decode<'a> for Answer {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(Description::FIELDS + 2)?;
        Ok(Self {
            offer: reader.value()?,
            description: Description::decode_fields(reader)?,
            signature: reader.value()?,
        })
    }
}
