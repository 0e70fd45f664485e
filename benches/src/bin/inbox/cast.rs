//! Accounts, and real mail between them.

use anyhow::{Result, anyhow};
use overlane_core::identity::{
    Account, Delegatee, Delegation, Life, Signer, Verified, VerifyContext,
};
use overlane_core::seal::{SEALED_NAMESPACE, SealContext, SealingKey, seal};
use overlane_core::transaction::{
    Draft, Message, Namespace, PROOF_TTL_DEFAULT_MS, Payload, RelayFields, Transaction,
};
use overlane_core::{Did, NetworkId, TxId};
use overlane_relay::log::Peer;
use zeroize::Zeroizing;

pub(crate) const NETWORK: NetworkId = NetworkId(7);
pub(crate) const NOW_MS: u64 = 1_900_000_000_000;

/// One account, with what signs for it.
pub(crate) struct Someone {
    account: Account,
    pub(crate) signer: Signer,
}

impl Someone {
    pub(crate) fn new(number: u32) -> Result<Self> {
        let number = number.to_be_bytes();
        let account = Account::ed25519(drawn(&[b"account", &number]))?;
        let delegatee = Delegatee::from_seed(drawn(&[b"delegatee", &number]));
        let life = Life {
            issued_ms: NOW_MS,
            ttl_ms: 30 * 24 * 3_600_000,
        };
        let delegation = Delegation::issue(&account, &delegatee, NETWORK, life)?;
        let signer = Signer::new(delegatee, delegation.verify(&context())?)?;
        Ok(Self { account, signer })
    }

    pub(crate) fn did(&self) -> Did {
        self.account.did()
    }

    /// As a holder sees it, in this connection slot.
    pub(crate) fn peer(&self, slot: u32) -> Peer {
        Peer {
            account: self.did(),
            slot,
        }
    }

    /// Mail number `sequence` for `to`, verified.
    pub(crate) fn mail(&self, to: &Self, sequence: u64) -> Result<Verified<Payload>> {
        let seal_context = SealContext {
            network: NETWORK,
            origin: self.did(),
            destination: to.did(),
        };
        let key = SealingKey::of_account(to.account.key()).ok_or_else(|| anyhow!("no key"))?;
        let seed = drawn(&[b"mail", &sequence.to_be_bytes(), &to.did().0]);
        let [tx_id @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = *seed;
        let chat = Namespace::new("chat")?;
        let body = seal(&key, &seal_context, chat, &[7; 160], seed)?;
        let life = Life {
            issued_ms: NOW_MS,
            ttl_ms: PROOF_TTL_DEFAULT_MS,
        };
        let draft = Draft {
            destination: to.did(),
            tx_id: TxId(tx_id),
            sequence,
            message: Message::Application {
                namespace: Namespace::new(SEALED_NAMESPACE)?,
                body: &body,
            },
            life,
        };
        let transaction = Transaction::sign(&draft, &self.signer)?;
        let relay = RelayFields::direct(to.did());
        let payload = Payload::carry(transaction, relay, &self.signer, life)?;
        payload
            .verify(&context())
            .map_err(|error| anyhow!("{error}"))
    }
}

/// 32 bytes that these alone give.
fn drawn(parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    Zeroizing::new(*hasher.finalize().as_bytes())
}

pub(crate) fn context() -> VerifyContext {
    VerifyContext {
        network: NETWORK,
        now_ms: NOW_MS,
    }
}
