//! The ring of whole peers on virtual time: messages reach any node through others, links come by signed
//! offers that others carry, and who lies is refused.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(dead_code, reason = "the mesh serves other tests too")]

mod mesh;
mod ring_bounds;
mod ring_hostile;
mod ring_seal;
mod ring_session;

use std::collections::BTreeSet;

use mesh::{Mesh, START_MS};
use overlane_core::identity::Life;
use overlane_core::ring::{RequestId, RingAnswer, RingMessage, WhyUnreachable};
use overlane_core::transaction::{
    Draft, HOP_BUDGET_MAX, Message, Payload, RelayFields, Transaction,
};
use overlane_core::wire::bounds::DATA_MAX_BYTES;
use overlane_core::{Class, Coded, Did, TransactionDigest, TxId};
use overlane_node::link::LinkId;
use overlane_node::peer::{Ask, Event, OFFERS_MAX};

const MINUTE_MS: u64 = 60_000;

/// A ring of so many nodes; all begin with a link to the first alone.
fn ring_of(nodes: usize, seed: u64) -> Mesh {
    let mut mesh = Mesh::new(nodes, seed);
    for index in 1..nodes {
        mesh.link(0, index);
    }
    mesh.join_ring();
    mesh
}

/// The nodes whose successors are not the right ones.
fn wrong(mesh: &mut Mesh) -> Vec<usize> {
    let mut all: Vec<Did> = mesh.nodes.iter().map(|node| node.did).collect();
    all.sort_unstable();
    let kept = 3.min(all.len() - 1);
    let wrong = |mesh: &mut Mesh, index: usize| {
        let did = mesh.nodes[index].did;
        let at = all.iter().position(|of| *of == did).unwrap();
        let next: Vec<Did> = (1..=kept).map(|by| all[(at + by) % all.len()]).collect();
        let members = mesh.peer(index).ring().unwrap().members();
        members.successors() != next || members.predecessor().is_none()
    };
    (0..mesh.nodes.len())
        .filter(|&index| wrong(mesh, index))
        .collect()
}

fn settled(mesh: &mut Mesh, within_ms: u64, what: &str) {
    let until_ms = mesh.now_ms + within_ms;
    while !wrong(mesh).is_empty() {
        if mesh.now_ms >= until_ms {
            let wrong = wrong(mesh);
            for &index in &wrong {
                let peer = mesh.peer(index);
                println!("{index}: {:#?}", peer.ring().unwrap().members());
                println!("{:?}", mesh.nodes[index].events);
                let peer = mesh.peer(index);
                println!(
                    "{:?} {:#?}",
                    peer.ring().unwrap().counters(),
                    peer.counters()
                );
            }
            panic!("{what}: {wrong:?} are not right");
        }
        mesh.run_for(1_000);
    }
}

fn everyone_sends_to_everyone(mesh: &mut Mesh, what: &str) {
    let dids: Vec<Did> = mesh.nodes.iter().map(|node| node.did).collect();
    let before: Vec<usize> = mesh.nodes.iter().map(|node| node.taken.len()).collect();
    for from in 0..dids.len() {
        for to in (0..dids.len()).filter(|&to| to != from) {
            mesh.send(
                from,
                dids[to],
                Class::Application,
                &[u8::try_from(from).unwrap()],
            );
        }
    }
    mesh.run_for(5_000);
    for (to, before) in before.into_iter().enumerate() {
        let taken: BTreeSet<u8> = mesh.nodes[to].taken[before..]
            .iter()
            .map(|taken| taken.body[0])
            .collect();
        assert_eq!(
            taken.len(),
            dids.len() - 1,
            "{what}: {to} took from {taken:?}"
        );
        mesh.taken_once(to);
    }
}

fn life() -> Life {
    Life {
        issued_ms: START_MS,
        ttl_ms: 600_000,
    }
}

