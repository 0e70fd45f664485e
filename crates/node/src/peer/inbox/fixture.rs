//! A peer that keeps mail, for tests of one part of it.

use std::sync::Arc;

use overlane_core::identity::{
    Account, DELEGATION_TTL_DEFAULT_MS, Delegatee, Delegation, Life, Signer, Verified,
    VerifyContext,
};
use overlane_core::replay::Now;
use overlane_core::seal::{SEALED_NAMESPACE, SealContext, SealingKey, seal};
use overlane_core::transaction::{
    Draft, Message, Namespace, PROOF_TTL_DEFAULT_MS, Payload, RelayFields, Transaction,
};
use overlane_core::{Did, NetworkId, TxId};
use zeroize::Zeroizing;

use super::super::Peer;

pub(super) const NOW: Now = Now {
    wall_ms: 1_900_000_000_000,
    steady_ms: 1_000,
};

pub(super) const NETWORK: NetworkId = NetworkId(7);
pub(super) const AT: VerifyContext = VerifyContext {
    network: NETWORK,
    now_ms: NOW.wall_ms,
};

pub(super) fn account(seed: u8) -> Account {
    Account::ed25519(Zeroizing::new([seed; 32])).unwrap()
}

pub(super) fn signer(seed: u8) -> Arc<Signer> {
    let life = Life {
        issued_ms: NOW.wall_ms,
        ttl_ms: DELEGATION_TTL_DEFAULT_MS,
    };
    let delegatee = Delegatee::from_seed(Zeroizing::new([seed ^ 0x80; 32]));
    let delegation = Delegation::issue(&account(seed), &delegatee, NETWORK, life).unwrap();
    Arc::new(Signer::new(delegatee, delegation.verify(&AT).unwrap()).unwrap())
}

pub(super) fn peer() -> Peer {
    let mut peer = Peer::new(signer(1), None, NOW);
    peer.open_inbox([3; 32], NOW);
    peer
}

/// What one account signs for another, in this namespace.
pub(super) fn signed(from: u8, destination: Did, namespace: &str, body: &[u8]) -> Payload {
    let life = Life {
        issued_ms: NOW.wall_ms,
        ttl_ms: PROOF_TTL_DEFAULT_MS,
    };
    let draft = Draft {
        destination,
        tx_id: TxId([1; 16]),
        sequence: 1,
        message: Message::Application {
            namespace: Namespace::new(namespace).unwrap(),
            body,
        },
        life,
    };
    let signer = signer(from);
    let transaction = Transaction::sign(&draft, &signer).unwrap();
    let relay = RelayFields::direct(destination);
    Payload::carry(transaction, relay, &signer, life).unwrap()
}

/// The body of sealed mail of one account to another.
pub(super) fn sealed(from: u8, to: u8, body: &[u8]) -> Vec<u8> {
    let (origin, destination) = (account(from).did(), account(to).did());
    let context = SealContext {
        network: NETWORK,
        origin,
        destination,
    };
    let key = SealingKey::of_account(account(to).key()).unwrap();
    let chat = Namespace::new("chat").unwrap();
    seal(&key, &context, chat, body, Zeroizing::new([9; 32])).unwrap()
}

/// Sealed mail of one account to another.
pub(super) fn mail(from: u8, to: u8) -> Verified<Payload> {
    let body = sealed(from, to, b"hello");
    let payload = signed(from, account(to).did(), SEALED_NAMESPACE, &body);
    payload.verify(&AT).unwrap()
}
