//! The bounds of a node's part of the ring, each filled: what is refused, how it is told, and that it
//! recovers.

use overlane_core::replay::SLOTS;
use overlane_core::ring::bounds::REQUEST_MS;
use overlane_core::ring::{RingAnswer, RingError, RingMessage, WhyUnreachable};
use overlane_core::transaction::{Draft, Message, Payload, RelayFields, Transaction};
use overlane_core::{Class, Coded, Did, TransactionDigest, TxId};
use overlane_node::Limits;
use overlane_node::link::LinkId;
use overlane_node::peer::{
    Ask, AskId, Effect, Event, FORWARDED_MAX, LINKS_DEFAULT_MAX, OWN_SENDS_MAX, Peer, RECENT_MAX,
    REPORTS, RING_RESERVE,
};
use overlane_storage_native::testkit::MemoryStore;

use crate::mesh::{LANE_PLACES, Mesh, NETWORK, START_MS, signer};
use crate::{MINUTE_MS, life, ring_of, settled};

fn answer(mesh: &Mesh, index: usize, id: AskId) -> Option<&Result<RingAnswer, RingError>> {
    mesh.nodes[index].ring.answers.get(&id)
}

fn code(answer: Option<&Result<RingAnswer, RingError>>) -> Option<&'static str> {
    answer
        .and_then(|answer| answer.as_ref().err())
        .map(Coded::code)
}

fn told(mesh: &Mesh, index: usize, reason: WhyUnreachable) -> usize {
    let of = |event: &&Event| matches!(event, Event::Unreachable { why, .. } if *why == reason);
    mesh.nodes[index].events.iter().filter(of).count()
}

#[test]
fn a_neighbour_that_reads_nothing_leaves_the_rings_other_messages_their_places() {
    let mut mesh = ring_of(3, 21);
    settled(&mut mesh, 5 * MINUTE_MS, "three");
    let (deaf, other) = (mesh.nodes[1].did, mesh.nodes[2].did);
    mesh.deaf.insert(1);
    let mut asked = 0;
    let refused = loop {
        assert!(asked < 2 * OWN_SENDS_MAX, "no bound holds");
        let id = mesh.ask(0, Ask::Ping(deaf));
        asked += 1;
        match code(answer(&mesh, 0, id)) {
            // As many as may be open are: they end with their time, what carries them does not.
            Some("ring/too_many_requests") => mesh.run_for(REQUEST_MS),
            Some(code) => break code,
            None => {}
        }
    };
    assert_eq!(refused, "send/too_many_pending");
    assert!(asked > OWN_SENDS_MAX / 4, "{asked}");
    let refused = mesh.peer(0).counters().sends_refused.clone();
    assert!(refused["send/too_many_pending"] > 0, "{refused:?}");
    // Once it is known to be silent, answers do not come by way of it either.
    let pong = (0..8).find_map(|_| {
        mesh.run_for(REQUEST_MS);
        let id = mesh.ask(0, Ask::Ping(other));
        mesh.run_for(REQUEST_MS);
        answer(&mesh, 0, id).cloned()?.ok()
    });
    assert!(matches!(pong, Some(RingAnswer::Pong { .. })), "{pong:?}");
    // It reads again: everything leaves, and it is asked as any other.
    mesh.deaf.clear();
    mesh.run_for(MINUTE_MS);
    let id = mesh.ask(0, Ask::Ping(deaf));
    mesh.run_for(1_000);
    let pong = answer(&mesh, 0, id);
    assert!(
        matches!(pong, Some(Ok(RingAnswer::Pong { .. }))),
        "{pong:?}"
    );
}

#[test]
fn what_waits_for_a_next_hop_is_bounded_and_the_rest_is_told_and_no_other_lane_waits() {
    let mut mesh = Mesh::new(4, 22);
    mesh.apart = (1..4).collect();
    for index in 1..4 {
        mesh.link(0, index);
    }
    mesh.join_ring();
    settled(&mut mesh, 5 * MINUTE_MS, "a middle");
    let (deaf, other) = (mesh.nodes[2].did, mesh.nodes[3].did);
    mesh.deaf.insert(2);
    let sent = FORWARDED_MAX + LANE_PLACES + 100;
    for number in 0..sent {
        mesh.send(1, deaf, Class::Application, &number.to_be_bytes());
    }
    mesh.send(1, other, Class::Application, b"by the same lane");
    mesh.run_for(1_000);
    let congested = told(&mesh, 1, WhyUnreachable::Congested);
    assert_eq!(
        congested, 100,
        "what the lane and its queue do not hold is told"
    );
    let dropped = mesh.refusals(0);
    assert_eq!(dropped.get("route/congested"), Some(&100), "{dropped:?}");
    assert_eq!(
        mesh.nodes[3].taken.len(),
        1,
        "the lane that brought it goes on"
    );
    mesh.deaf.clear();
    mesh.run_for(1_000);
    assert_eq!(mesh.taken_once(2).len() + congested, sent, "taken or told");
    mesh.send(1, deaf, Class::Application, b"again");
    mesh.run_for(1_000);
    assert_eq!(mesh.nodes[2].taken.last().unwrap().body, b"again");
}