/// A message of node `origin` for `to`, carried by node `hop` with these fields.
fn carried(mesh: &Mesh, origin: usize, to: Did, hop: usize, relay: RelayFields) -> Vec<u8> {
    carried_message(mesh, origin, to, hop, relay, Message::Storage(b"carried"))
}

fn carried_message(
    mesh: &Mesh,
    origin: usize,
    to: Did,
    hop: usize,
    relay: RelayFields,
    message: Message<'_>,
) -> Vec<u8> {
    let draft = Draft {
        destination: to,
        tx_id: TxId([9; 16]),
        sequence: 1 << 61,
        message,
        life: Life {
            issued_ms: mesh.now_ms,
            ..life()
        },
    };
    let transaction = Transaction::sign(&draft, &mesh.nodes[origin].signer).unwrap();
    let life = draft.life;
    let payload = Payload::carry(transaction, relay, &mesh.nodes[hop].signer, life).unwrap();
    payload.to_frame(|_| false)
}

#[test]
fn law_any_node_is_reached_through_others_and_relays_keep_nothing_s20() {
    for seed in 1..=3 {
        let mut mesh = ring_of(9, seed);
        settled(&mut mesh, 5 * MINUTE_MS, &format!("seed {seed}"));
        everyone_sends_to_everyone(&mut mesh, &format!("seed {seed}"));
        let forwarded: u64 = (0..9)
            .flat_map(|index| {
                mesh.peer(index)
                    .counters()
                    .forwarded
                    .values()
                    .copied()
                    .collect::<Vec<_>>()
            })
            .sum();
        assert!(forwarded > 0, "seed {seed}");
        for index in 0..9 {
            let did = mesh.nodes[index].did;
            let peer = mesh.peer(index);
            assert!(peer.counters().links_cut.is_empty(), "seed {seed}");
            for stream in peer
                .engine()
                .receivers()
                .map(|record| record.stream)
                .collect::<Vec<_>>()
            {
                assert_eq!(
                    stream.destination, did,
                    "seed {seed}: {index} keeps {stream}"
                );
            }
        }
    }
}

#[test]
fn law_nodes_that_cannot_be_linked_are_reached_through_a_middle() {
    let mut mesh = Mesh::new(5, 4);
    mesh.apart = (1..5).collect();
    for index in 1..5 {
        mesh.link(0, index);
    }
    mesh.join_ring();
    settled(&mut mesh, 5 * MINUTE_MS, "a middle");
    everyone_sends_to_everyone(&mut mesh, "a middle");
    for one in 1..5 {
        for other in one + 1..5 {
            assert!(!mesh.linked(one, other));
        }
    }
    let ask = Ask::Ping(mesh.nodes[3].did);
    let id = mesh.ask(2, ask);
    let id_way = mesh.ask(2, Ask::Way(mesh.nodes[3].did));
    mesh.run_for(1_000);
    let answer = mesh.nodes[2].ring.answers[&id].clone().unwrap();
    assert!(
        matches!(answer, RingAnswer::Pong { hops: 2, .. }),
        "{answer:?}"
    );
    let way = mesh.nodes[2].ring.answers[&id_way].clone().unwrap();
    let hops = vec![mesh.nodes[0].did, mesh.nodes[3].did];
    assert!(matches!(way, RingAnswer::Path(path) if path.hops == hops));
}

#[test]
fn law_links_come_by_offers_that_others_carry() {
    let mut mesh = ring_of(6, 5);
    settled(&mut mesh, 5 * MINUTE_MS, "six");
    mesh.run_for(2 * MINUTE_MS);
    for index in 0..6 {
        let needs = mesh.peer(index).ring().unwrap().needs();
        for need in needs {
            let other = mesh.nodes.iter().position(|node| node.did == need).unwrap();
            assert!(mesh.linked(index, other), "{index} needs {other}");
        }
        // A lookup by way of another confirms its place, again and again.
        let confirmed_ms = mesh.peer(index).ring().unwrap().confirmed_ms().unwrap();
        assert!(
            mesh.now(index).steady_ms - confirmed_ms <= MINUTE_MS,
            "{index}"
        );
    }
    let answered: u64 = mesh
        .nodes
        .iter()
        .map(|node| node.ring.offers_answered)
        .sum();
    assert!(answered > 0);
}

