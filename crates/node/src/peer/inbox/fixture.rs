//! A peer that keeps mail, for tests of one part of it.

use std::sync::Arc;

use overlane_core::NetworkId;
use overlane_core::identity::{
    Account, DELEGATION_TTL_DEFAULT_MS, Delegatee, Delegation, Life, Signer, VerifyContext,
};
use overlane_core::replay::Now;
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
