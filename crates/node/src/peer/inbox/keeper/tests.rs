//! A keeper by itself, over a store in memory.

use overlane_core::mail::{MAIL_DATA_MAX_BYTES, MAIL_LIFE_DEFAULT_MS, Mail};
use overlane_core::seal::SEALED_NAMESPACE;
use overlane_core::transaction::PROOF_TTL_DEFAULT_MS;
use overlane_relay::log::testkit::MemoryLogs;

use super::super::fixture::{AT, NETWORK, NOW, account, mail, sealed, signed, signer};
use super::*;
use crate::policy::{Decision, Policy};

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

/// Reads of the store for one inbox more, beside so many that are held; where the whole is told each time, if so.
fn reads_for_one_more(inboxes: u32, tells_all: bool) -> u64 {
    let own = account(2).did();
    let mut keeper = Keeper::open(MemoryLogs::default(), NETWORK, own, 10, NOW.wall_ms).unwrap();
    let mut one_more = |number: u32, tells_all: bool| {
        let mut owner = [7; 20];
        owner[..4].copy_from_slice(&number.to_be_bytes());
        let job = Job::Chain {
            owner: Did(owner),
            chain: vec![own],
            former: Vec::new(),
            asked: Vec::new(),
        };
        let before = keeper.inboxes().logs().store().reads;
        keeper.tells_holdings = tells_all;
        keeper.handle(Work {
            job,
            now_ms: NOW.wall_ms,
            holds_place: false,
        });
        let told = keeper.flush(NOW.wall_ms);
        assert!(!told.is_empty(), "it is told that it is here");
        keeper.inboxes().logs().store().reads - before
    };
    for number in 0..inboxes {
        one_more(number, false);
    }
    one_more(inboxes, tells_all)
}

#[test]
fn law_mail_for_one_more_costs_the_same_however_many_are_away() {
    // More than have their accounts in memory.
    let (some, more) = (1_100, 2_200);
    assert_eq!(
        reads_for_one_more(some, false),
        reads_for_one_more(more, false)
    );
    // Where all that is held is told for each, it grows.
    let of_all = reads_for_one_more(more, true);
    assert!(of_all > u64::from(more), "{of_all}");
}

#[test]
fn mail_that_its_store_fails_to_keep_is_refused_by_name_and_all_that_comes_behind_it() {
    let (own, owner, from) = (account(2).did(), account(3).did(), account(1).did());
    let mut store = MemoryLogs::default();
    store.fail_at = Some((1, false));
    let mut keeper = Keeper::open(store, NETWORK, own, 10, NOW.wall_ms).unwrap();
    let mut told = || {
        keeper.handle(Work {
            job: Job::Deposit {
                payload: mail(1, 3).to_frame(|_| false),
                by: Bringer {
                    account: from,
                    slot: 1,
                },
                owner,
                chain: vec![own],
                signer: signer(2),
            },
            now_ms: NOW.wall_ms,
            holds_place: true,
        });
        keeper.flush(NOW.wall_ms)
    };
    let digest = mail(1, 3).digest();
    let refused = |it: &Told| matches!(it, Told::Refused(to, of, "inbox/store_failed") if (*to, *of) == (from, digest));
    let first = told();
    assert!(
        matches!(&first[..], [it, Told::Failed(_), Told::Done(1)] if refused(it)),
        "{first:?}"
    );
    let next = told();
    assert!(
        matches!(&next[..], [it, Told::Done(1)] if refused(it)),
        "{next:?}"
    );
}

/// With what code a holder of account 3's inbox refuses what account 1 brings, and that it holds none of it.
fn refused_with(frame: Vec<u8>, now_ms: u64) -> &'static str {
    let (own, owner, by) = (account(2).did(), account(3).did(), account(1).did());
    let mut keeper = Keeper::open(MemoryLogs::default(), NETWORK, own, 10, NOW.wall_ms).unwrap();
    let (to, digest) = claims(&frame).unwrap();
    keeper.handle(Work {
        job: Job::Deposit {
            payload: frame,
            by: Bringer {
                account: by,
                slot: 1,
            },
            owner: to,
            chain: if to == owner { vec![own] } else { vec![to] },
            signer: signer(2),
        },
        now_ms,
        holds_place: true,
    });
    let told = keeper.flush(now_ms);
    assert_eq!(keeper.inboxes().held(&to).unwrap(), 0);
    let receipts = told.iter().filter(|it| matches!(it, Told::Say(..)));
    assert_eq!(receipts.count(), 0, "{told:?}");
    let mut refused = told.iter().filter_map(|it| match it {
        Told::Refused(to, of, code) if (*to, *of) == (by, digest) => Some(*code),
        _ => None,
    });
    let code = refused.next().expect("who brought it hears why");
    assert_eq!(refused.next(), None, "once");
    code
}

#[test]
fn mail_that_is_no_mail_is_refused_by_name_to_who_brought_it() {
    let owner = account(3).did();
    let frame = |payload: Payload| payload.verify(&AT).unwrap().to_frame(|_| false);
    let now_ms = NOW.wall_ms;
    let good = mail(1, 3).to_frame(|_| false);
    let mut forged = good.clone();
    *forged.last_mut().unwrap() ^= 1;
    let late_ms = now_ms + PROOF_TTL_DEFAULT_MS + 1;
    let body = sealed(1, 3, &[7; MAIL_DATA_MAX_BYTES]);
    let large = signed(1, owner, SEALED_NAMESPACE, &body);
    let codes = [
        refused_with(forged, now_ms),
        refused_with(good, late_ms),
        refused_with(frame(large), now_ms),
        refused_with(frame(signed(1, owner, "chat", b"in the open")), now_ms),
        refused_with(mail(1, 4).to_frame(|_| false), now_ms),
    ];
    let expected = [
        "payload/bad_signature",
        "payload/expired",
        "mail/too_large",
        "mail/not_sealed",
        "inbox/not_a_holder",
    ];
    assert_eq!(codes, expected);
}
