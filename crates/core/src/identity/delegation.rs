//! An account's word that a delegatee signs for it, on one network, for a while.

use super::account::{ACCOUNT_SIGNATURE_MAX_BYTES, Account, AccountKey, KeyError};
use super::delegatee::{Delegatee, DelegateeKey, Signature};
use super::life::{Life, LifeError};
use super::{Checked, Verified, VerifyContext, sealed, transcript};
use crate::fault::{Coded, Fault};
use crate::ids::{Did, NetworkId};
use crate::wire::cbor::{CborError, CborReason, Decode, Encode, Reader, Writer, to_vec};
use std::fmt;

/// How long a delegation counts unless asked otherwise: 30 days.
pub const DELEGATION_TTL_DEFAULT_MS: u64 = 30 * 24 * 60 * 60 * 1_000;

/// The longest a delegation may count: a year. A lost delegatee is harmful no longer than this.
pub const DELEGATION_TTL_MAX_MS: u64 = 365 * 24 * 60 * 60 * 1_000;

const _: () = assert!(DELEGATION_TTL_DEFAULT_MS <= DELEGATION_TTL_MAX_MS);

/// Domain of the digest that names a whole delegation.
const DIGEST_DOMAIN: &str = "overlane delegation digest";

/// Domain of what the account signs.
const DELEGATION_DOMAIN: &str = "overlane delegation";

/// Domain of the delegatee's proof that it holds its key.
const POSSESSION_DOMAIN: &str = "overlane delegation possession";

/// The first 20 bytes of the BLAKE3 of a delegation: how a frame names one the receiver knows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DelegationDigest(pub [u8; 20]);

impl DelegationDigest {
    /// The digest of a delegation's bytes.
    pub(crate) fn of(delegation: &[u8]) -> Self {
        let [digest @ .., _, _, _, _, _, _, _, _, _, _, _, _] =
            blake3::derive_key(DIGEST_DOMAIN, delegation);
        Self(digest)
    }
}

impl fmt::Display for DelegationDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for DelegationDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DelegationDigest({self})")
    }
}

impl Encode for DelegationDigest {
    fn encode(&self, writer: &mut Writer) {
        writer.bytes(&self.0);
    }
}

impl<'a> Decode<'a> for DelegationDigest {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.byte_array().map(Self)
    }
}

/// A delegation. Whether it counts, [`Delegation::verify`] says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegation {
    terms: Terms,
    possession: Signature,
    account_signature: Vec<u8>,
    digest: DelegationDigest,
    did: Did,
}

/// What both keys sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) delegatee: DelegateeKey,
    pub(super) account: AccountKey,
    pub(super) network: NetworkId,
    pub(super) life: Life,
}

/// The delegatee's proof that it holds its key, under these terms.
pub(super) fn possession(terms: &Terms, delegatee: &Delegatee) -> Signature {
    delegatee.sign(&transcript(POSSESSION_DOMAIN, terms))
}

impl Delegation {
    /// Delegates from `account` to `delegatee`.
    ///
    /// # Errors
    /// The account's key cannot sign, which no account made by this crate answers.
    pub fn issue(
        account: &Account,
        delegatee: &Delegatee,
        network: NetworkId,
        life: Life,
    ) -> Result<Self, KeyError> {
        let terms = Terms {
            delegatee: delegatee.key(),
            account: account.key().clone(),
            network,
            life,
        };
        let possession = possession(&terms, delegatee);
        Self::grant(terms, possession, account)
    }

    /// Has the account sign what the delegatee did, whatever both are.
    pub(super) fn grant(
        terms: Terms,
        possession: Signature,
        account: &Account,
    ) -> Result<Self, KeyError> {
        let signed = transcript(DELEGATION_DOMAIN, &Possessed(&terms, &possession));
        let account_signature = account.sign(&signed)?;
        Ok(Self::new(terms, possession, account_signature))
    }

    fn new(terms: Terms, possession: Signature, account_signature: Vec<u8>) -> Self {
        let mut delegation = Self {
            did: terms.account.did(),
            terms,
            possession,
            account_signature,
            digest: DelegationDigest([0; 20]),
        };
        delegation.digest = DelegationDigest::of(&to_vec(&delegation));
        delegation
    }

    /// The account's place on the ring: whose streams the delegatee's signatures feed.
    pub fn did(&self) -> Did {
        self.did
    }

    /// The account's key.
    pub fn account(&self) -> &AccountKey {
        &self.terms.account
    }

    /// The key delegated to.
    pub fn delegatee(&self) -> &DelegateeKey {
        &self.terms.delegatee
    }

    /// The network it counts on.
    pub fn network(&self) -> NetworkId {
        self.terms.network
    }

    /// When it counts.
    pub fn life(&self) -> Life {
        self.terms.life
    }

    /// How frames name it.
    pub fn digest(&self) -> DelegationDigest {
        self.digest
    }

    /// Checks network, life, proof of possession and the account's signature.
    ///
    /// # Errors
    /// The first of them that fails.
    pub fn verify(self, context: &VerifyContext) -> Result<Verified<Self>, DelegationError> {
        Verified::verify(self, context)
    }