#[test]
fn what_does_not_arrive_is_told_to_its_origin_with_where_and_why() {
    let mut mesh = ring_of(5, 6);
    settled(&mut mesh, 5 * MINUTE_MS, "five");
    let nobody = Did([0x5a; 20]);
    mesh.send(1, nobody, Class::Application, b"anybody there?");
    mesh.run_for(2_000);
    let told = mesh.nodes[1].events.iter().find_map(|event| match event {
        Event::Unreachable { stream, why, .. } => Some((stream.destination, *why)),
        _ => None,
    });
    assert_eq!(told, Some((nobody, WhyUnreachable::NoRoute)));
    let code = WhyUnreachable::NoRoute.code();
    assert_eq!(mesh.peer(1).counters().unreachable.get(code), Some(&1));
}

/// Where its way ends they see chunks, and its origin hears of the message.
#[test]
fn law_a_message_in_chunks_that_does_not_arrive_is_told_once_by_its_own_digest() {
    let mut mesh = ring_of(5, 6);
    settled(&mut mesh, 5 * MINUTE_MS, "five");
    let nobody = Did([0x5a; 20]);
    let body = vec![7; 4 * DATA_MAX_BYTES];
    for index in 0..5 {
        mesh.send(index, nobody, Class::Storage, &body);
    }
    mesh.run_for(10_000);
    let mut went = 0;
    for (index, node) in mesh.nodes.iter().enumerate() {
        let told: Vec<_> = node
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Unreachable { digest, .. } => Some(*digest),
                _ => None,
            })
            .collect();
        let sent: Vec<_> = node.receipts().iter().map(|it| it.digest).collect();
        assert_eq!(told, sent, "node {index}");
        went += sent.len();
        let refused = mesh.refusals(index);
        assert!(!refused.contains_key("route/unknown_report"), "{refused:?}");
    }
    assert!(went >= 4, "{went} of five went by way of others");
}

#[test]
fn law_a_forged_report_is_refused_and_a_true_one_counts_once() {
    let mut mesh = ring_of(4, 7);
    settled(&mut mesh, 5 * MINUTE_MS, "four");
    let victim = mesh.nodes[1].did;
    for (digest, sequence) in [([7; 32], 1_u64 << 61), ([8; 32], (1 << 61) + 1)] {
        let body = RingMessage::Unreachable {
            digest: TransactionDigest(digest),
            destination: mesh.nodes[3].did,
            why: WhyUnreachable::NoRoute,
        };
        let body = body.to_body();
        let draft = Draft {
            destination: victim,
            tx_id: TxId([digest[0]; 16]),
            sequence,
            message: Message::Control(&body),
            life: Life {
                issued_ms: mesh.now_ms,
                ..life()
            },
        };
        let transaction = Transaction::sign(&draft, &mesh.nodes[0].signer).unwrap();
        let relay = RelayFields::direct(victim);
        let payload = Payload::carry(transaction, relay, &mesh.nodes[0].signer, draft.life);
        let frame = payload.unwrap().to_frame(|_| false);
        mesh.inject(0, 1, Class::Control, frame);
    }
    mesh.run_for(1_000);
    assert_eq!(mesh.refusals(1).get("route/unknown_report"), Some(&2));
    let told = |event: &Event| matches!(event, Event::Unreachable { .. });
    assert!(!mesh.nodes[1].events.iter().any(told));
}

