//! A keeper by itself, over a store in memory.

use overlane_core::TxId;
use overlane_core::identity::{Life, Verified};
use overlane_core::seal::{SEALED_NAMESPACE, SealContext, SealingKey, seal};
use overlane_core::transaction::{
    Draft, Message, Namespace, PROOF_TTL_DEFAULT_MS, RelayFields, Transaction,
};
use overlane_relay::log::testkit::MemoryLogs;
use zeroize::Zeroizing;

use super::super::fixture::{AT, NETWORK, NOW, account, signer};
use super::*;

/// Sealed mail of one account to another.
fn mail(from: u8, to: u8) -> Verified<Payload> {
    let (origin, destination) = (account(from).did(), account(to).did());
    let context = SealContext {
        network: NETWORK,
        origin,
        destination,
    };
    let key = SealingKey::of_account(account(to).key()).unwrap();
    let chat = Namespace::new("chat").unwrap();
    let body = seal(&key, &context, chat, b"hello", Zeroizing::new([9; 32])).unwrap();
    let life = Life {
        issued_ms: NOW.wall_ms,
        ttl_ms: PROOF_TTL_DEFAULT_MS,
    };
    let draft = Draft {
        destination,
        tx_id: TxId([1; 16]),
        sequence: 1,
        message: Message::Application {
            namespace: Namespace::new(SEALED_NAMESPACE).unwrap(),
            body: &body,
        },
        life,
    };
    let signer = signer(from);
    let transaction = Transaction::sign(&draft, &signer).unwrap();
    let relay = RelayFields::direct(destination);
    let payload = Payload::carry(transaction, relay, &signer, life).unwrap();
    payload.verify(&AT).unwrap()
}

/// Whether the owner is told of mail that is held here, once it is known that this is its chain.
fn announced(chain: &[Did]) -> bool {
    let (own, owner) = (account(2).did(), account(3).did());
    let mut keeper = Keeper::open(MemoryLogs::default(), NETWORK, own, 10, NOW.wall_ms).unwrap();
    let mut told = |job| {
        keeper.handle(Work {
            job,
            now_ms: NOW.wall_ms,
            holds_place: false,
        });
        keeper.flush(NOW.wall_ms)
    };
    let held = told(Job::Deposit {
        payload: mail(1, 3).to_frame(|_| false),
        by: Bringer {
            account: account(1).did(),
            slot: 1,
        },
        owner,
        chain: vec![own],
        signer: signer(2),
    });
    let receipt = |it: &Told| matches!(it, Told::Say(to, _) if *to == account(1).did());
    assert!(held.iter().any(receipt), "{held:?}");
    let told = told(Job::Chain {
        owner,
        chain: chain.to_vec(),
        former: Vec::new(),
        asked: Vec::new(),
    });
    let frame = Frame::Announce(owner).to_bytes();
    told.iter()
        .any(|it| matches!(it, Told::Say(to, said) if *to == owner && *said == frame))
}

/// One that was cut off with a ring of its own took mail; those who hold the inbox never knew it as a holder
/// and take nothing from it. Its owner hears of it.
#[test]
fn who_holds_mail_beside_the_chain_tells_its_owner() {
    let other = account(4).did();
    assert!(announced(&[other]));
    // Whom the ring names is asked by the owner anyway.
    assert!(!announced(&[other, account(2).did()]));
}