    /// Checks network and life alone: what must be asked again of a delegation verified earlier.
    ///
    /// # Errors
    /// Another network, or not live.
    pub fn check_live(&self, context: &VerifyContext) -> Result<(), DelegationError> {
        let found = self.terms.network;
        if found != context.network {
            let wanted = context.network;
            return Err(self.refuse(DelegationReason::WrongNetwork { wanted, found }));
        }
        self.check_life(context.now_ms)
    }

    /// Checks life alone.
    pub(crate) fn check_life(&self, now_ms: u64) -> Result<(), DelegationError> {
        let live = self.terms.life.check(now_ms, DELEGATION_TTL_MAX_MS);
        live.map_err(|error| self.refuse(error.into()))
    }

    /// Checks both signatures, whatever the time and the network.
    pub(crate) fn check_signatures(&self) -> Result<(), DelegationError> {
        let possessed = transcript(POSSESSION_DOMAIN, &self.terms);
        if !self.terms.delegatee.verifies(&possessed, &self.possession) {
            return Err(self.refuse(DelegationReason::WrongPossession));
        }
        let signed = transcript(DELEGATION_DOMAIN, &Possessed(&self.terms, &self.possession));
        if !self
            .terms
            .account
            .verifies(&signed, &self.account_signature)
        {
            return Err(self.refuse(DelegationReason::BadSignature));
        }
        Ok(())
    }

    fn refuse(&self, reason: DelegationReason) -> DelegationError {
        let account = self.did;
        DelegationError { account, reason }
    }
}

impl sealed::Sealed for Delegation {}

impl Checked for Delegation {
    type Context<'c> = &'c VerifyContext;
    type Facts = ();
    type Error = DelegationError;

    fn check(&self, context: &VerifyContext) -> Result<(), DelegationError> {
        self.check_live(context)?;
        self.check_signatures()
    }
}

impl Terms {
    pub(super) const FIELDS: usize = 5;

    pub(super) fn encode_fields<'w>(&self, writer: &'w mut Writer) -> &'w mut Writer {
        writer
            .value(&self.delegatee)
            .value(&self.account)
            .value(&self.network);
        self.life.encode_fields(writer)
    }

    pub(super) fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, CborError> {
        Ok(Self {
            delegatee: reader.value()?,
            account: reader.value()?,
            network: reader.value()?,
            life: Life::decode_fields(reader)?,
        })
    }
}

impl Encode for Terms {
    fn encode(&self, writer: &mut Writer) {
        self.encode_fields(writer.array(Self::FIELDS));
    }
}

/// The terms with the proof of possession: what the account signs.
struct Possessed<'a>(&'a Terms, &'a Signature);

impl Encode for Possessed<'_> {
    fn encode(&self, writer: &mut Writer) {
        let Self(terms, possession) = self;
        terms
            .encode_fields(writer.array(Terms::FIELDS + 1))
            .value(*possession);
    }
}

impl Encode for Delegation {
    fn encode(&self, writer: &mut Writer) {
        self.terms
            .encode_fields(writer.array(Terms::FIELDS + 2))
            .value(&self.possession)
            .bytes(&self.account_signature);
    }
}

impl<'a> Decode<'a> for Delegation {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(Terms::FIELDS + 2)?;
        let terms = Terms::decode_fields(reader)?;
        let possession = reader.value()?;
        let at = reader.at();
        let signature = reader.bytes()?;
        if signature.len() > ACCOUNT_SIGNATURE_MAX_BYTES {
            let reason = CborReason::OverBound {
                bound: ACCOUNT_SIGNATURE_MAX_BYTES,
                found: signature.len(),
            };
            return Err(CborError { at, reason });
        }
        Ok(Self::new(terms, possession, signature.to_vec()))
    }
}

/// A delegation that does not count, and the account it claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("delegation of {account}: {reason}")]
pub struct DelegationError {
    /// The account the delegation claims.
    pub account: Did,
    /// Why it does not count.
    pub reason: DelegationReason,
}

/// Why a delegation does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DelegationReason {
    /// For another network.
    #[error("for network {found}; this node is on {wanted}")]
    WrongNetwork {
        /// This node's network.
        wanted: NetworkId,
        /// The delegation's.
        found: NetworkId,
    },
    /// Not live.
    #[error(transparent)]
    Life(#[from] LifeError),
    /// The delegatee did not prove that it holds its key.
    #[error("the delegatee's proof of possession does not verify")]
    WrongPossession,
    /// The account did not sign it.
    #[error("the account's signature does not verify")]
    BadSignature,
}

impl Coded for DelegationError {
    fn code(&self) -> &'static str {
        match self.reason {
            DelegationReason::WrongNetwork { .. } => "delegation/wrong_network",
            DelegationReason::Life(LifeError::FromTheFuture { .. }) => "delegation/from_the_future",
            DelegationReason::Life(LifeError::Expired { .. }) => "delegation/expired",
            DelegationReason::Life(LifeError::TooLong { .. }) => "delegation/life_too_long",
            DelegationReason::WrongPossession => "delegation/wrong_possession",
            DelegationReason::BadSignature => "delegation/bad_signature",
        }
    }

    fn fault(&self) -> Fault {
        match self.reason {
            DelegationReason::Life(_) => Fault::RefusedByBound,
            _ => Fault::PeerMisbehaved,
        }
    }
}
