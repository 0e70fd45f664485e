//! The laws of a peer, over many interleavings on virtual time.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod mesh;
mod peer_large;
mod peer_receipts;
mod peer_replay;
mod peer_room;
mod peer_sends;

use std::collections::BTreeSet;

use mesh::broken::{Broken, caught};
use mesh::{Mesh, NETWORK, START_MS, data, delegatee_of, signer};
use overlane_core::identity::{DELEGATION_TTL_DEFAULT_MS, Life, Signer};
use overlane_core::replay::{self, WINDOW_SLOTS};
use overlane_core::transaction::{Draft, ForkEvidence, Payload, RelayFields, Transaction};
use overlane_core::wire::bounds::FRAME_MAX_BYTES;
use overlane_core::wire::cbor::from_slice;
use overlane_core::{Class, Coded, Did, NetworkId, TxId};
use overlane_node::link::LinkId;
use overlane_node::peer::{BAD_ORIGINS, DELEGATIONS_MAX, Event, SendError};

/// What one stream's application took, as the numbers that were sent.
fn numbers(mesh: &Mesh, index: usize, class: Class) -> Vec<u64> {
    let taken = mesh.nodes[index].taken.iter();
    let of_class = taken.filter(|taken| taken.class == class);
    let number = |body: &[u8]| u64::from_be_bytes(body.try_into().unwrap());
    of_class.map(|taken| number(&taken.body)).collect()
}

/// How many messages of a class are sent at once: of one class, which the seed decides, a backlog
/// longer than a window, and after it bursts of the others that overtake it. Under one sequence
/// for all classes its first ones would be stale.
fn burst(seed: u64, class: Class) -> u64 {
    if class == backlog(seed) {
        WINDOW_SLOTS as u64 + 4
    } else {
        3
    }
}

fn backlog(seed: u64) -> Class {
    Class::ALL[usize::try_from(seed % 4).unwrap()]
}

#[test]
fn law_order_per_class_holds_with_four_classes_both_ways_at_once_s01() {
    for seed in 0..200 {
        let mut mesh = Mesh::new(2, seed);
        mesh.link(0, 1);
        let dids = [mesh.nodes[0].did, mesh.nodes[1].did];
        let others = Class::ALL.into_iter().filter(|it| *it != backlog(seed));
        for class in std::iter::once(backlog(seed)).chain(others) {
            for number in 0..burst(seed, class) {
                for (from, to) in [(0, dids[1]), (1, dids[0])] {
                    mesh.send(from, to, class, &number.to_be_bytes());
                }
            }
        }
        mesh.settle();
        for index in [0, 1] {
            for class in Class::ALL {
                let sent: Vec<_> = (0..burst(seed, class)).collect();
                assert_eq!(numbers(&mesh, index, class), sent, "seed {seed}, {class}");
            }
            assert!(mesh.refusals(index).is_empty(), "seed {seed}");
            mesh.taken_once(index);
        }
    }
}

#[test]
fn broken_parts_are_caught_by_the_law_they_break() {
    let order = law_order_per_class_holds_with_four_classes_both_ways_at_once_s01;
    let once = crash_of_the_receiver_at_every_batch_boundary_dispatches_nothing_twice_s14;
    let credit = every_refusal_is_counted_under_its_code_and_gives_its_credit_back;
    let failed = law_fail_closed_a_failing_store_stops_service_and_not_the_node;
    let room = peer_room::law_room_a_slow_application_holds_its_class_and_loses_nothing_s16;
    let cancelled = peer_sends::law_cancellation_is_never_lost_where_nothing_moves;
    let again = crash_of_the_sender_at_every_batch_boundary_signs_no_sequence_twice_s10;
    let held_back = law_lane_order_no_frame_is_held_back_for_a_delegation_s03;
    let receipts = peer_receipts::law_a_receipt_is_signed_of_what_no_crash_takes_back;
    let cases: [(Broken, fn(), &str); 9] = [
        (
            Broken::DurableBeforeItIs,
            receipts,
            "a crash took back what a receipt is of",
        ),
        (Broken::AnswersOfWorkersSwapped, order, "seed 0"),
        (Broken::FrameHeldBack, held_back, "seed 0"),
        (Broken::DurableBeforeItIs, again, "signed twice"),
        (
            Broken::DurableBeforeItIs,
            once,
            "a message was dispatched twice",
        ),
        (
            Broken::RefusedFrameNotCredited,
            credit,
            "delegation/wrong_network",
        ),
        (
            Broken::StoreFailureSwallowed,
            failed,
            "nothing is dispatched after the failure",
        ),
        (Broken::PlacesFreedBeforeTaken, room, "its share is full"),
        (
            Broken::CancelForgottenInHand,
            cancelled,
            "a cancel was lost",
        ),
    ];
    for (broken, law, words) in cases {
        let said = caught(broken, law);
        assert!(said.contains(words), "{broken:?}: {said}");
    }
}