/// A report of node `by` to node `to`, over the link between them.
fn reports(mesh: &mut Mesh, (by, to): (usize, usize), digest: TransactionDigest, about: Did) {
    let report = RingMessage::Unreachable {
        digest,
        destination: about,
        why: WhyUnreachable::NoRoute,
    };
    let body = report.to_body();
    let sequence = (1 << 61) + mesh.nodes[to].events.len() as u64;
    let draft = Draft {
        destination: mesh.nodes[to].did,
        tx_id: TxId([9; 16]),
        sequence,
        message: Message::Control(&body),
        life: life(),
    };
    let transaction = Transaction::sign(&draft, &mesh.nodes[by].signer).unwrap();
    let relay = RelayFields::direct(draft.destination);
    let payload = Payload::carry(transaction, relay, &mesh.nodes[by].signer, draft.life).unwrap();
    mesh.inject(by, to, Class::Control, payload.to_frame(|_| false));
    mesh.run_for(100);
}

#[test]
fn reports_count_for_the_latest_transactions_alone() {
    let mut mesh = ring_of(2, 23);
    settled(&mut mesh, 5 * MINUTE_MS, "two");
    // Node 1 takes what it is to pass on, and says nothing.
    mesh.idle.insert(1);
    let nobody = Did([0x5a; 20]);
    let mut asked = 0;
    while asked <= RECENT_MAX {
        for _ in 0..256.min(RECENT_MAX + 1 - asked) {
            mesh.send(0, nobody, Class::Application, &asked.to_be_bytes());
            asked += 1;
        }
        mesh.run(|mesh| mesh.nodes[0].sent.len() == asked);
    }
    let receipts = mesh.nodes[0].receipts();
    assert_eq!(receipts.len(), RECENT_MAX + 1);
    let unknown = |mesh: &Mesh| mesh.refusals(0).get("route/unknown_report").copied();
    let [first, .., last] = receipts.as_slice() else {
        panic!("there are some");
    };
    let later = &receipts[RECENT_MAX / 2];
    reports(&mut mesh, (1, 0), first.digest, nobody);
    assert_eq!(unknown(&mesh), Some(1), "it was forgotten");
    assert_eq!(told(&mesh, 0, WhyUnreachable::NoRoute), 0);
    for receipt in [later, last] {
        reports(&mut mesh, (1, 0), receipt.digest, nobody);
    }
    assert_eq!(told(&mesh, 0, WhyUnreachable::NoRoute), 2);
    assert_eq!(unknown(&mesh), Some(1));
}

#[test]
fn reports_are_paced_and_what_is_dropped_without_one_is_counted() {
    let mut mesh = Mesh::new(3, 24);
    mesh.apart = (1..3).collect();
    mesh.link(0, 1);
    mesh.link(0, 2);
    mesh.join_ring();
    settled(&mut mesh, 5 * MINUTE_MS, "a middle");
    // Right behind node 2: the way there ends at the middle, which tells node 1.
    let mut nobody = mesh.nodes[2].did;
    nobody.0[19] = nobody.0[19].wrapping_add(1);
    let unreported = |mesh: &mut Mesh| {
        (0..3)
            .map(|index| mesh.peer(index).counters().unreported)
            .sum::<u64>()
    };
    let told = |mesh: &Mesh| {
        let told = |event: &&Event| matches!(event, Event::Unreachable { .. });
        mesh.nodes[1].events.iter().filter(told).count() as u64
    };
    let sent = REPORTS.burst_messages + 50;
    for number in 0..sent {
        mesh.send(1, nobody, Class::Application, &number.to_be_bytes());
    }
    mesh.run_for(5);
    let dropped = unreported(&mut mesh);
    assert!((1..=50).contains(&dropped), "{dropped}");
    assert_eq!(told(&mesh) + dropped, sent, "told, or counted where not");
    // A second later there is room for reports again.
    mesh.run_for(1_000);
    mesh.send(1, nobody, Class::Application, b"again");
    mesh.run_for(5);
    assert_eq!(told(&mesh) + dropped, sent + 1);
    assert_eq!(unreported(&mut mesh), dropped);
}

fn limits(links_max: usize) -> Limits {
    Limits {
        links_max,
        ..Limits::default()
    }
}

