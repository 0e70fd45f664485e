//! Messages that travel in chunks, over many interleavings on virtual time.

use overlane_core::lane::chunks::{CHUNKS_IDLE_MS, SETS_PER_LINK_MAX};
use overlane_core::replay::QuotaLimits;
use overlane_core::transaction::{Chunk, ChunkHead, Cutter, Data, Message, Payload};
use overlane_core::transaction::{RelayFields, Terms, Transaction};
use overlane_core::wire::bounds::DATA_MAX_BYTES;
use overlane_core::wire::cbor::to_vec;
use overlane_core::{Class, Did, TxId};
use overlane_node::peer::{Event, PACE};

use crate::mesh::{Mesh, START_MS};
use crate::{Life, Signer};

const LARGE_BYTES: usize = 3 * DATA_MAX_BYTES;

/// More chunks than a lane has places: some have left, some wait, when the link goes.
const LARGER_BYTES: usize = 5 * LARGE_BYTES;

fn large(number: u8) -> Vec<u8> {
    patterned(LARGE_BYTES, number)
}

fn patterned(bytes: usize, number: u8) -> Vec<u8> {
    (0..bytes).map(|at| (at % 253) as u8 ^ number).collect()
}

/// What node 1's application took, in its order.
fn bodies(mesh: &Mesh) -> Vec<Vec<u8>> {
    mesh.nodes[1]
        .taken
        .iter()
        .map(|it| it.body.clone())
        .collect()
}

#[test]
fn law_a_message_in_chunks_keeps_its_place_among_others_and_is_admitted_once() {
    for seed in 0..12 {
        let mut mesh = Mesh::new(2, seed);
        mesh.link(0, 1);
        let to = mesh.nodes[1].did;
        let sent = [
            b"before".to_vec(),
            large(1),
            b"between".to_vec(),
            large(2),
            b"after".to_vec(),
        ];
        for body in &sent {
            mesh.send(0, to, Class::Application, body);
        }
        mesh.settle();
        assert_eq!(bodies(&mesh), sent, "seed {seed}");
        mesh.taken_once(1);
        assert!(
            mesh.refusals(1).is_empty(),
            "seed {seed}: {:?}",
            mesh.refusals(1)
        );
        assert_eq!(mesh.peer(1).in_part(), (0, 0, 0));
        // Five sequences, and no more, whatever the chunks were.
        let counters = *mesh.peer(1).engine().counters();
        assert_eq!(counters.first + counters.advance + counters.late, 5);
        let steps = mesh.nodes[0].events.iter();
        let steps = steps
            .filter(|it| matches!(it, Event::SendProgress { .. }))
            .count();
        assert!(steps > 2 * LARGE_BYTES / (16 * 1024) - 4, "{steps}");
        // The same bytes again: its id is remembered, chunk by chunk.
        let receipt = mesh.nodes[0].receipts()[1].clone();
        mesh.offer(0, &receipt.signed, None);
        mesh.settle();
        assert_eq!(bodies(&mesh), sent, "seed {seed}");
        let refused = mesh.refusals(1);
        assert_eq!(refused.keys().collect::<Vec<_>>(), [&"chunk/finished"]);
        assert_eq!(mesh.peer(1).links().count(), 1);
    }
}

#[test]
fn law_a_message_in_chunks_outlives_its_link() {
    for seed in 0..12 {
        let mut mesh = Mesh::new(2, seed);
        let first = mesh.link(0, 1);
        let to = mesh.nodes[1].did;
        mesh.send(0, to, Class::E2e, &patterned(LARGER_BYTES, 3));
        let part_of_it = |mesh: &Mesh| {
            let steps = mesh.nodes[0].events.iter();
            let steps = steps.filter(|it| matches!(it, Event::SendProgress { .. }));
            steps.count() as u64 > 4 + seed / 4
        };
        mesh.run(part_of_it);
        // Another link is up before the first is gone.
        mesh.link(0, 1);
        mesh.cut(first);
        mesh.settle();
        assert!(bodies(&mesh) == [patterned(LARGER_BYTES, 3)], "seed {seed}");
        assert_eq!(mesh.peer(1).in_part().0, 0, "seed {seed}");
        assert_eq!(mesh.nodes[0].receipts().len(), 1);
    }
}

/// The message pays when its last chunk leaves, so a destination at the default quota never
/// refuses one that an honest sender paced.
#[test]
fn law_pace_holds_for_messages_in_chunks() {
    let mut mesh = Mesh::new(2, 7);
    mesh.link(0, 1);
    let to = mesh.nodes[1].did;
    // More than the burst holds, as large as they may be.
    let body = vec![7; usize::try_from(PACE.burst_bytes).unwrap() / 3 + 1];
    for _ in 0..3 {
        mesh.send(0, to, Class::Storage, &body);
    }
    // A fourth is over the destination's share of the bytes under way until the first has left.
    mesh.run(|mesh| !mesh.nodes[0].sent.is_empty());
    mesh.send(0, to, Class::Storage, &body);
    mesh.settle();
    assert_eq!(mesh.nodes[1].taken.len(), 4);
    assert!(mesh.refusals(1).is_empty(), "{:?}", mesh.refusals(1));
}

const LIFE: Life = Life {
    issued_ms: START_MS,
    ttl_ms: 600_000,
};