/// What a frame lacks is asked of the link as the frame is read, never waited for: a frame that
/// names a delegation nobody showed is refused at once, and what follows is not held up behind it.
#[test]
fn law_lane_order_no_frame_is_held_back_for_a_delegation_s03() {
    let window = u64::try_from(WINDOW_SLOTS).unwrap();
    for seed in 0..2 {
        let mut mesh = Mesh::new(2, seed);
        mesh.link(0, 1);
        let to = mesh.nodes[1].did;
        let unknown = signer(9, NETWORK, START_MS);
        let life = Life {
            issued_ms: START_MS,
            ttl_ms: 600_000,
        };
        mesh.inject(0, 1, Class::Application, by_reference(&unknown, to, life));
        // Every few messages another delegatee, more of them than a link remembers.
        let delegatees = u8::try_from(DELEGATIONS_MAX + 2).unwrap();
        let mut sent = 0u64;
        for delegatee in 0..delegatees {
            let signer = delegatee_of(0, delegatee, NETWORK, START_MS);
            assert!(mesh.peer(0).rotate(signer));
            for _ in 0..window / 9 {
                mesh.send(0, to, Class::Application, &sent.to_be_bytes());
                sent += 1;
            }
        }
        mesh.settle();
        let all: Vec<_> = (0..sent).collect();
        assert_eq!(numbers(&mesh, 1, Class::Application), all, "seed {seed}");
        let refused = mesh.refusals(1);
        assert_eq!(refused.get("payload/unknown_delegation"), Some(&1));
        assert_eq!(refused.len(), 1, "seed {seed}: {refused:?}");
    }
}

/// Sends, crashes the receiver around its `at`-th batch, starts it, offers everything again.
/// How many batches the receiver wrote before the crash would have come.
fn crash_run(seed: u64, at: Option<u64>, batch_lands: bool) -> u64 {
    const MESSAGES: u64 = 20;
    let mut mesh = Mesh::new(2, seed);
    mesh.link(0, 1);
    let receiver = mesh.nodes[1].did;
    for number in 0..MESSAGES {
        let class = Class::ALL[usize::try_from(number % 4).unwrap()];
        mesh.send(0, receiver, class, &number.to_be_bytes());
    }
    let reached = |mesh: &Mesh| {
        let node = &mesh.nodes[1];
        at.is_some_and(|at| node.batches == at && node.is_writing())
    };
    mesh.run(reached);
    let batches = mesh.nodes[1].batches;
    if at.is_none() {
        return batches;
    }
    mesh.crash(1, batch_lands);
    mesh.settle();
    mesh.start(1, true);
    mesh.link(0, 1);
    // What the crash cut off has no receipt: it was told to be unreachable, and is not resent.
    let receipts = mesh.nodes[0].receipts();
    for receipt in &receipts {
        mesh.offer(0, &receipt.signed, None);
    }
    mesh.settle();
    let taken = mesh.taken_once(1);
    let signed: BTreeSet<_> = receipts.iter().map(|receipt| receipt.digest).collect();
    assert!(taken.is_subset(&signed));
    // Every signed message that was never dispatched was admitted before the crash: it is lost,
    // by the refusal that says so.
    let refused: u64 = mesh.refusals(1).values().sum();
    let again = u64::try_from(receipts.len()).unwrap();
    let engine = *mesh.peer(1).engine().counters();
    assert_eq!(engine.replay + engine.stale, refused);
    assert_eq!(engine.first + engine.advance + engine.late + refused, again);
    let lost = again - u64::try_from(taken.len()).unwrap();
    assert!(lost <= refused, "seed {seed}, batch {at:?}");
    if !batch_lands && at == Some(0) {
        assert_eq!(lost, 0, "nothing was admitted before the crash");
    }
    batches
}

