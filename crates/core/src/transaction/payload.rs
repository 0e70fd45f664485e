//! Transactions and the payloads that carry them: making, writing, reading.

use super::data::{Data, Message};
use super::error::{Role, SignError, VerifyError};
use super::header::Transcript;
use super::named::shortened;
use super::proof::{DelegationRef, PROOF_TTL_MAX_MS, Proof};
use crate::identity::{Delegation, DelegationDigest, Life, Signer, Verified};
use crate::ids::{Did, StreamKey, TransactionDigest, TxId};
use crate::wire::bounds::DATA_MAX_BYTES;
use crate::wire::cbor::{
    CborError, CborReason, Decode, Encode, Reader, Writer, from_slice, to_vec,
};
use crate::wire::frame::{Frame, PAYLOAD_MARKER};
use std::sync::Arc;

/// The most hops a route has. Source: protocol decision 7.
pub const HOP_BUDGET_MAX: u8 = 64;

/// What a payload adds to its data where it names two delegations inline.
const OVERHEAD_USUAL_BYTES: usize = 832;

/// What a sender decides about a transaction.
#[derive(Debug, Clone, Copy)]
pub struct Draft<'a> {
    /// Whom it is for.
    pub destination: Did,
    /// Its own name.
    pub tx_id: TxId,
    /// Its place in its stream. It must lie under a durable lease.
    pub sequence: u64,
    /// What it says.
    pub message: Message<'a>,
    /// When it counts.
    pub life: Life,
}

/// A [`Draft`] without what it says.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Whom it is for.
    pub destination: Did,
    /// Its own name.
    pub tx_id: TxId,
    /// Its place in its stream. It must lie under a durable lease.
    pub sequence: u64,
    /// When it counts.
    pub life: Life,
}

/// `[destination, tx_id, sequence, data, proof]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    destination: Did,
    tx_id: TxId,
    sequence: u64,
    data: Data,
    proof: Proof,
}

impl Transaction {
    /// Signs `draft` for the signer's account.
    ///
    /// # Errors
    /// The message or the proof's life is over its bound.
    pub fn sign(draft: &Draft<'_>, signer: &Signer) -> Result<Self, SignError> {
        let data = Data::parse(to_vec(&draft.message))?;
        let terms = Terms {
            destination: draft.destination,
            tx_id: draft.tx_id,
            sequence: draft.sequence,
            life: draft.life,
        };
        Self::sign_data(terms, data, signer)
    }

    /// As [`sign`](Self::sign), of data that says the message already and may be too large for one
    /// frame.
    ///
    /// # Errors
    /// The proof's life is over its bound.
    pub fn sign_data(terms: Terms, data: Data, signer: &Signer) -> Result<Self, SignError> {
        check_ttl(terms.life)?;
        let Terms {
            destination,
            tx_id,
            sequence,
            life,
        } = terms;
        let transcript = Transcript {
            network: signer.network(),
            origin: signer.did(),
            destination,
            class: data.class(),
            tx_id,
            sequence,
            data_bytes: data_bytes(&data),
            data_hash: *data.hash(),
            chunk: data.chunk().is_some(),
        };
        let proof = Proof::sign(Role::Origin.domain(), &transcript.digest(), signer, life);
        Ok(Self {
            destination,
            tx_id,
            sequence,
            data,
            proof,
        })
    }

    /// Whom it is for.
    pub fn destination(&self) -> Did {
        self.destination
    }

    /// Its own name.
    pub fn tx_id(&self) -> TxId {
        self.tx_id
    }

    /// Its place in its stream.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The signed data.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// The origin's proof.
    pub fn proof(&self) -> &Proof {
        &self.proof
    }

    /// The stream and the digest it claims. Nothing of it is verified: it is for those who made the
    /// transaction, or only pass its bytes on.
    ///
    /// # Errors
    /// Its delegation is named by digest, so its origin is not known.
    pub fn claims(&self) -> Result<(StreamKey, TransactionDigest), SignError> {
        let named = &self.proof.delegation;
        let unresolved = SignError::Unresolved(named.digest());
        let transcript = self.transcript(named.delegation().ok_or(unresolved)?);
        Ok((transcript.stream(), transcript.digest()))
    }

    pub(super) fn proof_mut(&mut self) -> &mut Proof {
        &mut self.proof
    }

    /// What the digest is over, for the origin and the network of `delegation`.
    pub(super) fn transcript(&self, delegation: &Delegation) -> Transcript {
        Transcript {
            network: delegation.network(),
            origin: delegation.did(),
            destination: self.destination,
            class: self.data.class(),
            tx_id: self.tx_id,
            sequence: self.sequence,
            data_bytes: data_bytes(&self.data),
            data_hash: *self.data.hash(),
            chunk: self.data.chunk().is_some(),
        }
    }
}

fn data_bytes(data: &Data) -> u64 {
    u64::try_from(data.as_bytes().len()).unwrap_or(u64::MAX)
}

