//! Frames for the tests of the runtime's parts.

use overlane_core::identity::{Account, Delegatee, Delegation, Life, Signer, VerifyContext};
use overlane_core::transaction::{Data, Draft, Message, Payload, RelayFields, Transaction};
use overlane_core::wire::cbor::to_vec;
use overlane_core::{NetworkId, TxId};
use zeroize::Zeroizing;

pub(super) const NETWORK: NetworkId = NetworkId(7);

/// What is issued now and lives ten minutes.
pub(super) fn life(issued_ms: u64) -> Life {
    Life {
        issued_ms,
        ttl_ms: 600_000,
    }
}

pub(super) fn account() -> Account {
    Account::ed25519(Zeroizing::new([1; 32])).unwrap()
}

pub(super) fn signer(now_ms: u64) -> Signer {
    let delegatee = Delegatee::from_seed(Zeroizing::new([2; 32]));
    let context = VerifyContext {
        network: NETWORK,
        now_ms,
    };
    let delegation = Delegation::issue(&account(), &delegatee, NETWORK, life(now_ms)).unwrap();
    Signer::new(delegatee, delegation.verify(&context).unwrap()).unwrap()
}

/// A control message of this signer to itself.
pub(super) fn frame(signer: &Signer, life: Life) -> Vec<u8> {
    frame_of(signer, life, 1)
}

/// The control message of this signer to itself that has this sequence.
pub(super) fn frame_of(signer: &Signer, life: Life, sequence: u64) -> Vec<u8> {
    let data = Data::parse(to_vec(&Message::Control(b"work"))).unwrap();
    let destination = signer.did();
    let draft = Draft {
        destination,
        tx_id: TxId([7; 16]),
        sequence,
        message: data.message(),
        life,
    };
    let transaction = Transaction::sign(&draft, signer).unwrap();
    let relay = RelayFields::direct(destination);
    let payload = Payload::carry(transaction, relay, signer, life).unwrap();
    payload.to_frame(|_| false)
}
