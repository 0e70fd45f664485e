//! What a node signs with: its account, and the delegatee that is rotated.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use overlane_core::identity::{
    Account, AccountKey, CLOCK_SKEW_MS, Delegatee, Delegation, Life, Signer, VerifyContext,
};
use overlane_core::seal::{self, SEALED_NAMESPACE, SealContext, SealError, SealingSecret};
use overlane_core::transaction::{
    Data, Draft, Message, Namespace, PROOF_TTL_DEFAULT_MS, Payload, RelayFields, SignError,
    Transaction,
};
use overlane_core::{Did, NetworkId, TransactionDigest, TxId};
use zeroize::Zeroizing;

use super::clock::Clock;
use crate::error::NodeError;
use crate::link::LinkIdentity;
use crate::peer::SealSeed;

/// Who a node speaks for, and the signer that speaks for it now.
pub(crate) struct Identity {
    own: Own,
    network: NetworkId,
    signer: RwLock<Arc<Signer>>,
    sealing: Arc<SealingSecret>,
    nonces: Nonces,
}

enum Own {
    /// The account itself, which signs for each delegatee that follows.
    Account { account: Box<Account>, ttl_ms: u64 },
    /// An account that is kept elsewhere: what it signed is all there is of it.
    Delegated(Box<AccountKey>),
}

/// Numbers nobody can foresee, none twice: a keyed hash of a counter, under a key drawn at the
/// start. So only the start can fail for want of randomness.
struct Nonces {
    key: Zeroizing<[u8; 32]>,
    drawn: AtomicU64,
}

impl Identity {
    /// An identity with a fresh delegatee.
    ///
    /// # Errors
    /// [`NodeError::Random`], [`NodeError::Delegation`].
    pub(crate) fn new(
        account: Account,
        network: NetworkId,
        ttl_ms: u64,
    ) -> Result<Self, NodeError> {
        let signer = issue(&account, network, ttl_ms)?;
        let sealing = SealingSecret::for_account(&account).map_err(|error| {
            let cause = error.to_string();
            NodeError::Delegation { cause }
        })?;
        let account = Box::new(account);
        Self::of(Own::Account { account, ttl_ms }, network, signer, sealing)
    }

    /// An identity of an account that is kept elsewhere.
    ///
    /// # Errors
    /// [`NodeError::Random`]; [`NodeError::NotDelegated`]: what the account signed does not count here and now.
    pub(crate) fn delegated(
        signer: Signer,
        sealing: SealingSecret,
        network: NetworkId,
    ) -> Result<Self, NodeError> {
        let now_ms = Clock::wall_ms();
        let delegation = signer.delegation();
        delegation.check_live(&VerifyContext { network, now_ms })?;
        let own = Own::Delegated(Box::new(delegation.account().clone()));
        Self::of(own, network, Arc::new(signer), sealing)
    }

    fn of(
        own: Own,
        network: NetworkId,
        signer: Arc<Signer>,
        sealing: SealingSecret,
    ) -> Result<Self, NodeError> {
        let mut key = Zeroizing::new([0; 32]);
        super::random(&mut *key)?;
        let drawn = AtomicU64::new(0);
        Ok(Self {
            sealing: Arc::new(sealing),
            nonces: Nonces { key, drawn },
            own,
            network,
            signer: RwLock::new(signer),
        })
    }

    /// The account's place.
    pub(crate) fn did(&self) -> Did {
        self.account().did()
    }

    /// The account's public key.
    pub(crate) fn account(&self) -> &AccountKey {
        match &self.own {
            Own::Account { account, .. } => account.key(),
            Own::Delegated(account) => account,
        }
    }

    /// What opens what is sealed to the account's own key; `None` for an account of a kind that has no such
    /// key, and for one that is kept elsewhere.
    pub(crate) fn sealing_secret(&self) -> Option<SealingSecret> {
        match &self.own {
            Own::Account { account, .. } => SealingSecret::of_account(account),
            Own::Delegated(_) => None,
        }
    }