#[test]
fn crash_of_the_receiver_at_every_batch_boundary_dispatches_nothing_twice_s14() {
    for seed in 0..20 {
        let batches = crash_run(seed, None, false);
        assert!(batches > 1, "seed {seed}");
        for at in 0..batches {
            for batch_lands in [false, true] {
                crash_run(seed, Some(at), batch_lands);
            }
        }
    }
}

#[test]
fn crash_of_the_sender_at_every_batch_boundary_signs_no_sequence_twice_s10() {
    for at in 0..3 {
        for batch_lands in [false, true] {
            let mut mesh = Mesh::new(2, at);
            mesh.link(0, 1);
            let receiver = mesh.nodes[1].did;
            let mut signed = BTreeSet::new();
            for life in 0..2u64 {
                for number in 0..150u64 {
                    let body = (life * 1_000 + number).to_be_bytes();
                    mesh.send(0, receiver, Class::Application, &body);
                }
                // A broken hand-over may be past the batch by now.
                mesh.run(|mesh| {
                    life == 0 && mesh.nodes[0].batches >= at && mesh.nodes[0].is_writing()
                });
                for receipt in mesh.nodes[0].receipts() {
                    assert!(signed.insert(receipt.sequence), "signed twice");
                }
                if life == 0 {
                    mesh.nodes[0].sent.clear();
                    mesh.crash(0, batch_lands);
                    mesh.settle();
                    // The clock need not have moved for the sequences to have.
                    mesh.start(0, true);
                    mesh.link(0, 1);
                }
            }
            assert!(mesh.refusals(1).is_empty());
            mesh.taken_once(1);
        }
    }
}

/// A frame that `signer` signed for `destination` and carries itself.
fn frame(signer: &Signer, destination: Did, sequence: u64, life: Life) -> Vec<u8> {
    frame_saying(b"forged", signer, destination, sequence, life)
}

fn frame_saying(
    body: &[u8],
    signer: &Signer,
    destination: Did,
    sequence: u64,
    life: Life,
) -> Vec<u8> {
    payload(body, signer, destination, sequence, life).to_frame(|_| false)
}

/// A frame that names its delegations by their digests alone.
fn by_reference(signer: &Signer, destination: Did, life: Life) -> Vec<u8> {
    payload(b"named", signer, destination, 1, life).to_frame(|_| true)
}

fn payload(body: &[u8], signer: &Signer, destination: Did, sequence: u64, life: Life) -> Payload {
    let data = data(Class::Application, body);
    let draft = Draft {
        destination,
        tx_id: TxId([7; 16]),
        sequence,
        message: data.message(),
        life,
    };
    let transaction = Transaction::sign(&draft, signer).unwrap();
    let relay = RelayFields::direct(destination);
    let hop_life = Life {
        issued_ms: START_MS,
        ttl_ms: 600_000,
    };
    Payload::carry(transaction, relay, signer, hop_life).unwrap()
}

/// The transaction of a frame, carried to `next_hop` by `hop`.
fn carried(frame: &[u8], hop: &Signer, next_hop: Did) -> Vec<u8> {
    let transaction = Payload::from_frame(frame).unwrap().into_transaction();
    let life = Life {
        issued_ms: START_MS,
        ttl_ms: 600_000,
    };
    let relay = RelayFields::direct(next_hop);
    let payload = Payload::carry(transaction, relay, hop, life).unwrap();
    payload.to_frame(|_| false)
}

/// A frame in which another letter stands in the body "forged".
fn tampered(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let at = frame.windows(6).position(|bytes| bytes == b"forged");
    frame[at.unwrap()] ^= 1;
    frame
}

