//! Messages in chunks: what an envelope costs, and the bounds of reassembly.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use overlane_core::identity::{Account, Delegatee, Delegation, Life, Signer, VerifyContext};
use overlane_core::lane::chunks::*;
use overlane_core::replay::Now;
use overlane_core::transaction::{
    Chunk, ChunkHead, Cutter, Data, Message, Payload, RelayFields, Terms, Transaction,
};
use overlane_core::wire::bounds::{
    CHUNK_FRAME_BYTES, CHUNKS_MAX, DATA_MAX_BYTES, MESSAGE_MAX_BYTES, PAYLOAD_OVERHEAD_MAX_BYTES,
};
use overlane_core::wire::cbor::to_vec;
use overlane_core::{Class, Coded, Did, NetworkId, TxId};
use zeroize::Zeroizing;

const NETWORK: NetworkId = NetworkId(7);
const NOW_MS: u64 = 1_900_000_000_000;
const LIFE: Life = Life {
    issued_ms: NOW_MS,
    ttl_ms: 600_000,
};

fn at(ms: u64) -> Now {
    Now {
        wall_ms: NOW_MS + ms,
        steady_ms: ms,
    }
}

fn context() -> VerifyContext {
    VerifyContext {
        network: NETWORK,
        now_ms: NOW_MS,
    }
}

fn signer(account: &Account) -> Signer {
    let delegatee = Delegatee::from_seed(Zeroizing::new([9; 32]));
    let delegation = Delegation::issue(account, &delegatee, NETWORK, LIFE).unwrap();
    Signer::new(delegatee, delegation.verify(&context()).unwrap()).unwrap()
}

/// A signed payload that says `body`, and what it is written as.
fn payload(signer: &Signer, body: &[u8]) -> (Payload, Vec<u8>) {
    let destination = Did([3; 20]);
    let message = Message::Storage(body);
    let terms = Terms {
        destination,
        tx_id: TxId([5; 16]),
        sequence: 77,
        life: LIFE,
    };
    let data = Data::parse_large(to_vec(&message)).unwrap();
    let transaction = Transaction::sign_data(terms, data, signer).unwrap();
    let relay = RelayFields::direct(destination);
    let payload = Payload::carry(transaction, relay, signer, LIFE).unwrap();
    let whole = payload.to_frame(|_| false);
    (payload, whole)
}

/// The largest that two numbers of its head may shorten a frame by.
const HEADS_BYTES: usize = 4;

#[test]
fn law_measured_every_chunk_but_the_last_fills_its_frame_s19() {
    let accounts = [
        Account::ed25519(Zeroizing::new([1; 32])).unwrap(),
        Account::secp256k1(Zeroizing::new([1; 32])).unwrap(),
    ];
    for account in accounts {
        let signer = signer(&account);
        for body_bytes in [DATA_MAX_BYTES, 300_000, 5_000_000] {
            let body: Vec<u8> = (0..body_bytes).map(|at| (at % 251) as u8).collect();
            let (payload, whole) = payload(&signer, &body);
            let relay = *payload.relay();
            let cutter = Cutter::new(&payload, whole.as_slice(), relay, &signer).unwrap();
            let mut gathered = Vec::new();
            for index in 0..cutter.total() {
                let envelope = cutter.chunk(index, relay, &signer, LIFE).unwrap();
                let frame = envelope.to_frame(|_| false);
                assert!(frame.len() <= CHUNK_FRAME_BYTES, "{index}: {}", frame.len());
                let last = index + 1 == cutter.total();
                assert!(
                    last || frame.len() + HEADS_BYTES >= CHUNK_FRAME_BYTES,
                    "{index}"
                );
                let mut read = Payload::from_frame(&frame).unwrap();
                read.resolve(|_| None).unwrap();
                let verified = read.verify(&context()).unwrap();
                assert_eq!(verified.sequence(), 77);
                assert_eq!(verified.class(), Class::Storage);
                let Message::Chunk(chunk) = verified.message() else {
                    panic!("no chunk");
                };
                assert_eq!(chunk.head.expiry_ms, LIFE.last_ms());
                gathered.extend_from_slice(chunk.bytes);
                // What was signed for a chunk is no signed header: no fork can be shown with it.
                assert!(verified.header().verify().is_err());
            }
            assert_eq!(gathered, whole);
            let mut read = Payload::from_whole(&gathered).unwrap();
            read.resolve(|_| None).unwrap();
            let verified = read.verify(&context()).unwrap();
            assert_eq!(verified.message().body(), body);
            assert_eq!(verified.sequence(), 77);
        }
    }
}

