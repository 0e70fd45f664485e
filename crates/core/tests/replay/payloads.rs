//! Real payloads: signed, verified, admitted; and the evidence of a fork.

use overlane_core::identity::{
    Account, Delegatee, Delegation, Life, Signer, Verified, VerifyContext,
};
use overlane_core::replay::record::{Record, Table};
use overlane_core::replay::{
    Engine, EngineConfig, FORK_LOG_CAPACITY, HEADER_RING_CAPACITY, Introducer, Outcome, Refusal,
};
use overlane_core::store::Scan;
use overlane_core::transaction::{
    Accepted, Draft, ForkEvidence, Message, Namespace, Payload, RelayFields, Transaction,
};
use overlane_core::wire::cbor::from_slice;
use overlane_core::{Did, NetworkId, TxId};
use zeroize::Zeroizing;

use crate::support::{Disk, START};

const NETWORK: NetworkId = NetworkId(3);
const CONTEXT: VerifyContext = VerifyContext {
    network: NETWORK,
    now_ms: START.wall_ms,
};
const LIFE: Life = Life {
    issued_ms: START.wall_ms,
    ttl_ms: 600_000,
};

type Payloads = Engine<Verified<Payload>>;

fn signer(seed: u8) -> Signer {
    let account = Account::ed25519(Zeroizing::new([seed; 32])).unwrap();
    let delegatee = Delegatee::from_seed(Zeroizing::new([seed + 100; 32]));
    let delegation = Delegation::issue(&account, &delegatee, NETWORK, LIFE).unwrap();
    Signer::new(delegatee, delegation.verify(&CONTEXT).unwrap()).unwrap()
}

fn payload(from: &Signer, to: Did, sequence: u64, body: &[u8]) -> Verified<Payload> {
    let draft = Draft {
        destination: to,
        tx_id: TxId([1; 16]),
        sequence,
        message: Message::Application {
            namespace: Namespace::new("chat").unwrap(),
            body,
        },
        life: LIFE,
    };
    let transaction = Transaction::sign(&draft, from).unwrap();
    let payload = Payload::carry(transaction, RelayFields::direct(to), from, LIFE).unwrap();
    payload.verify(&CONTEXT).unwrap()
}

struct Here {
    signer: Signer,
    engine: Payloads,
    disk: Disk,
}

impl Here {
    fn new() -> Self {
        Self {
            signer: signer(1),
            engine: Engine::restore(EngineConfig::default(), Scan::default(), START),
            disk: Disk::default(),
        }
    }

    fn settle(&mut self) -> Outcome<Verified<Payload>> {
        while let Some(batch) = self.engine.take_batch() {
            batch.changes.iter().for_each(|it| self.disk.apply(it));
            self.engine.batch_done(batch.id, Ok(())).unwrap();
        }
        self.engine.poll_outcome().unwrap().1
    }

    fn admit(&mut self, payload: Verified<Payload>) -> Outcome<Verified<Payload>> {
        self.engine.stage_admission(payload, Introducer::Own, START);
        self.settle()
    }

    /// Reports the fork that this refusal is, as a node does.
    fn report(&self, outcome: Outcome<Verified<Payload>>) -> Verified<ForkEvidence> {
        let Outcome::Refused {
            refusal: Refusal::Fork(forked),
            item: Some(offered),
        } = outcome
        else {
            panic!("{outcome:?}")
        };
        let accepted = match forked.accepted_header {
            Some(header) => Accepted::Header(Box::new(from_slice(&header).unwrap())),
            None => Accepted::Digest(forked.accepted),
        };
        let evidence =
            ForkEvidence::report(accepted, offered.header(), &self.signer, START.wall_ms);
        evidence.verify().unwrap()
    }
}

#[test]
fn what_is_admitted_is_the_verified_payload() {
    let mut here = Here::new();
    let to = here.signer.did();
    let from = signer(2);
    let Outcome::Admitted(admitted) = here.admit(payload(&from, to, 5, b"hello")) else {
        panic!("it is admitted")
    };
    assert_eq!(admitted.item().message().body(), b"hello");
    let record = here.engine.receivers().next().unwrap();
    assert_eq!(record.stream.origin, from.did());
    assert_eq!(record.window.at(5), Some(admitted.item().digest()));
    let again = here.admit(payload(&from, to, 5, b"hello"));
    assert!(matches!(
        again,
        Outcome::Refused {
            refusal: Refusal::Replay { .. },
            ..
        }
    ));
}

