//! A keeper by itself, over a store in memory.

use overlane_core::TxId;
use overlane_core::identity::{Life, Verified};
use overlane_core::mail::MAIL_LIFE_DEFAULT_MS;
use overlane_core::seal::{SEALED_NAMESPACE, SealContext, SealingKey, seal};
use overlane_core::transaction::{
    Draft, Message, Namespace, PROOF_TTL_DEFAULT_MS, RelayFields, Transaction,
};
use overlane_relay::log::testkit::MemoryLogs;
use zeroize::Zeroizing;

use super::super::fixture::{AT, NETWORK, NOW, account, signer};
use super::*;
use crate::policy::{Decision, Policy};

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

/// Holds what this account brings, and nothing else.
struct HoldsOf(Did);

impl Policy for HoldsOf {
    fn before_hold(&self, mail: &Holding) -> Decision {
        assert_eq!(mail.owner, account(3).did());
        match mail.by == self.0 {
            true => Decision::Allow,
            false => Decision::Refuse,
        }
    }
}

/// What comes of mail that another holder of the same inbox hands on.
fn handed_on(policy: HoldsOf) -> (Vec<Told>, u64) {
    let (own, owner, other) = (account(2).did(), account(3).did(), account(4).did());
    let mut keeper = Keeper::open(MemoryLogs::default(), NETWORK, own, 10, NOW.wall_ms).unwrap();
    keeper.ask_policy(Policies::of(policy));
    let held = Mail::hold(mail(1, 3), &signer(4), NOW.wall_ms, MAIL_LIFE_DEFAULT_MS).unwrap();
    let envelope = held.to_held().to_bytes();
    let frame = LogFrame::Send {
        log: LogId::inbox(&owner),
        envelope: &envelope,
    };
    for job in [
        Job::Chain {
            owner,
            chain: vec![own, other],
            former: Vec::new(),
            asked: Vec::new(),
        },
        Job::Log {
            by: Bringer {
                account: other,
                slot: 2,
            },
            frame: frame.to_bytes(),
        },
    ] {
        keeper.handle(Work {
            job,
            now_ms: NOW.wall_ms,
            holds_place: false,
        });
    }
    let told = keeper.flush(NOW.wall_ms);
    let held = keeper.inboxes().held(&owner).unwrap();
    (told, held)
}

/// The policy is asked about what other holders hand on, too; who handed on hears that it was refused, and keeps it.
#[test]
fn mail_that_is_handed_on_is_held_if_the_policy_lets_it() {
    let other = account(4).did();
    let said = |told: &[Told], refused: bool| {
        told.iter().any(|it| match it {
            Told::SayLog(to, frame) if *to == other => match LogFrame::from_bytes(frame) {
                Ok(LogFrame::Refuse { code, .. }) => refused && code == "policy/refused_mail",
                Ok(LogFrame::SendAck { .. }) => !refused,
                _ => false,
            },
            _ => false,
        })
    };
    let counted = |it: &Told| matches!(it, Told::NotLetIn("policy/refused_mail"));
    let (told, held) = handed_on(HoldsOf(other));
    assert!(held == 1 && said(&told, false), "{told:?}");
    assert!(!told.iter().any(counted), "{told:?}");
    let (told, held) = handed_on(HoldsOf(account(1).did()));
    assert!(held == 0 && said(&told, true), "{told:?}");
    assert_eq!(told.iter().filter(|it| counted(it)).count(), 1, "{told:?}");
}
