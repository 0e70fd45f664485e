//! The space that all holders of a log share, whatever its numbers at each.

use crate::support::*;
use overlane_recon::{End, ItemSet, Limits, RECORD_BYTES};
use overlane_relay::log::bounds::EXCHANGES_MAX;
use overlane_relay::log::{Frame, Mutant, Space, Turn};

const POSTS: u64 = 6_000;

/// Two hosts that numbered apart: each lacks a few posts that the other has.
fn hosts() -> Mesh {
    let rules = Plain::of(&[1, 2], &[8, 9]);
    let mut mesh = Mesh::of([(8, node(rules.clone())), (9, node(rules))]);
    for number in 0..POSTS {
        for (host, lacks) in [(8, 0), (9, 1)] {
            // The other heard them in another order.
            let number = if host == 8 {
                number
            } else {
                POSTS - 1 - number
            };
            let host = mesh.at(host);
            if number % 2_000 != lacks {
                host.post(LOG, envelope(2, number), peer(2), NOW_MS)
                    .unwrap();
            }
            if host.is_full() {
                host.flush(NOW_MS).unwrap();
            }
        }
    }
    mesh.settle();
    mesh
}

/// Rounds, and the bytes of the answering host's index that they took, together.
fn reconcile(mesh: &mut Mesh) -> (u64, u64) {
    let before = mesh.at(9).store().index_bytes(&LOG);
    mesh.at(8).start_sync(LOG, did(9), NOW_MS).unwrap();
    mesh.settle();
    let report = mesh.reports(8).pop().unwrap();
    assert_eq!(report.end, Some(End::Settled), "{report:?}");
    assert_eq!(mesh.ids(8), mesh.ids(9));
    assert_eq!(mesh.ids(8).len() as u64, POSTS);
    let bytes = mesh.at(9).store().index_bytes(&LOG) - before;
    (u64::from(report.rounds), bytes)
}

#[test]
fn law_logs_the_shared_space_is_answered_without_loading_the_log() {
    let whole = POSTS * RECORD_BYTES as u64;
    let mut mesh = hosts();
    let (rounds, bytes) = reconcile(&mut mesh);
    assert!(rounds >= 3, "{rounds}");
    // Everything is hashed once, and then the parts that differ.
    assert!(bytes < 2 * whole, "{bytes} of {whole} in {rounds} rounds");
    // The same is asked again when nothing changed: once more to learn the new ranges, and then nothing.
    reconcile(&mut mesh);
    let (rounds, bytes) = reconcile(&mut mesh);
    assert_eq!((rounds, bytes), (1, 0));
    // Broken, each round reads every name.
    let mut mesh = hosts();
    mesh.at(9).break_rule(Mutant::LoadTheShared);
    let (rounds, bytes) = reconcile(&mut mesh);
    assert!(
        bytes >= rounds * (whole - 40 * 3),
        "{bytes} in {rounds} rounds"
    );
    assert!(bytes > 2 * whole);
    assert!(reconcile(&mut mesh).1 >= whole);
}

/// Answering holds no log in memory, so what this host drives itself keeps nobody waiting.
#[test]
fn law_logs_a_host_that_drives_as_many_reconciliations_as_it_may_answers_in_the_shared_space() {
    let others: Vec<u8> = (20..20 + EXCHANGES_MAX as u8).collect();
    let holders = [&[8, 9], &others[..]].concat();
    let mut host = node(Plain::of(&[1, 2], &holders));
    for number in 0..10 {
        host.post(LOG, envelope(2, number), peer(2), NOW_MS)
            .unwrap();
    }
    for other in &others {
        host.start_sync(LOG, did(*other), NOW_MS).unwrap();
    }
    host.flush(NOW_MS).unwrap();
    assert_eq!(host.syncing(), EXCHANGES_MAX);
    let Ok(payload) = overlane_recon::initiate(&mut ItemSet::new(), &Limits::default());
    let ask = Frame::Recon {
        log: LOG,
        space: Space::Shared,
        turn: Turn::Ask,
        payload: &payload,
    };
    host.handle_frame(peer(8), &ask.to_bytes(), NOW_MS).unwrap();
    host.flush(NOW_MS).unwrap();
    let mut told = owed(&mut host);
    told.retain(|it| it.to == did(8));
    let words = words(&told);
    assert_eq!(words.len(), 11, "{words:?}");
    assert_eq!(words.last().unwrap(), "recon");
}