#[test]
fn the_largest_message_fits_its_chunks_and_one_byte_more_is_refused() {
    let signer = signer(&Account::ed25519(Zeroizing::new([1; 32])).unwrap());
    let head = to_vec(&Message::Storage(&vec![0; DATA_MAX_BYTES * 2])).len() - DATA_MAX_BYTES * 2;
    let mut body = vec![0; MESSAGE_MAX_BYTES - head];
    let (payload, whole) = payload(&signer, &body);
    let cutter = Cutter::new(&payload, whole, *payload.relay(), &signer).unwrap();
    assert!(cutter.total() <= CHUNKS_MAX);
    body.push(0);
    assert!(Data::parse_large(to_vec(&Message::Storage(&body))).is_err());
}

#[test]
fn only_what_is_too_large_for_a_frame_is_a_whole() {
    let signer = signer(&Account::ed25519(Zeroizing::new([1; 32])).unwrap());
    let (_, small) = payload(&signer, b"small");
    assert!(Payload::from_frame(&small).is_ok());
    assert!(Payload::from_whole(&small).is_err());
    let (_, large) = payload(&signer, &vec![0; DATA_MAX_BYTES]);
    assert!(Payload::from_whole(&large).is_ok());
    // Data over its bound in a frame that is not over its own.
    assert!(large.len() < DATA_MAX_BYTES + PAYLOAD_OVERHEAD_MAX_BYTES);
    assert_eq!(
        Payload::from_frame(&large).unwrap_err().code(),
        "payload/malformed"
    );
}

fn of(number: u64) -> ChunksOf {
    ChunksOf {
        origin: Did([1; 20]),
        class: Class::Application,
        sequence: number,
        tx_id: TxId([2; 16]),
    }
}

fn chunk(index: u32, total: u32, bytes: &[u8]) -> Chunk<'_> {
    Chunk {
        head: ChunkHead {
            class: Class::Application,
            index,
            total,
            expiry_ms: NOW_MS + 600_000,
        },
        bytes,
    }
}

type Table = Chunks<u64>;

#[test]
fn law_chunks_in_any_order_and_repeated_make_one_message() {
    let mut table = Table::default();
    for (index, gathered) in [
        (2, Gathered::Waits),
        (0, Gathered::Waits),
        (2, Gathered::Again),
    ] {
        let bytes = [index as u8; 3];
        let taken = table.take(1, of(1), &chunk(index, 3, &bytes), at(0));
        assert_eq!(taken, Ok(gathered));
    }
    let whole = table.take(9, of(1), &chunk(1, 3, &[1; 3]), at(0));
    assert_eq!(whole, Ok(Gathered::Whole(vec![0, 0, 0, 1, 1, 1, 2, 2, 2])));
    assert_eq!(table.sets(), 0);
    // It counts until it is let go, and is not made again.
    assert!(table.held_bytes() > 0);
    table.release(&of(1));
    assert_eq!(table.held_bytes(), 0);
    let again = table.take(1, of(1), &chunk(0, 3, &[0; 3]), at(0));
    assert_eq!(again, Err(ChunkRefusal::Finished));
}