    /// The network signed for.
    pub(crate) fn network(&self) -> NetworkId {
        self.network
    }

    /// 32 bytes that nobody can foresee, never the same twice.
    pub(crate) fn nonce(&self) -> [u8; 32] {
        let drawn = self.nonces.drawn.fetch_add(1, Ordering::Relaxed);
        *blake3::keyed_hash(&self.nonces.key, &drawn.to_le_bytes()).as_bytes()
    }

    /// What opens messages sealed to the account.
    pub(crate) fn sealing(&self) -> Arc<SealingSecret> {
        Arc::clone(&self.sealing)
    }

    /// What one message is sealed with.
    pub(crate) fn seal_seed(&self) -> SealSeed {
        SealSeed::new(Zeroizing::new(self.nonce()))
    }

    /// A transaction's own name.
    pub(crate) fn tx_id(&self) -> TxId {
        let [name @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = self.nonce();
        TxId(name)
    }

    /// What signs now.
    pub(crate) fn signer(&self) -> Arc<Signer> {
        let signer = self.signer.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&signer)
    }

    /// Draws another delegatee and delegates to it; it signs from now on.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`NodeError::Delegated`] where the account is kept elsewhere. What signed before
    /// still does.
    pub(crate) fn rotate(&self) -> Result<Arc<Signer>, NodeError> {
        let Own::Account { account, ttl_ms } = &self.own else {
            return Err(NodeError::Delegated);
        };
        let fresh = issue(account, self.network, *ttl_ms)?;
        let mut signer = self.signer.write().unwrap_or_else(PoisonError::into_inner);
        *signer = Arc::clone(&fresh);
        Ok(fresh)
    }

    /// Signs with this from now on: what the account, which is kept elsewhere, signed for since.
    ///
    /// # Errors
    /// [`NodeError::OtherAccount`]: it is of another account or network, or this node has its account's own key;
    /// [`NodeError::NotDelegated`]: it does not count now. What signed before still does.
    pub(crate) fn renew(&self, fresh: Signer) -> Result<Arc<Signer>, NodeError> {
        let delegation = fresh.delegation();
        let same = match &self.own {
            Own::Delegated(account) => delegation.account() == &**account,
            Own::Account { .. } => false,
        };
        if !same || fresh.network() != self.network {
            return Err(NodeError::OtherAccount);
        }
        let (network, now_ms) = (self.network, Clock::wall_ms());
        delegation.check_live(&VerifyContext { network, now_ms })?;
        let fresh = Arc::new(fresh);
        let mut signer = self.signer.write().unwrap_or_else(PoisonError::into_inner);
        *signer = Arc::clone(&fresh);
        Ok(fresh)
    }

    /// Opens what is sealed to this account.
    ///
    /// # Errors
    /// [`SealError`]
    pub(crate) fn open(&self, context: &SealContext, sealed: &[u8]) -> Result<Data, SealError> {
        seal::open(&self.sealing, context, sealed)
    }

