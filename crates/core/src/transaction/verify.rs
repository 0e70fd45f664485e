//! What verification of a payload establishes.

use super::chunk::ChunkHead;
use super::data::{Data, Message};
use super::error::{Role, VerifyError};
use super::header::SignedHeader;
use super::payload::{HopSubject, Payload};
use super::proof::DelegationRef;
use crate::identity::{Checked, Delegation, Verified, VerifyContext, sealed};
use crate::ids::{Class, Did, StreamKey, TransactionDigest};
use std::sync::Arc;

/// What the checks of a payload establish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadFacts {
    stream: StreamKey,
    digest: TransactionDigest,
    origin: Arc<Verified<Delegation>>,
    hop: Arc<Verified<Delegation>>,
    /// What a sealed message says, once it was opened.
    opened: Option<Arc<Data>>,
}

impl Payload {
    /// Checks both proofs and both delegations: network, lives and every signature. References must
    /// have been resolved ([`Payload::resolve`]), but for a carrier's to the delegation in the frame.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn verify(self, context: &VerifyContext) -> Result<Verified<Self>, VerifyError> {
        Verified::verify(self, context)
    }
}

impl sealed::Sealed for Payload {}

impl Checked for Payload {
    type Context<'c> = &'c VerifyContext;
    type Facts = PayloadFacts;
    type Error = VerifyError;

    fn check(&self, context: &VerifyContext) -> Result<PayloadFacts, VerifyError> {
        let proof = self.transaction.proof();
        let claimed = proof.delegation();
        let unknown = VerifyError::UnknownDelegation {
            role: Role::Origin,
            digest: claimed.digest(),
        };
        let transcript = self
            .transaction
            .transcript(claimed.delegation().ok_or(unknown)?);
        let digest = transcript.digest();

        // The carrier's first: what fails is its own doing, and what only fails afterwards it may have
        // been given.
        let subject = HopSubject(digest, &self.relay);
        let mut hop_proof = self.hop.clone();
        if hop_proof.delegation.digest() == claimed.digest() {
            hop_proof.delegation = claimed.clone();
        }
        let hop = hop_proof.check(Role::Hop, &subject, context)?;
        let mut proof = proof.clone();
        // One delegation under both proofs is verified once.
        proof.delegation.resolve(&hop);
        let origin = proof.check(Role::Origin, &digest, context)?;
        Ok(PayloadFacts {
            stream: transcript.stream(),
            digest,
            origin,
            hop,
            opened: None,
        })
    }
}

impl Verified<Payload> {
    /// The stream it belongs to.
    pub fn stream(&self) -> StreamKey {
        self.facts().stream
    }

    /// The account that signed it.
    pub fn origin(&self) -> Did {
        self.facts().stream.origin
    }

    /// Its class, by its signed data.
    pub fn class(&self) -> Class {
        self.facts().stream.class
    }

    /// Its place in its stream.
    pub fn sequence(&self) -> u64 {
        self.transaction.sequence()
    }

    /// Its digest.
    pub fn digest(&self) -> TransactionDigest {
        self.facts().digest
    }

    /// The size of its signed data, which is what quota is paid for.
    pub fn data_bytes(&self) -> usize {
        self.transaction.data().as_bytes().len()
    }

    /// Which part of which message it is, if it is no whole one. It is then reassembled, and not
    /// admitted.
    pub fn chunk(&self) -> Option<&ChunkHead> {
        self.transaction.data().chunk()
    }

    /// What it says: of a sealed message that was opened
    /// ([`Admitted::open`](crate::replay::Admitted::open)), what was inside.
    pub fn message(&self) -> Message<'_> {
        let opened = self.facts().opened.as_deref();
        opened.unwrap_or(self.transaction.data()).message()
    }

    /// Whether it was sealed and is open.
    pub fn is_open(&self) -> bool {
        self.facts().opened.is_some()
    }

    pub(crate) fn set_open(&mut self, message: Data) {
        self.facts_mut().opened = Some(Arc::new(message));
    }

    /// The last instant at which it can be verified: of its proof or its delegation, the earlier.
    pub fn last_ms(&self) -> u64 {
        let delegation = self.facts().origin.life().last_ms();
        self.transaction.proof().life().last_ms().min(delegation)
    }

    /// The account that carried it here.
    pub fn hop(&self) -> Did {
        self.facts().hop.did()
    }

    /// The origin's delegation, for the receiver's table.
    pub fn origin_delegation(&self) -> &Arc<Verified<Delegation>> {
        &self.facts().origin
    }

    /// The carrier's delegation, for the receiver's table.
    pub fn hop_delegation(&self) -> &Arc<Verified<Delegation>> {
        &self.facts().hop
    }

    /// All of the transaction but its data: what a fork is proven with.
    pub fn header(&self) -> SignedHeader {
        let proof = self.transaction.proof();
        SignedHeader {
            destination: self.transaction.destination(),
            class: self.class(),
            tx_id: self.transaction.tx_id(),
            sequence: self.sequence(),
            data_bytes: u64::try_from(self.data_bytes()).unwrap_or(u64::MAX),
            data_hash: *self.transaction.data().hash(),
            delegation: Delegation::clone(&self.facts().origin),
            life: proof.life(),
            signature: proof.signature,
        }
    }

    /// The payload with both delegations verified, to be carried on.
    pub fn into_payload(self) -> Payload {
        let (origin, hop) = (
            Arc::clone(&self.facts().origin),
            Arc::clone(&self.facts().hop),
        );
        let mut payload = self.into_inner();
        payload.transaction.proof_mut().delegation = DelegationRef::Known(origin);
        payload.hop.delegation = DelegationRef::Known(hop);
        payload
    }
}