/// A bound, the store or the link's end kept it from being admitted.
#[test]
fn law_what_was_whole_and_not_admitted_may_come_again() {
    let mut table = Table::default();
    let make = |table: &mut Table, number| {
        table.take(1, of(number), &chunk(0, 2, b"a"), at(0))?;
        table.take(1, of(number), &chunk(1, 2, b"b"), at(0))
    };
    let whole = || Ok(Gathered::Whole(b"ab".to_vec()));
    assert_eq!(make(&mut table, 1), whole());
    assert_eq!(make(&mut table, 2), whole());
    assert_eq!(make(&mut table, 1), Err(ChunkRefusal::Finished));
    table.release(&of(1));
    table.reopen(&of(1));
    assert_eq!(make(&mut table, 1), whole());
    // Of the other one nothing is known but that its link is gone.
    table.release(&of(1));
    table.drop_link(1);
    assert_eq!(table.held_bytes(), 0);
    assert_eq!(make(&mut table, 2), whole());
    assert_eq!(make(&mut table, 1), Err(ChunkRefusal::Finished));
}

#[test]
fn law_expiry_is_judged_first_and_disagreeing_chunks_are_refused() {
    let mut table = Table::default();
    table.take(1, of(1), &chunk(0, 3, b"a"), at(0)).unwrap();
    let disagrees = Err(ChunkRefusal::Disagrees);
    assert_eq!(table.take(1, of(1), &chunk(1, 4, b"b"), at(0)), disagrees);
    assert_eq!(table.take(1, of(1), &chunk(0, 3, b"b"), at(0)), disagrees);
    let mut later = chunk(1, 3, b"b");
    later.head.expiry_ms += 1;
    assert_eq!(table.take(1, of(1), &later, at(0)), disagrees);
    // Nobody else's chunk is the same message's.
    let mut stranger = of(1);
    stranger.origin = Did([9; 20]);
    let other = table.take(1, stranger, &chunk(1, 3, b"b"), at(0));
    assert_eq!(other, Ok(Gathered::Waits));
    // A message of this id that is over is over, whatever else is wrong.
    let expired = ChunkRefusal::Expired {
        expiry_ms: NOW_MS + 600_000,
    };
    assert_eq!(
        table.take(1, of(1), &chunk(1, 4, b"b"), at(600_001)),
        Err(expired)
    );
    assert_eq!(table.sets(), 0, "what expired is held no more");
    assert_eq!(table.held_bytes(), 0);
}

#[test]
fn law_sets_that_stand_still_are_given_up_and_may_begin_again() {
    let mut table = Table::default();
    table.take(1, of(1), &chunk(0, 2, b"a"), at(0)).unwrap();
    assert_eq!(table.due_ms(), Some(CHUNKS_IDLE_MS));
    table.give_up(at(CHUNKS_IDLE_MS - 1));
    assert_eq!(table.sets(), 1);
    table.give_up(at(CHUNKS_IDLE_MS));
    assert_eq!(
        (table.sets(), table.held_bytes(), table.given_up()),
        (0, 0, 1)
    );
    table
        .take(1, of(1), &chunk(1, 2, b"b"), at(CHUNKS_IDLE_MS))
        .unwrap();
    let whole = table.take(1, of(1), &chunk(0, 2, b"a"), at(CHUNKS_IDLE_MS));
    assert_eq!(whole, Ok(Gathered::Whole(b"ab".to_vec())));
}

/// A sender that takes a large message back in the middle says nothing of the rest: what came of it keeps
/// no place from the next message of its lane.
#[test]
fn law_a_set_that_its_lane_has_passed_makes_room() {
    let part = vec![0; 1 << 20];
    let mut table = Table::default();
    for index in 0..40 {
        table
            .take(1, of(1), &chunk(index, 57, &part), at(0))
            .unwrap();
    }
    // The first one was taken back. The next is as large as a message may be, and fits with half of it.
    let mut at_ms = 0;
    for index in 0..57 {
        at_ms += 30;
        let taken = table.take(1, of(2), &chunk(index, 57, &part), at(at_ms));
        assert!(taken.is_ok(), "chunk {index}: {taken:?}");
    }
    assert_eq!((table.sets(), table.given_up()), (0, 1));
    // Who only stands still, is another's, came another way or is the later one, has its whole time.
    let mut table = Table::default();
    let mut other = of(5);
    other.origin = Did([9; 20]);
    let mut class = of(5);
    class.class = Class::Storage;
    for (link, of) in [(1, of(6)), (2, of(4)), (1, other), (1, class)] {
        table.take(link, of, &chunk(0, 2, b"a"), at(0)).unwrap();
    }
    table.take(1, of(5), &chunk(0, 3, b"a"), at(0)).unwrap();
    table.take(1, of(5), &chunk(1, 3, b"a"), at(10)).unwrap();
    table.give_up(at(10 + CHUNKS_PASSED_MS));
    assert_eq!((table.sets(), table.given_up()), (5, 0));
}