/// What an origin further back may have caused, or time alone, is not the link's peer's doing.
#[test]
fn every_refusal_is_counted_under_its_code_and_gives_its_credit_back() {
    let life = |issued_ms, ttl_ms| Life { issued_ms, ttl_ms };
    let now = life(START_MS, 600_000);
    let mut mesh = Mesh::new(3, 1);
    mesh.link(0, 1);
    let (sender, to) = (mesh.nodes[0].signer.clone(), mesh.nodes[1].did);
    let elsewhere = mesh.nodes[2].did;
    let good = frame(&sender, to, 100, now);
    let foreign = signer(5, NetworkId(8), START_MS);
    let by_sender = |frame: Vec<u8>| carried(&frame, &sender, to);
    let cases = [
        (
            "delegation/wrong_network",
            by_sender(frame(&foreign, to, 1, now)),
        ),
        (
            "payload/expired",
            frame(&sender, to, 1, life(START_MS - 900_000, 600_000)),
        ),
        (
            "payload/from_the_future",
            frame(&sender, to, 1, life(START_MS + 60_000, 600_000)),
        ),
        (
            "payload/wrong_destination",
            by_sender(frame(&sender, elsewhere, 1, now)),
        ),
        ("payload/bad_signature", by_sender(tampered(&good))),
    ];
    // More of each than a lane's credit: were it not given back, the lane would stand still.
    for _ in 0..20 {
        for (_, frame) in &cases {
            mesh.inject(0, 1, Class::Application, frame.clone());
        }
    }
    mesh.settle();
    let refusals = mesh.refusals(1);
    for (code, _) in &cases {
        assert_eq!(refusals.get(code), Some(&20), "{code} of {refusals:?}");
    }
    assert_eq!(refusals.len(), cases.len(), "{refusals:?}");
    assert!(mesh.peer(1).counters().links_cut.is_empty());
    assert!(mesh.nodes[1].taken.is_empty());
    assert_eq!(
        mesh.nodes[1].store.writes(),
        0,
        "nothing refused reaches the store"
    );

    mesh.inject(0, 1, Class::Application, good);
    mesh.settle();
    assert_eq!(mesh.nodes[1].taken.len(), 1);
}

#[test]
fn law_what_only_the_links_peer_can_have_done_cuts_its_link() {
    let now = Life {
        issued_ms: START_MS,
        ttl_ms: 600_000,
    };
    let [own, foreign, stranger] = [
        signer(0, NETWORK, START_MS),
        signer(0, NetworkId(8), START_MS),
        signer(9, NETWORK, START_MS),
    ];
    let (to, elsewhere) = (
        signer(1, NETWORK, START_MS).did(),
        signer(2, NETWORK, START_MS).did(),
    );
    let good = frame(&own, to, 100, now);
    let mut bad_hop = good.clone();
    *bad_hop.last_mut().unwrap() ^= 1;
    let application = Class::Application;
    let cases = [
        (
            "payload/wrong_hop",
            application,
            carried(&good, &stranger, to),
        ),
        (
            "payload/wrong_next_hop",
            application,
            carried(&good, &own, elsewhere),
        ),
        ("payload/bad_signature", application, bad_hop),
        // Its origin's signature fails too: the hop's alone would have cut it.
        ("payload/bad_signature", application, tampered(&good)),
        (
            "delegation/wrong_network",
            application,
            carried(&good, &foreign, to),
        ),
        (
            "payload/malformed",
            application,
            good[..good.len() - 1].to_vec(),
        ),
        ("frame/unknown_marker", application, b"nothing".to_vec()),
        ("frame/oversized", application, vec![0; FRAME_MAX_BYTES + 1]),
        ("payload/wrong_lane", Class::Control, good.clone()),
    ];
    for (code, class, frame) in cases {
        for seed in 0..4 {
            let mut mesh = Mesh::new(2, seed);
            mesh.link(0, 1);
            for _ in 0..40 {
                mesh.inject(0, 1, class, frame.clone());
            }
            mesh.settle();
            let counters = mesh.peer(1).counters().clone();
            assert_eq!(
                counters.links_cut,
                [(code, 1)].into(),
                "{code}, seed {seed}"
            );
            assert!(counters.frames_received < 40, "{code}, seed {seed}");
            assert!(counters.refused.contains_key(code), "{code}, seed {seed}");
            assert_eq!(mesh.peer(1).links().count(), 0, "{code}, seed {seed}");
            // The next link begins anew.
            mesh.link(0, 1);
            mesh.inject(0, 1, application, good.clone());
            mesh.settle();
            assert_eq!(mesh.nodes[1].taken.len(), 1, "{code}, seed {seed}");
        }
    }
}