/// A message of this sequence, signed at no pace.
fn signed(signer: &Signer, to: Did, number: u64, message: Message<'_>) -> Payload {
    let terms = Terms {
        destination: to,
        tx_id: TxId([4; 16]),
        sequence: number,
        life: LIFE,
    };
    let data = Data::parse_large(to_vec(&message)).unwrap();
    let transaction = Transaction::sign_data(terms, data, signer).unwrap();
    Payload::carry(transaction, RelayFields::direct(to), signer, LIFE).unwrap()
}

fn envelope(signer: &Signer, to: Did, number: u64, head: ChunkHead) -> Vec<u8> {
    let message = Message::Chunk(Chunk {
        head,
        bytes: b"a part",
    });
    signed(signer, to, number, message).to_frame(|_| false)
}

/// The frames of a message's chunks.
fn chunks(signer: &Signer, payload: &Payload) -> Vec<Vec<u8>> {
    let (whole, relay) = (payload.to_frame(|_| false), *payload.relay());
    let cutter = Cutter::new(payload, whole, relay, signer).unwrap();
    let envelope = |index| cutter.chunk(index, relay, signer, LIFE).unwrap();
    let frame = |index| envelope(index).to_frame(|_| false);
    (0..cutter.total()).map(frame).collect()
}

/// What a bound held off was not admitted: once the bound lets it through it is, and once only.
#[test]
fn law_a_message_in_chunks_that_a_bound_refused_may_come_again() {
    let mut mesh = Mesh::new(2, 5);
    mesh.link(0, 1);
    let to = mesh.nodes[1].did;
    let signer = mesh.nodes[0].signer.clone();
    // All that a stream may say at once, which no honest sender does.
    let burst = QuotaLimits::DEFAULT.burst_messages;
    for number in 1..=burst {
        let frame = signed(&signer, to, number, Message::Storage(b"small"));
        mesh.inject(0, 1, Class::Storage, frame.to_frame(|_| false));
    }
    let body = large(6);
    let payload = signed(&signer, to, burst + 1, Message::Storage(&body));
    let offer = |mesh: &mut Mesh| {
        for frame in chunks(&signer, &payload) {
            mesh.inject(0, 1, Class::Storage, frame);
        }
    };
    offer(&mut mesh);
    mesh.run(|mesh| !mesh.refusals(1).is_empty());
    assert_eq!(mesh.refusals(1), [("replay/quota_messages", 1)].into());
    assert_eq!(mesh.peer(1).in_part(), (0, 0, 0));
    // A while later the same chunks come again, and then once more.
    mesh.pass(1_000);
    offer(&mut mesh);
    mesh.settle();
    assert!(bodies(&mesh).last() == Some(&body));
    assert_eq!(mesh.refusals(1), [("replay/quota_messages", 1)].into());
    offer(&mut mesh);
    mesh.settle();
    assert_eq!(mesh.nodes[1].taken.len() as u64, burst + 1);
    assert!(mesh.refusals(1).contains_key("chunk/finished"));
}

#[test]
fn law_a_peer_that_never_ends_its_messages_holds_no_more_than_its_share() {
    let mut mesh = Mesh::new(2, 3);
    mesh.link(0, 1);
    let to = mesh.nodes[1].did;
    let signer = mesh.nodes[0].signer.clone();
    let head = |class, index, total| ChunkHead {
        class,
        index,
        total,
        expiry_ms: START_MS + 600_000,
    };
    let more = 10;
    for number in 0..SETS_PER_LINK_MAX as u64 + more {
        let frame = envelope(&signer, to, number, head(Class::Application, 0, 9));
        mesh.inject(0, 1, Class::Application, frame);
    }
    // Two that make no payload together, of a message that was not there before.
    for index in 0..2 {
        let frame = envelope(&signer, to, 1 << 40, head(Class::Storage, index, 2));
        mesh.inject(0, 1, Class::Storage, frame);
    }
    let link = mesh.peer(1).links().next().unwrap().0;
    mesh.run(|mesh| mesh.refusals(1).values().sum::<u64>() > more);
    let refused = mesh.refusals(1);
    assert!(refused.contains_key("chunk/link_sets"), "{refused:?}");
    assert_eq!(mesh.peer(1).in_part().0, SETS_PER_LINK_MAX);
    assert!(mesh.peer(1).links().any(|(it, _)| it == link));
    // Time gives the places back, and whoever sends goes on.
    mesh.pass(CHUNKS_IDLE_MS);
    mesh.send(0, to, Class::Application, b"after");
    mesh.settle();
    assert_eq!(bodies(&mesh), [b"after".to_vec()]);
    assert_eq!(mesh.peer(1).in_part().0, 0);
    assert!(mesh.peer(1).in_part().2 >= SETS_PER_LINK_MAX as u64);
}

#[test]
fn what_chunks_give_is_checked_as_a_whole() {
    let mut mesh = Mesh::new(2, 3);
    mesh.link(0, 1);
    let to = mesh.nodes[1].did;
    let signer = mesh.nodes[0].signer.clone();
    for index in 0..2 {
        let head = ChunkHead {
            class: Class::E2e,
            index,
            total: 2,
            expiry_ms: START_MS + 600_000,
        };
        mesh.inject(0, 1, Class::E2e, envelope(&signer, to, 5, head));
    }
    mesh.send(0, to, Class::E2e, b"behind");
    mesh.settle();
    assert_eq!(mesh.refusals(1), [("chunk/not_whole", 1)].into());
    assert_eq!(mesh.peer(1).in_part(), (0, 0, 0));
    assert_eq!(bodies(&mesh), [b"behind".to_vec()]);
    assert_eq!(
        mesh.peer(1).links().count(),
        1,
        "its origin's doing, not the link's"
    );
}