/// A node of few links among many that want one: those that its place in the ring needs, and those its
/// user keeps, stay; whoever else came first gives way.
#[test]
fn law_links_give_way_to_others_and_never_one_that_the_ring_needs_s24() {
    const NODES: usize = 14;
    let places = RING_RESERVE + 3;
    for seed in 1..=2 {
        // A ring in which all are linked to node 0 for a start.
        let mut mesh = ring_of(NODES, seed);
        settled(&mut mesh, 5 * MINUTE_MS, &format!("seed {seed}"));
        mesh.run_for(2 * MINUTE_MS);
        let needed = |mesh: &mut Mesh, index: usize| {
            let did = mesh.nodes[index].did;
            mesh.peer(0).ring().unwrap().needs().contains(&did)
        };
        let spare: Vec<usize> = (1..NODES)
            .filter(|&index| !needed(&mut mesh, index))
            .collect();
        assert!(spare.len() > 3, "seed {seed}: {spare:?}");
        let pinned = mesh.nodes[spare[0]].did;
        mesh.peer(0).pin(pinned);
        mesh.peer(0).set_limits(&limits(places));
        mesh.may_close = true;
        // Who is not linked comes back again and again, as a node that keeps its first peer does.
        let gone = mesh.nodes[spare[1]].did;
        let link = mesh.peer(0).links().find(|(_, peer)| *peer == gone);
        mesh.cut(link.expect("it is linked").0);
        for _ in 0..4 {
            for &index in &spare {
                if !mesh.linked(0, index) {
                    mesh.link(0, index);
                }
                mesh.run_for(100);
            }
        }
        let evicted = mesh.peer(0).counters().links_evicted;
        assert!(evicted >= 4, "seed {seed}: {evicted}");
        // The mesh fails where a needed one is closed.
        assert!(!mesh.closed.contains(&(0, pinned)), "seed {seed}");
        settled(&mut mesh, 5 * MINUTE_MS, &format!("seed {seed}"));
        mesh.run_for(MINUTE_MS);
        for index in 1..NODES {
            let kept = !needed(&mut mesh, index) || mesh.linked(0, index);
            assert!(kept, "seed {seed}: {index}");
        }

        // An offer of one that it does not need is declined, and taken once there are more places.
        let needs = mesh.peer(0).ring().unwrap().needs();
        let spare = (1..NODES)
            .find(|&index| !mesh.linked(0, index) && !needs.contains(&mesh.nodes[index].did));
        let spare = spare.expect("one without a link");
        let to = mesh.nodes[0].did;
        let offered = |mesh: &mut Mesh| {
            let offer = mesh.signed_offer(spare, "a link").to_bytes();
            let id = mesh.ask(spare, Ask::Offer(to, offer));
            mesh.run_for(1_000);
            answer(mesh, spare, id).cloned().expect("an answer")
        };
        let counted = |mesh: &mut Mesh| {
            let declined = &mesh.peer(0).counters().offers_declined;
            declined.get("ring/slots_full").copied().unwrap_or(0)
        };
        let before = counted(&mut mesh);
        let declined = offered(&mut mesh).unwrap_err().to_string();
        assert!(declined.contains("ring/slots_full"), "{declined}");
        assert!(counted(&mut mesh) > before, "seed {seed}");
        mesh.peer(0).set_limits(&limits(LINKS_DEFAULT_MAX));
        assert!(offered(&mut mesh).is_ok(), "seed {seed}");
    }
}

#[test]
fn a_link_more_than_there_are_connection_slots_is_closed_and_counted() {
    let now = overlane_node::peer::Now {
        wall_ms: START_MS,
        steady_ms: 0,
    };
    let scan = overlane_core::store::RecordStore::scan(&mut MemoryStore::new()).unwrap();
    let mut peer = Peer::new(signer(0, NETWORK, START_MS), Some(scan), now);
    let did = |number: u64| {
        let mut did = [0xd1; 20];
        did[..8].copy_from_slice(&number.to_be_bytes());
        Did(did)
    };
    let closed = |peer: &mut Peer| -> Vec<LinkId> {
        std::iter::from_fn(|| peer.poll_effect())
            .filter_map(|effect| match effect {
                Effect::Close { link } => Some(link),
                _ => None,
            })
            .collect()
    };
    let slots = u64::from(SLOTS);
    for number in 0..slots {
        peer.handle_link_up(LinkId(number), did(number), None, now);
    }
    assert!(closed(&mut peer).is_empty());
    peer.handle_link_up(LinkId(slots), did(slots), None, now);
    assert_eq!(closed(&mut peer), [LinkId(slots)]);
    assert_eq!(peer.counters().links_without_slot, 1);
    assert_eq!(peer.links().count() as u64, slots);
    // One that goes leaves its slot to the next.
    peer.handle_link_down(LinkId(7), "gone", now);
    peer.handle_link_up(LinkId(slots + 1), did(slots), None, now);
    assert!(closed(&mut peer).is_empty());
    assert_eq!(peer.counters().links_without_slot, 1);
    assert_eq!(peer.links().count() as u64, slots);
}

/// What a node says to itself is no progress at whoever carries it, and would cost it its links.
#[test]
fn a_node_that_asks_itself_is_told_so_and_keeps_its_links() {
    let mut mesh = ring_of(3, 23);
    settled(&mut mesh, 5 * MINUTE_MS, "three");
    let own = mesh.nodes[0].did;
    for ask in [Ask::Ping(own), Ask::Way(own), Ask::Offer(own, vec![1])] {
        let id = mesh.ask(0, ask);
        mesh.run_for(REQUEST_MS);
        assert_eq!(code(answer(&mesh, 0, id)), Some("ring/to_itself"));
    }
    for other in 1..3 {
        assert!(mesh.linked(0, other));
        assert!(!mesh.refusals(other).contains_key("route/no_progress"));
    }
}