#[test]
fn who_passes_on_a_bad_transaction_keeps_its_link() {
    let now = Life {
        issued_ms: START_MS,
        ttl_ms: 600_000,
    };
    let mut mesh = Mesh::new(3, 23);
    mesh.link(0, 1);
    let to = mesh.nodes[1].did;
    let origin = mesh.nodes[2].signer.clone();
    let bad = tampered(&frame(&origin, to, 1, now));
    let id = mesh.offer(0, &bad, Some(to));
    mesh.settle();
    assert!(mesh.nodes[0].sent[&id].is_ok());
    assert_eq!(mesh.refusals(1), [("payload/bad_signature", 1)].into());
    assert_eq!(mesh.peer(1).links().count(), 1);
}

/// A carrier checks before it carries: one that passes on bad transactions without end makes this
/// node check them for ever, and is cut; time gives an honest one its allowance back.
#[test]
fn law_a_link_that_passes_on_bad_transactions_without_end_is_cut() {
    let now = Life {
        issued_ms: START_MS,
        ttl_ms: 600_000,
    };
    let burst = usize::try_from(BAD_ORIGINS.burst_messages).unwrap();
    let run = |more: usize, pause_ms: u64| {
        let mut mesh = Mesh::new(3, 29);
        mesh.link(0, 1);
        let to = mesh.nodes[1].did;
        let hop = mesh.nodes[0].signer.clone();
        let origin = mesh.nodes[2].signer.clone();
        let bad = carried(&tampered(&frame(&origin, to, 1, now)), &hop, to);
        for _ in 0..burst {
            mesh.inject(0, 1, Class::Application, bad.clone());
        }
        mesh.settle();
        mesh.pass(pause_ms);
        for _ in 0..more {
            mesh.inject(0, 1, Class::Application, bad.clone());
        }
        mesh.settle();
        mesh.peer(1).counters().links_cut.clone()
    };
    assert!(run(0, 0).is_empty());
    assert!(run(1, 1_000).is_empty());
    let cut = [("payload/bad_origins", 1)].into();
    assert_eq!(run(1, 0), cut);
    assert_eq!(run(2, 1_000), cut);
}

#[test]
fn a_send_takes_the_link_that_stands_and_fails_only_without_one() {
    for seed in 0..20 {
        let mut mesh = Mesh::new(2, seed);
        let to = mesh.nodes[1].did;
        // Crossing dials: the earlier number came up last, so it stands.
        let (gives_way, stands) = (LinkId(9), LinkId(3));
        mesh.link_as(gives_way, 0, 1);
        mesh.leaving.insert(gives_way);
        mesh.link_as(stands, 0, 1);
        mesh.send(0, to, Class::Application, b"stands");
        // Another comes up, and ends before this node is told so.
        let ending = LinkId(5);
        mesh.link_as(ending, 0, 1);
        mesh.leaving.insert(ending);
        for number in 0..200u64 {
            mesh.send(0, to, Class::Storage, &number.to_be_bytes());
        }
        mesh.settle();
        assert_eq!(mesh.nodes[0].receipts().len(), 201, "seed {seed}");
        assert_eq!(
            numbers(&mesh, 1, Class::Storage),
            (0..200).collect::<Vec<_>>()
        );
        assert_eq!(mesh.taken_once(1).len(), 201, "seed {seed}");
    }
}