#[test]
fn law_sets_and_bytes_are_bounded_for_a_link_and_for_the_node() {
    let mut table = Table::default();
    for number in 0..SETS_PER_LINK_MAX as u64 {
        table
            .take(1, of(number), &chunk(0, 2, b"a"), at(0))
            .unwrap();
    }
    let refused = table.take(1, of(1 << 40), &chunk(0, 2, b"a"), at(0));
    assert_eq!(refused, Err(ChunkRefusal::LinkSets));
    // One that is there already goes on.
    let whole = table.take(1, of(0), &chunk(1, 2, b"b"), at(0));
    assert_eq!(whole, Ok(Gathered::Whole(b"ab".to_vec())));
    let mut number = 1_000;
    let mut link = 2;
    while table.sets() < SETS_MAX {
        number += 1;
        match table.take(link, of(number), &chunk(0, 2, b"a"), at(0)) {
            Ok(_) => {}
            Err(refused) => {
                assert_eq!(refused, ChunkRefusal::LinkSets);
                link += 1;
            }
        }
    }
    let refused = table.take(99, of(1 << 41), &chunk(0, 2, b"a"), at(0));
    assert_eq!(refused, Err(ChunkRefusal::NodeSets));

    let part = vec![0; 1 << 20];
    let mut table = Table::default();
    let mut refusals = Vec::new();
    for link in 0..6 {
        let mut index = 0;
        let refused = loop {
            let number = link * 1_000 + u64::from(index) / 50;
            match table.take(link, of(number), &chunk(index % 50, 60, &part), at(0)) {
                Ok(_) => index += 1,
                Err(refused) => break refused,
            }
        };
        refusals.push(refused);
        assert!(table.held_bytes() <= CHUNKS_MAX_BYTES);
    }
    assert_eq!(refusals[..3], [ChunkRefusal::LinkBytes; 3]);
    assert_eq!(refusals[4..], [ChunkRefusal::NodeBytes; 2]);
}

#[test]
fn law_an_endless_set_is_given_up_at_the_largest_message() {
    let mut table = Table::default();
    let part = vec![0; 1 << 20];
    let mut index = 0;
    let refused = loop {
        match table.take(1, of(1), &chunk(index, CHUNKS_MAX, &part), at(0)) {
            Ok(_) => index += 1,
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, ChunkRefusal::TooLarge);
    assert_eq!(table.held_bytes(), 0);
    let again = table.take(1, of(1), &chunk(index, CHUNKS_MAX, b""), at(0));
    assert_eq!(again, Err(ChunkRefusal::Finished));
}

#[test]
fn law_finished_ids_are_remembered_up_to_the_bound() {
    let mut table = Table::default();
    for number in 0..=TOMBSTONES_MAX as u64 {
        for index in 0..2 {
            table
                .take(1, of(number), &chunk(index, 2, b"a"), at(0))
                .unwrap();
        }
        table.release(&of(number));
    }
    let newest = table.take(1, of(TOMBSTONES_MAX as u64), &chunk(0, 2, b"a"), at(0));
    assert_eq!(newest, Err(ChunkRefusal::Finished));
    // The replay window refuses what a forgotten tombstone lets through.
    let oldest = table.take(1, of(0), &chunk(0, 2, b"a"), at(0));
    assert_eq!(oldest, Ok(Gathered::Waits));
}
