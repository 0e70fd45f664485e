//! Admission receipts: durable first, the origin's alone, bounded.

use overlane_core::receipt::Entered;
use overlane_core::{Class, TransactionDigest};
use overlane_node::peer::{Admission, RECEIPTS_OWED_MAX, RECEIPTS_WAITED_MAX, Receipt};

use crate::mesh::Mesh;

fn of(sent: &Receipt) -> Admission {
    Admission {
        stream: sent.stream,
        sequence: sent.sequence,
        digest: sent.digest,
    }
}

#[test]
pub(super) fn law_a_receipt_is_signed_of_what_no_crash_takes_back() {
    let mut restored = 0;
    for seed in 0..60 {
        let mut mesh = Mesh::new(2, seed);
        mesh.link(0, 1);
        let to = mesh.nodes[1].did;
        for number in 0..6_u64 {
            let class = Class::ALL[usize::try_from((seed + number) % 4).unwrap()];
            mesh.send(0, to, class, &number.to_be_bytes());
            let sent = mesh.nodes[0].receipts().len();
            mesh.run(|mesh| mesh.nodes[0].receipts().len() > sent);
            if let Some(sent) = mesh.nodes[0].receipts().last() {
                assert!(mesh.ask_receipt(0, of(sent)));
            }
        }
        let wanted = usize::try_from(seed % 6).unwrap();
        mesh.run(|mesh| mesh.nodes[0].proofs.len() > wanted);
        mesh.crash(1, false);
        mesh.start(1, true);
        for proof in mesh.nodes[0].proofs.clone() {
            let engine = mesh.peer(1).engine();
            let record = engine.receiver(&proof.stream);
            let kept = record.and_then(|record| record.window.at(proof.sequence));
            assert_eq!(
                kept,
                Some(proof.digest),
                "seed {seed}: a crash took back what a receipt is of"
            );
        }
        // What the window still knows is answered after the start, too; what was lost is not.
        mesh.link(0, 1);
        let proofs = mesh.nodes[0].proofs.len();
        for sent in mesh.nodes[0].receipts() {
            assert!(mesh.ask_receipt(0, of(&sent)));
        }
        mesh.settle();
        let answered = mesh.nodes[0].proofs.split_off(proofs);
        for proof in answered {
            restored += usize::from(proof.entered == Entered::Before);
            let record = mesh.peer(1).engine().receiver(&proof.stream);
            let kept = record.and_then(|record| record.window.at(proof.sequence));
            assert_eq!(kept, Some(proof.digest), "seed {seed}");
        }
    }
    assert!(restored > 60, "{restored}");
}

#[test]
fn receipts_are_given_to_the_origin_alone_and_what_waits_is_bounded() {
    let mut mesh = Mesh::new(3, 7);
    mesh.link(0, 1);
    mesh.link(2, 1);
    let to = mesh.nodes[1].did;
    mesh.send(0, to, Class::Storage, b"mine");
    mesh.settle();
    let sent = mesh.nodes[0].receipts().remove(0);
    // Another asks for it under its own name: there is no such transaction.
    let other = mesh.nodes[2].did;
    let mut forged = of(&sent);
    forged.stream.origin = other;
    assert!(mesh.ask_receipt(2, forged));
    mesh.settle();
    assert!(mesh.nodes[2].proofs.is_empty());
    assert!(mesh.ask_receipt(0, of(&sent)));
    mesh.settle();
    let [proof] = mesh.nodes[0].proofs.as_slice() else {
        panic!("one receipt");
    };
    assert_eq!((proof.digest, proof.entered), (sent.digest, Entered::First));
    assert_eq!(
        mesh.taken_once(1).len(),
        1,
        "nothing of it reaches an application"
    );

    for number in 0..RECEIPTS_WAITED_MAX + 10 {
        let mut never = of(&sent);
        never.digest = TransactionDigest([u8::try_from(number % 251).unwrap(); 32]);
        never.sequence = number as u64;
        assert_eq!(
            mesh.ask_receipt(0, never),
            number < RECEIPTS_WAITED_MAX,
            "{number}"
        );
        mesh.settle();
    }
    let (owed, waited, remembered) = mesh.peer(1).receipts();
    assert_eq!((waited, remembered), (0, 1));
    assert_eq!(owed, RECEIPTS_OWED_MAX);
    assert_eq!(mesh.peer(0).receipts().1, RECEIPTS_WAITED_MAX);
    // The one that was forgotten first is asked for again, and waits.
    mesh.peer(0).give_up_receipt(&forged);
}