#[test]
fn what_waits_for_a_lane_goes_by_the_next_link_in_order() {
    for seed in 0..20 {
        let mut mesh = Mesh::new(2, seed);
        let to = mesh.nodes[1].did;
        let old = mesh.link(0, 1);
        for number in 0..100u64 {
            mesh.send(0, to, Class::Storage, &number.to_be_bytes());
        }
        // Its lane is full, and more wait for it.
        mesh.run(|mesh| mesh.nodes[0].sent.len() > 30);
        mesh.link(0, 1);
        for number in 100..150u64 {
            mesh.send(0, to, Class::Storage, &number.to_be_bytes());
        }
        mesh.leaving.insert(old);
        mesh.run(|mesh| mesh.nodes[0].sent.len() == 150);
        mesh.cut(old);
        mesh.settle();
        assert_eq!(mesh.nodes[0].receipts().len(), 150, "seed {seed}");
    }
}

#[test]
fn replay_fork_and_stale_are_refused_after_a_restart_too() {
    let now = Life {
        issued_ms: START_MS,
        ttl_ms: 600_000,
    };
    let mut mesh = Mesh::new(2, 3);
    mesh.link(0, 1);
    let (sender, to) = (mesh.nodes[0].signer.clone(), mesh.nodes[1].did);
    let high = 1_000;
    let first = frame(&sender, to, high, now);
    mesh.inject(0, 1, Class::Application, first.clone());
    mesh.settle();
    for restarted in [false, true] {
        if restarted {
            mesh.crash(1, true);
            mesh.start(1, true);
            mesh.link(0, 1);
        }
        mesh.inject(0, 1, Class::Application, first.clone());
        // A proof's life is no part of a transaction: signed anew, it is the same one.
        let anew = Life {
            ttl_ms: 1_000,
            ..now
        };
        mesh.inject(0, 1, Class::Application, frame(&sender, to, high, anew));
        let other = frame_saying(b"other", &sender, to, high, now);
        mesh.inject(0, 1, Class::Application, other);
        let below = high - u64::try_from(WINDOW_SLOTS).unwrap();
        mesh.inject(0, 1, Class::Application, frame(&sender, to, below, now));
        mesh.settle();
        let counters = *mesh.peer(1).engine().counters();
        let refused = (counters.replay, counters.fork, counters.stale);
        assert_eq!(refused, (2, 1, 1), "restarted: {restarted}");
        assert_eq!(mesh.nodes[1].taken.len(), 1);
        // The evidence convicts the origin by itself, and outlives the restart.
        let forks: Vec<_> = mesh.peer(1).engine().forks().cloned().collect();
        assert_eq!(forks.len(), 1);
        let evidence: ForkEvidence = from_slice(&forks[0].evidence).unwrap();
        let evidence = evidence.verify().unwrap();
        assert!(evidence.facts().both_signed);
        assert_eq!(evidence.facts().sequence, high);
    }
}

#[test]
fn without_a_store_every_send_and_every_admission_is_refused_s10() {
    let mut mesh = Mesh::new(2, 1);
    mesh.crash(1, true);
    mesh.start(1, false);
    mesh.link(0, 1);
    let (sender, receiver) = (mesh.nodes[0].did, mesh.nodes[1].did);
    let refused = mesh.send(1, sender, Class::Application, b"no");
    for _ in 0..40 {
        mesh.send(0, receiver, Class::Application, b"no");
    }
    mesh.settle();
    let unavailable = SendError::Replay(replay::Refusal::StorageUnavailable);
    assert_eq!(mesh.nodes[1].sent[&refused], Err(unavailable));
    assert_eq!(
        mesh.refusals(1).get("replay/storage_unavailable"),
        Some(&40)
    );
    assert!(mesh.nodes[1].taken.is_empty());
    assert!(mesh.nodes[0].taken.is_empty());
}

/// A node whose delegation nobody renews says so itself, before a sequence is used for what others refuse.
#[test]
fn nothing_is_signed_once_the_delegation_is_over() {
    let mut mesh = Mesh::new(2, 5);
    mesh.link(0, 1);
    let to = mesh.nodes[1].did;
    mesh.send(0, to, Class::Application, b"while it lives");
    mesh.settle();
    assert_eq!(mesh.taken_once(1).len(), 1);
    mesh.pass(DELEGATION_TTL_DEFAULT_MS + 1);
    for (to, class) in [(to, Class::Application), (to, Class::Storage)] {
        let late = mesh.send(0, to, class, b"after");
        let refused = mesh.nodes[0].sent[&late].as_ref().unwrap_err();
        assert_eq!(refused.code(), "delegation/expired");
    }
    assert_eq!(mesh.nodes[0].receipts().len(), 1);
}