#[test]
fn a_fork_is_evidenced_by_both_signatures_while_the_header_is_held() {
    let mut here = Here::new();
    let (to, from) = (here.signer.did(), signer(2));
    here.admit(payload(&from, to, 5, b"one"));
    let forked = here.admit(payload(&from, to, 5, b"two"));
    let evidence = here.report(forked);
    assert!(evidence.facts().both_signed);
    let stream = evidence.facts().stream;
    here.engine.stage_evidence(&evidence);
    assert!(matches!(here.settle(), Outcome::EvidenceKept(kept) if kept == stream));
    let Some(Record::Fork(record)) = here.disk.record(Table::Fork, &stream) else {
        panic!("the evidence is a record")
    };
    // What is kept convicts by itself, on any machine.
    let kept: ForkEvidence = from_slice(&record.evidence).unwrap();
    assert_eq!(kept.verify().unwrap().facts(), evidence.facts());
    // After a restart the header is no longer held: the next evidence is the reporter's word, and
    // the log keeps the first.
    let scan = here.disk.scan();
    here.engine = Engine::restore(EngineConfig::default(), scan, START);
    assert_eq!(here.engine.forks().count(), 1);
    let forked = here.admit(payload(&from, to, 5, b"three"));
    let later = here.report(forked);
    assert!(!later.facts().both_signed);
    here.engine.stage_evidence(&later);
    assert!(
        here.engine.take_batch().is_none(),
        "nothing is to be written"
    );
    here.settle();
    assert_eq!(
        here.engine.forks().next().unwrap().evidence,
        record.evidence
    );
}

#[test]
fn the_fork_log_is_bounded_and_evicts_nothing() {
    let mut here = Here::new();
    let to = here.signer.did();
    for seed in 0..FORK_LOG_CAPACITY as u8 + 1 {
        let account = Account::ed25519(Zeroizing::new([seed; 32])).unwrap();
        let delegatee = Delegatee::from_seed(Zeroizing::new([99; 32]));
        let delegation = Delegation::issue(&account, &delegatee, NETWORK, LIFE).unwrap();
        let from = Signer::new(delegatee, delegation.verify(&CONTEXT).unwrap()).unwrap();
        here.admit(payload(&from, to, 5, b"one"));
        let forked = here.admit(payload(&from, to, 5, b"two"));
        let evidence = here.report(forked);
        here.engine.stage_evidence(&evidence);
        let outcome = here.settle();
        if usize::from(seed) < FORK_LOG_CAPACITY {
            assert!(matches!(outcome, Outcome::EvidenceKept(_)));
        } else {
            let full = matches!(
                outcome,
                Outcome::Refused {
                    refusal: Refusal::ForkLogFull,
                    ..
                }
            );
            assert!(full);
        }
    }
    assert_eq!(here.engine.forks().count(), FORK_LOG_CAPACITY);
    assert_eq!(here.engine.counters().fork, FORK_LOG_CAPACITY as u64 + 1);
}

#[test]
fn headers_of_the_last_admitted_are_held() {
    let mut here = crate::support::Node::new();
    let stream = crate::support::stream(1);
    let offer = |node: &mut crate::support::Node, sequence, tag| {
        node.pass(4);
        node.admit(node.item(stream, sequence, tag), Introducer::Own)
    };
    for sequence in 0..HEADER_RING_CAPACITY as u64 {
        offer(&mut here, sequence, 1);
    }
    let held = |outcome| match outcome {
        Outcome::Refused {
            refusal: Refusal::Fork(forked),
            ..
        } => forked.accepted_header.is_some(),
        other => panic!("{other:?}"),
    };
    let other = crate::support::stream(2);
    let lone = here.item(other, 9, 1);
    here.admit(lone, Introducer::Own);
    let forked = here.item(other, 9, 2);
    assert!(held(here.admit(forked.clone(), Introducer::Own)));
    for sequence in 0..HEADER_RING_CAPACITY as u64 {
        offer(&mut here, HEADER_RING_CAPACITY as u64 + sequence, 1);
    }
    assert!(!held(here.admit(forked, Introducer::Own)));
    let line = here
        .engine
        .bounds()
        .find(|it| it.name == "replay_accepted_headers");
    assert_eq!(line.unwrap().current, HEADER_RING_CAPACITY as u64);
}