#[test]
fn law_a_hop_that_sends_a_message_back_is_cut_and_a_loop_ends() {
    let mut mesh = ring_of(4, 8);
    settled(&mut mesh, 5 * MINUTE_MS, "four");
    // From node 0 to node 1, for a place that node 0 itself is nearer to than node 1 is.
    let (hop, at) = (mesh.nodes[0].did, mesh.nodes[1].did);
    let mut beyond = hop;
    beyond.0[19] = beyond.0[19].wrapping_add(1);
    let relay = RelayFields {
        next_hop: at,
        destination: beyond,
        hop_budget: HOP_BUDGET_MAX,
        handed_off: false,
        reply_via: None,
    };
    // As if it had crossed already, and with nothing left to go.
    let crossed = RelayFields {
        handed_off: true,
        ..relay
    };
    let spent = RelayFields {
        hop_budget: 1,
        ..crossed
    };
    let frames = [crossed, spent].map(|relay| carried(&mesh, 0, beyond, 0, relay));
    for frame in frames {
        mesh.inject(0, 1, Class::Storage, frame);
    }
    mesh.run_for(1_000);
    let refused = mesh.refusals(1);
    assert_eq!(refused.get("route/hop_budget"), Some(&1), "{refused:?}");
    assert!(mesh.peer(1).counters().links_cut.is_empty());
    let frame = carried(&mesh, 0, beyond, 0, relay);
    mesh.inject(0, 1, Class::Storage, frame);
    mesh.run_for(100);
    assert_eq!(
        mesh.peer(1).counters().links_cut.get("route/no_progress"),
        Some(&1)
    );
}

#[test]
fn law_an_offer_that_another_signed_makes_no_link_and_a_flood_is_declined() {
    let mut mesh = Mesh::new(3, 9);
    mesh.link(0, 1);
    mesh.join_ring();
    mesh.run_for(30_000);
    // Node 0 passes off an offer of node 2 as its own.
    let offer = mesh.signed_offer(2, "of another").to_bytes();
    let to = mesh.nodes[1].did;
    let id = mesh.ask(0, Ask::Offer(to, offer));
    mesh.run_for(1_000);
    let declined = mesh.nodes[0].ring.answers[&id].clone().unwrap_err();
    assert!(
        declined.to_string().contains("link/other_signer"),
        "{declined}"
    );
    // More at once than the driver has places for: its answers wait while offers come.
    mesh.holds_offers = true;
    let ids: Vec<_> = (0..OFFERS_MAX + 5)
        .map(|number| {
            let offer = mesh.signed_offer(0, &format!("offer {number}")).to_bytes();
            mesh.ask(0, Ask::Offer(to, offer))
        })
        .collect();
    mesh.run_for(4_000);
    let declined = ids
        .iter()
        .filter(|id| mesh.nodes[0].ring.answers.contains_key(id))
        .count();
    assert_eq!(declined, 5);
    let counted = mesh
        .peer(1)
        .counters()
        .offers_declined
        .get("ring/offers_full")
        .copied();
    assert_eq!(counted, Some(5));
}

#[test]
fn a_malformed_ring_message_is_refused_and_counted() {
    let mut mesh = ring_of(3, 10);
    settled(&mut mesh, 5 * MINUTE_MS, "three");
    let to = mesh.nodes[1].did;
    let body = b"OvRg not cbor";
    let frame = carried_message(
        &mesh,
        0,
        to,
        0,
        RelayFields::direct(to),
        Message::Control(body),
    );
    mesh.inject(0, 1, Class::Control, frame);
    mesh.run_for(1_000);
    assert_eq!(mesh.refusals(1).get("ring/malformed"), Some(&1));
    let answer = RingMessage::Pong {
        id: RequestId(77),
        hops: 1,
    }
    .to_body();
    let mesh_ref = &mesh;
    let draft_frame = {
        let draft = Draft {
            destination: to,
            tx_id: TxId([3; 16]),
            sequence: (1 << 61) + 9,
            message: Message::Control(&answer),
            life: Life {
                issued_ms: mesh_ref.now_ms,
                ..life()
            },
        };
        let transaction = Transaction::sign(&draft, &mesh_ref.nodes[0].signer).unwrap();
        let relay = RelayFields::direct(to);
        Payload::carry(transaction, relay, &mesh_ref.nodes[0].signer, draft.life)
            .unwrap()
            .to_frame(|_| false)
    };
    mesh.inject(0, 1, Class::Control, draft_frame);
    mesh.run_for(1_000);
    assert_eq!(mesh.refusals(1).get("ring/unasked"), Some(&1));
}