fn check_ttl(life: Life) -> Result<(), SignError> {
    let (ttl_ms, ttl_max_ms) = (life.ttl_ms, PROOF_TTL_MAX_MS);
    if ttl_ms > ttl_max_ms {
        return Err(SignError::LifeTooLong { ttl_ms, ttl_max_ms });
    }
    Ok(())
}

impl Transaction {
    /// Writes it, with its delegation by digest if told so.
    fn write(&self, writer: &mut Writer, by_digest: bool) {
        writer
            .array(5)
            .value(&self.destination)
            .value(&self.tx_id)
            .value(&self.sequence)
            .value(&self.data);
        self.proof.write(writer, by_digest);
    }
}

impl Encode for Transaction {
    fn encode(&self, writer: &mut Writer) {
        self.write(writer, false);
    }
}

impl<'a> Decode<'a> for Transaction {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(5)?;
        Ok(Self {
            destination: reader.value()?,
            tx_id: reader.value()?,
            sequence: reader.value()?,
            data: reader.value()?,
            proof: reader.value()?,
        })
    }
}

/// How a payload travels; signed by the hop that sends it on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelayFields {
    /// The node this frame is for.
    pub next_hop: Did,
    /// The place on the ring it is routed to.
    pub destination: Did,
    /// How many hops it may still take, at most [`HOP_BUDGET_MAX`].
    pub hop_budget: u8,
    /// Whether it crossed its destination once already.
    pub handed_off: bool,
    /// The node through which its origin hears answers, where that is not the origin.
    pub reply_via: Option<Did>,
}

impl RelayFields {
    /// The fields of a payload to a neighbour: one hop, and no further.
    pub fn direct(neighbour: Did) -> Self {
        Self {
            next_hop: neighbour,
            destination: neighbour,
            hop_budget: 1,
            handed_off: false,
            reply_via: None,
        }
    }
}

impl Encode for RelayFields {
    fn encode(&self, writer: &mut Writer) {
        writer
            .array(5)
            .value(&self.next_hop)
            .value(&self.destination)
            .value(&self.hop_budget)
            .value(&self.handed_off)
            .value(&self.reply_via);
    }
}

impl<'a> Decode<'a> for RelayFields {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(5)?;
        let (next_hop, destination) = (reader.value()?, reader.value()?);
        let at = reader.at();
        let hop_budget = reader.u8()?;
        if hop_budget > HOP_BUDGET_MAX {
            return Err(Reader::invalid(at, "hop budget: over its bound"));
        }
        Ok(Self {
            next_hop,
            destination,
            hop_budget,
            handed_off: reader.value()?,
            reply_via: reader.value()?,
        })
    }
}

/// `[transaction, relay fields, hop proof]`: what crosses a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    pub(super) transaction: Transaction,
    pub(super) relay: RelayFields,
    pub(super) hop: Proof,
}

impl Payload {
    const ITEMS: usize = 3;

    /// Carries `transaction` one hop on, signed by the carrier.
    ///
    /// # Errors
    /// The transaction's delegation is not resolved, or a bound refuses the relay fields or the life.
    pub fn carry(
        transaction: Transaction,
        relay: RelayFields,
        carrier: &Signer,
        life: Life,
    ) -> Result<Self, SignError> {
        check_ttl(life)?;
        let (hops, bound) = (relay.hop_budget, HOP_BUDGET_MAX);
        if hops > bound {
            return Err(SignError::TooManyHops { hops, bound });
        }
        let origin = &transaction.proof.delegation;
        let unresolved = SignError::Unresolved(origin.digest());
        let delegation = origin.delegation().ok_or(unresolved)?;
        let digest = transaction.transcript(delegation).digest();
        let subject = HopSubject(digest, &relay);
        let hop = Proof::sign(Role::Hop.domain(), &subject, carrier, life);
        Ok(Self {
            transaction,
            relay,
            hop,
        })
    }

    /// The transaction carried.
    pub fn transaction(&self) -> &Transaction {
        &self.transaction
    }

    /// How it travels.
    pub fn relay(&self) -> &RelayFields {
        &self.relay
    }

    /// The carrier's proof.
    pub fn hop_proof(&self) -> &Proof {
        &self.hop
    }

    /// The transaction alone, to be carried again.
    pub fn into_transaction(self) -> Transaction {
        self.transaction
    }

    /// Writes the frame of this payload with each delegation by digest where `knows` says that the
    /// receiver confirmed it, and inline otherwise. A delegation that is in the frame once already is
    /// always referred to.
    pub fn to_frame(&self, knows: impl Fn(&DelegationRef) -> bool) -> Vec<u8> {
        let (origin, hop) = (&self.transaction.proof.delegation, &self.hop.delegation);
        let hop_by_digest = hop.digest() == origin.digest() || knows(hop);
        // In one piece, and none that grows: a large message is copied once.
        let data_bytes = self.transaction.data.as_bytes().len();
        let mut frame = Vec::with_capacity(data_bytes.saturating_add(OVERHEAD_USUAL_BYTES));
        frame.extend_from_slice(&PAYLOAD_MARKER);
        let mut writer = Writer::append(frame);
        writer.array(Self::ITEMS);
        self.transaction.write(&mut writer, knows(origin));
        writer.value(&self.relay);
        self.hop.write(&mut writer, hop_by_digest);
        writer.into_bytes()
    }

