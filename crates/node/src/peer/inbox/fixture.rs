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

pub(super) fn peer() -> Peer {
    let account = Account::ed25519(Zeroizing::new([1; 32])).unwrap();
    let (network, now_ms) = (NetworkId(7), NOW.wall_ms);
    let life = Life {
        issued_ms: now_ms,
        ttl_ms: DELEGATION_TTL_DEFAULT_MS,
    };
    let delegatee = Delegatee::from_seed(Zeroizing::new([2; 32]));
    let delegation = Delegation::issue(&account, &delegatee, network, life).unwrap();
    let delegation = delegation.verify(&VerifyContext { network, now_ms });
    let signer = Signer::new(delegatee, delegation.unwrap()).unwrap();
    let mut peer = Peer::new(Arc::new(signer), None, NOW);
    peer.open_inbox([3; 32], NOW);
    peer
}