#[test]
fn law_fail_closed_a_failing_store_stops_service_and_not_the_node() {
    let mut mesh = Mesh::new(2, 5);
    mesh.link(0, 1);
    let (sender, receiver) = (mesh.nodes[0].did, mesh.nodes[1].did);
    mesh.send(0, receiver, Class::Application, b"before");
    mesh.settle();
    mesh.nodes[1].store.fail_next();
    for _ in 0..40 {
        mesh.send(0, receiver, Class::Application, b"after");
    }
    mesh.settle();
    assert_eq!(
        mesh.nodes[1].taken.len(),
        1,
        "nothing is dispatched after the failure"
    );
    assert_eq!(mesh.refusals(1).get("replay/store_failed"), Some(&40));
    let told = |event: &&Event| matches!(event, Event::StoreFailed { .. });
    assert_eq!(mesh.nodes[1].events.iter().filter(told).count(), 1);
    let answer = mesh.send(1, sender, Class::Application, b"answer");
    let code = mesh.nodes[1].sent[&answer].as_ref().unwrap_err().code();
    assert_eq!(code, "replay/store_failed");

    mesh.crash(1, false);
    mesh.start(1, true);
    mesh.link(0, 1);
    mesh.send(0, receiver, Class::Application, b"restarted");
    mesh.settle();
    assert_eq!(mesh.nodes[1].taken.last().unwrap().body, b"restarted");
}

#[test]
fn a_rotated_delegatee_goes_on_with_every_stream() {
    let mut mesh = Mesh::new(2, 11);
    mesh.link(0, 1);
    let receiver = mesh.nodes[1].did;
    let mut last = 0;
    // More delegatees than a link remembers delegations of: the first has to be checked again.
    let delegatees = u8::try_from(DELEGATIONS_MAX + 4).unwrap();
    for delegatee in (0..delegatees).chain([0]) {
        let signer = delegatee_of(0, delegatee, NETWORK, START_MS);
        assert!(mesh.peer(0).rotate(signer));
        let id = mesh.send(0, receiver, Class::Application, &[delegatee]);
        mesh.settle();
        let receipt = mesh.nodes[0].sent[&id].clone().unwrap();
        assert!(
            last == 0 || receipt.sequence == last + 1,
            "the stream goes on"
        );
        last = receipt.sequence;
    }
    assert!(
        !mesh.peer(0).rotate(signer(3, NETWORK, START_MS)),
        "another account's"
    );
    assert_eq!(mesh.peer(1).engine().counters().first, 1);
    assert_eq!(mesh.taken_once(1).len(), DELEGATIONS_MAX + 5);
}

#[test]
fn what_a_link_brought_before_it_went_down_is_still_admitted() {
    let mut mesh = Mesh::new(2, 13);
    mesh.link(0, 1);
    let receiver = mesh.nodes[1].did;
    mesh.send(0, receiver, Class::Application, b"last words");
    let admitted = |mesh: &Mesh| mesh.nodes[1].is_writing();
    mesh.run(admitted);
    mesh.crash(0, true);
    mesh.settle();
    assert_eq!(mesh.nodes[1].taken.len(), 1);
}

#[test]
fn unreachable_and_own_destinations_use_no_sequence() {
    let mut mesh = Mesh::new(3, 19);
    mesh.link(0, 1);
    let (own, linked, far) = (mesh.nodes[0].did, mesh.nodes[1].did, mesh.nodes[2].did);
    let to_itself = mesh.send(0, own, Class::Application, b"me");
    let unreachable = mesh.send(0, far, Class::Application, b"far");
    let code = |mesh: &Mesh, id| mesh.nodes[0].sent[&id].as_ref().unwrap_err().code();
    assert_eq!(code(&mesh, to_itself), "send/to_itself");
    assert_eq!(code(&mesh, unreachable), "send/unreachable");
    assert_eq!(mesh.nodes[0].store.writes(), 0);
    let garbage = mesh.offer(0, b"garbage", Some(linked));
    assert_eq!(code(&mesh, garbage), "send/not_signed");
}