    /// Reads a payload from a frame.
    ///
    /// # Errors
    /// Over the size bound, not a payload frame, or not the one form of a payload.
    pub fn from_frame(frame: &[u8]) -> Result<Self, VerifyError> {
        match Frame::split(frame)? {
            Frame::Payload(body) => {
                let payload: Self = from_slice(body)?;
                let found = payload.transaction.data.as_bytes().len();
                let bound = DATA_MAX_BYTES;
                if found > bound {
                    let reason = CborReason::OverBound { bound, found };
                    return Err(CborError { at: 0, reason }.into());
                }
                Ok(payload)
            }
            Frame::Control(_) | Frame::Batch(_) => Err(VerifyError::NotPayload),
        }
    }

    /// As [`from_frame`](Self::from_frame), for a receiver that verified some delegations before: one that the frame
    /// holds whole, byte for byte as `known` gives it for its digest, is taken for that one and not decoded again.
    /// Its keys' points alone cost as much as a signature's check.
    ///
    /// # Errors
    /// As [`from_frame`](Self::from_frame).
    pub fn from_frame_knowing(
        frame: &[u8],
        known: impl Fn(DelegationDigest) -> Option<Arc<Verified<Delegation>>>,
    ) -> Result<Self, VerifyError> {
        let known = |bytes: &[u8]| {
            let known = known(DelegationDigest::of(bytes))?;
            (to_vec(&**known) == bytes).then_some(known)
        };
        // What is over a bound is refused before anything of it is hashed.
        if !matches!(Frame::split(frame)?, Frame::Payload(_)) {
            return Err(VerifyError::NotPayload);
        }
        let Some((short, [origin, hop])) = shortened(frame, known) else {
            return Self::from_frame(frame);
        };
        let mut payload = Self::from_frame(&short)?;
        for (named, known) in [
            (&mut payload.transaction.proof.delegation, origin),
            (&mut payload.hop.delegation, hop),
        ] {
            if let Some(known) = known {
                *named = DelegationRef::Known(known);
            }
        }
        Ok(payload)
    }

    /// Reads a payload that was reassembled, written as a frame is; only one too large for a frame.
    ///
    /// # Errors
    /// Not the one form of such a payload.
    pub fn from_whole(whole: &[u8]) -> Result<Self, VerifyError> {
        let body = whole.strip_prefix(&PAYLOAD_MARKER);
        let payload: Self = from_slice(body.ok_or(VerifyError::NotPayload)?)?;
        let data = &payload.transaction.data;
        if !data.is_large() || data.chunk().is_some() {
            return Err(Reader::invalid(0, "reassembled payload").into());
        }
        Ok(payload)
    }

    /// Resolves both references with what this node knows of its link. Called as the frame is read, so that
    /// waiting in a lane cannot make a reference miss.
    ///
    /// # Errors
    /// A digest that `known` does not answer.
    pub fn resolve(
        &mut self,
        known: impl Fn(&DelegationRef) -> Option<Arc<Verified<Delegation>>>,
    ) -> Result<(), VerifyError> {
        let origin = &mut self.transaction.proof.delegation;
        if let Some(known) = known(origin) {
            origin.resolve(&known);
        }
        // The carrier may refer to the delegation that this very frame carries.
        let carries_itself = matches!(self.hop.delegation, DelegationRef::Digest(digest)
            if digest == origin.digest() && origin.delegation().is_some());
        if carries_itself {
            self.hop.delegation = origin.clone();
        } else if let Some(known) = known(&self.hop.delegation) {
            self.hop.delegation.resolve(&known);
        }
        for (role, named) in [(Role::Origin, &*origin), (Role::Hop, &self.hop.delegation)] {
            if let DelegationRef::Digest(digest) = *named {
                return Err(VerifyError::UnknownDelegation { role, digest });
            }
        }
        Ok(())
    }
}

impl Encode for Payload {
    fn encode(&self, writer: &mut Writer) {
        writer
            .array(Self::ITEMS)
            .value(&self.transaction)
            .value(&self.relay)
            .value(&self.hop);
    }
}

impl<'a> Decode<'a> for Payload {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(Self::ITEMS)?;
        Ok(Self {
            transaction: reader.value()?,
            relay: reader.value()?,
            hop: reader.value()?,
        })
    }
}

/// What a hop signs.
pub(super) struct HopSubject<'a>(pub(super) TransactionDigest, pub(super) &'a RelayFields);

impl Encode for HopSubject<'_> {
    fn encode(&self, writer: &mut Writer) {
        let Self(digest, relay) = self;
        writer.array(2).value(digest).value(*relay);
    }
}