    /// So many sealed items for this account, by one that was made for them and is forgotten.
    ///
    /// # Errors
    /// [`NodeError::Random`], [`NodeError::Delegation`].
    pub(crate) fn probes(
        &self,
        count: usize,
    ) -> Result<Vec<(TransactionDigest, Vec<u8>)>, NodeError> {
        let refused = |cause: String| NodeError::Delegation { cause };
        let mut secret = Zeroizing::new([0; 32]);
        super::random(&mut *secret)?;
        let origin = Account::ed25519(secret).map_err(|error| refused(error.to_string()))?;
        let signer = issue(&origin, self.network, PROOF_TTL_DEFAULT_MS)?;
        let context = SealContext {
            network: self.network,
            origin: origin.did(),
            destination: self.did(),
        };
        let key = self.sealing.key();
        let (probe, sealed) = (Namespace::new("probe"), Namespace::new(SEALED_NAMESPACE));
        let (Ok(probe), Ok(sealed)) = (probe, sealed) else {
            return Err(refused("a namespace is too long".to_owned()));
        };
        let life = Life {
            issued_ms: Clock::wall_ms(),
            ttl_ms: PROOF_TTL_DEFAULT_MS,
        };
        let one = |sequence| {
            let seed = Zeroizing::new(self.nonce());
            let body = seal::seal(&key, &context, probe, b"probe", seed);
            let body = body.map_err(|error| refused(error.to_string()))?;
            let draft = Draft {
                destination: self.did(),
                tx_id: self.tx_id(),
                sequence,
                message: Message::Application {
                    namespace: sealed,
                    body: &body,
                },
                life,
            };
            let refused = |error: SignError| refused(error.to_string());
            let transaction = Transaction::sign(&draft, &signer).map_err(refused)?;
            let (_, digest) = transaction.claims().map_err(refused)?;
            let relay = RelayFields::direct(self.did());
            let payload = Payload::carry(transaction, relay, &signer, life).map_err(refused)?;
            Ok((digest, payload.to_frame(|_| false)))
        };
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        (0..count).map(one).collect()
    }

    /// Whether the account of this node is here to sign for delegatees.
    pub(crate) fn renews_itself(&self) -> bool {
        matches!(self.own, Own::Account { .. })
    }

    /// Whether another delegatee is due, which the account of this node could sign for.
    pub(crate) fn is_rotation_due(&self, wall_ms: u64) -> bool {
        self.renews_itself() && is_rotation_due(self.signer().delegation().life(), wall_ms)
    }
}

/// Whether a delegation of this life is to be followed by another: half of it is over, or the clock
/// ran ahead when it was issued and is right now, so that nobody else takes it yet.
pub(crate) fn is_rotation_due(life: Life, wall_ms: u64) -> bool {
    let ahead = life.issued_ms > wall_ms.saturating_add(CLOCK_SKEW_MS);
    ahead || wall_ms.saturating_sub(life.issued_ms) >= life.ttl_ms / 2
}

fn issue(account: &Account, network: NetworkId, ttl_ms: u64) -> Result<Arc<Signer>, NodeError> {
    let mut seed = Zeroizing::new([0; 32]);
    super::random(&mut *seed)?;
    let delegatee = Delegatee::from_seed(seed);
    let now_ms = Clock::wall_ms();
    let life = Life {
        issued_ms: now_ms,
        ttl_ms,
    };
    let refused = |cause: String| NodeError::Delegation { cause };
    let delegation = Delegation::issue(account, &delegatee, network, life)
        .map_err(|error| refused(error.to_string()))?
        .verify(&VerifyContext { network, now_ms })
        .map_err(|error| refused(error.to_string()))?;
    let signer = Signer::new(delegatee, delegation).map_err(|error| refused(error.to_string()))?;
    Ok(Arc::new(signer))
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("did", &self.did())
            .field("network", &self.network)
            .finish_non_exhaustive()
    }
}

impl LinkIdentity for Identity {
    fn signer(&self) -> Signer {
        Signer::clone(&Identity::signer(self))
    }

    fn now_ms(&self) -> u64 {
        Clock::wall_ms()
    }

    fn nonce(&self) -> [u8; 32] {
        Identity::nonce(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node that starts under a clock ahead of time is refused by all others, as from the future,
    /// until it signs under a delegation of now.
    #[test]
    fn a_delegation_from_the_future_is_followed_by_one_of_now() {
        let life = Life {
            issued_ms: 1_900_000_000_000,
            ttl_ms: 1_000_000,
        };
        let due = |wall_ms| is_rotation_due(life, wall_ms);
        assert!(due(life.issued_ms - CLOCK_SKEW_MS - 1));
        assert!(!due(life.issued_ms - CLOCK_SKEW_MS));
        assert!(!due(life.issued_ms + life.ttl_ms / 2 - 1));
        assert!(due(life.issued_ms + life.ttl_ms / 2));
    }
}