/// Two nodes that only a third is linked to, and its links to them.
fn two_and_a_middle(seed: u64) -> (Mesh, [LinkId; 2]) {
    let mut mesh = Mesh::new(3, seed);
    mesh.apart = (1..3).collect();
    let links = [mesh.link(0, 1), mesh.link(0, 2)];
    (mesh, links)
}

/// How often the node was told that its messages to `to` do not arrive.
fn told_unreachable(mesh: &Mesh, index: usize, to: Did) -> usize {
    let of = |event: &&Event| matches!(event, Event::Unreachable { stream, .. } if stream.destination == to);
    mesh.nodes[index].events.iter().filter(of).count()
}

#[test]
fn law_who_is_in_no_ring_gives_a_message_to_nobody_but_whom_it_is_for() {
    let (mut mesh, [gone, _]) = two_and_a_middle(1);
    let to = mesh.nodes[1].did;
    // The link ends after the send and before the lane.
    mesh.leaving.insert(gone);
    let id = mesh.send(0, to, Class::Application, b"to the first");
    mesh.settle();
    let sent = &mesh.nodes[0].sent[&id];
    assert_eq!(
        sent.as_ref().map_err(Coded::code).err(),
        Some("send/unreachable"),
        "{sent:?}"
    );
    assert!(mesh.refusals(2).is_empty(), "{:?}", mesh.refusals(2));
}

#[test]
fn law_a_message_whose_link_goes_before_its_lane_arrives_or_is_told_not_to() {
    for seed in 1..=2 {
        let (mut mesh, [gone, _]) = two_and_a_middle(seed);
        mesh.join_ring();
        settled(&mut mesh, 5 * MINUTE_MS, &format!("seed {seed}"));
        let to = mesh.nodes[1].did;
        mesh.leaving.insert(gone);
        let id = mesh.send(0, to, Class::Application, b"by another way");
        mesh.run_for(2_000);
        // It went to the other neighbour, which has no way on: a receipt, and a report.
        assert!(mesh.nodes[0].sent[&id].is_ok(), "seed {seed}");
        assert_eq!(told_unreachable(&mesh, 0, to), 1, "seed {seed}");
    }
}

#[test]
fn law_what_a_relay_drops_with_a_link_is_told_to_its_origin() {
    let mut dropped = 0;
    // In one direction the middle lies between the two, and its way back would be a second crossing.
    for (from, to) in [(1, 2), (2, 1)] {
        let (mut mesh, links) = two_and_a_middle(1);
        mesh.join_ring();
        settled(&mut mesh, 5 * MINUTE_MS, "a middle");
        let (middle, did) = (mesh.nodes[0].did, mesh.nodes[to].did);
        let relay = RelayFields {
            next_hop: middle,
            destination: did,
            hop_budget: HOP_BUDGET_MAX,
            handed_off: true,
            reply_via: None,
        };
        let frame = carried(&mesh, from, did, from, relay);
        mesh.leaving.insert(links[to - 1]);
        mesh.inject(from, 0, Class::Storage, frame);
        mesh.run_for(2_000);
        let no_route = WhyUnreachable::NoRoute.code();
        if mesh.refusals(0).contains_key(no_route) {
            dropped += 1;
            // The origin's node did not send it itself, and refuses the report.
            let reports = mesh.refusals(from).get("route/unknown_report").copied();
            assert_eq!(reports, Some(1), "from {from} to {to}");
        }
    }
    assert_eq!(dropped, 1);
}
