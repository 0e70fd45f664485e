//! A keeper by itself, over a store in memory.

use overlane_core::TxId;
use overlane_core::identity::{
    Account, DELEGATION_TTL_DEFAULT_MS, Delegatee, Delegation, Life, Verified,
};
use overlane_core::seal::{SEALED_NAMESPACE, SealContext, SealingKey, seal};
use overlane_core::transaction::{
    Draft, Message, Namespace, PROOF_TTL_DEFAULT_MS, RelayFields, Transaction,
};
use overlane_relay::log::testkit::MemoryLogs;
use zeroize::Zeroizing;

use super::*;

const NETWORK: NetworkId = NetworkId(7);
const NOW_MS: u64 = 1_900_000_000_000;
const AT: VerifyContext = VerifyContext {
    network: NETWORK,
    now_ms: NOW_MS,
};

fn account(seed: u8) -> Account {
    Account::ed25519(Zeroizing::new([seed; 32])).unwrap()
}

fn signer(seed: u8) -> Arc<Signer> {
    let delegatee = Delegatee::from_seed(Zeroizing::new([seed ^ 0x80; 32]));
    let life = Life {
        issued_ms: NOW_MS,
        ttl_ms: DELEGATION_TTL_DEFAULT_MS,
    };
    let delegation = Delegation::issue(&account(seed), &delegatee, NETWORK, life).unwrap();
    Arc::new(Signer::new(delegatee, delegation.verify(&AT).unwrap()).unwrap())
}

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
        issued_ms: NOW_MS,
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

/// Whom the owner of an inbox is told by of mail, as a chain comes to be known that is this.
fn announced(chain: &[Did]) -> bool {
    let (own, owner) = (account(2).did(), account(3).did());
    let mut keeper = Keeper::open(MemoryLogs::default(), NETWORK, own, 10, NOW_MS).unwrap();
    let mut told = |job| {
        keeper.handle(Work {
            job,
            now_ms: NOW_MS,
            holds_place: false,
        });
        keeper.flush(NOW_MS)
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
