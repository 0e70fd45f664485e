//! Peers that lie to a whole node, or whose clock does: each refused with its code, and nothing changed.

use overlane_core::identity::CLOCK_SKEW_MS;
use overlane_core::ring::{RequestId, RingMessage};
use overlane_core::transaction::{Draft, Message, Payload, RelayFields, Transaction};
use overlane_core::{Class, Did, TxId};

use crate::mesh::Mesh;
use crate::{MINUTE_MS, life, ring_of, settled};

/// What node `from` asked whom it takes for its successor last, of all that an idle node overheard.
fn asked(mesh: &Mesh, from: usize) -> Option<RequestId> {
    let asks = |frame: &Vec<u8>| {
        let payload = Payload::from_frame(frame).ok()?;
        let Message::Control(body) = payload.transaction().data().message() else {
            return None;
        };
        match RingMessage::from_body(body) {
            Ok(RingMessage::Ask { id }) => Some(id),
            _ => None,
        }
    };
    let heard = mesh.told_idle.iter().rev();
    let heard = heard.filter(|(by, _)| *by == from);
    heard.map(|(_, frame)| frame).find_map(asks)
}

/// The liar says this to node 0, which it signed.
fn says(mesh: &mut Mesh, liar: usize, message: &RingMessage) {
    let body = message.to_body();
    let said = mesh.nodes[0].store.writes() + mesh.refusals(0).values().sum::<u64>();
    let draft = Draft {
        destination: mesh.nodes[0].did,
        tx_id: TxId([7; 16]),
        sequence: (1 << 61) + said,
        message: Message::Control(&body),
        life: life(),
    };
    let signer = &mesh.nodes[liar].signer;
    let transaction = Transaction::sign(&draft, signer).unwrap();
    let relay = RelayFields::direct(draft.destination);
    let payload = Payload::carry(transaction, relay, signer, draft.life).unwrap();
    mesh.inject(liar, 0, Class::Control, payload.to_frame(|_| false));
    mesh.run_for(10);
}

#[test]
fn law_what_a_successor_lies_about_its_neighbours_is_refused_and_changes_nothing() {
    let mut mesh = ring_of(3, 31);
    settled(&mut mesh, 5 * MINUTE_MS, "three");
    let first = mesh.peer(0).ring().unwrap().members().first().unwrap();
    let liar = mesh
        .nodes
        .iter()
        .position(|node| node.did == first)
        .unwrap();
    mesh.idle.insert(liar);
    mesh.run(|mesh| asked(mesh, 0).is_some());
    let id = asked(&mesh, 0).unwrap();
    let before = mesh.peer(0).ring().unwrap().members().clone();
    let (own, other) = (mesh.nodes[0].did, mesh.nodes[3 - liar].did);
    let state = |id, predecessor, successors| RingMessage::State {
        id,
        predecessor: Some(predecessor),
        successors,
    };
    let unasked = RequestId(id.0.wrapping_add(99));
    let lies = [
        ("ring/disordered", state(id, own, vec![own, other])),
        ("ring/disordered", state(id, own, vec![other, other])),
        ("ring/other_answer", RingMessage::Pong { id, hops: 1 }),
        ("ring/unasked", state(unasked, own, vec![other])),
        (
            "ring/disordered",
            RingMessage::Leave {
                predecessor: None,
                successors: vec![first],
            },
        ),
    ];
    for (code, lie) in lies {
        let refused = |mesh: &Mesh| mesh.refusals(0).get(code).copied().unwrap_or(0);
        let counted = refused(&mesh);
        says(&mut mesh, liar, &lie);
        assert_eq!(refused(&mesh), counted + 1, "{code}: {lie:?}");
        assert_eq!(*mesh.peer(0).ring().unwrap().members(), before, "{lie:?}");
    }
    // One that nobody is behind is asked, and is no successor until it answers.
    let mut nobody = own;
    nobody.0[19] = nobody.0[19].wrapping_add(1);
    says(&mut mesh, liar, &state(id, nobody, vec![other]));
    let members = |mesh: &mut Mesh| mesh.peer(0).ring().unwrap().members().clone();
    assert_eq!(members(&mut mesh).first(), Some(first));
    mesh.run_for(MINUTE_MS);
    let named: Vec<Did> = members(&mut mesh).successors().to_vec();
    assert!(!named.contains(&nobody), "{named:?}");
    assert!(mesh.peer(0).counters().links_cut.is_empty());
}

#[test]
fn a_node_whose_clock_is_off_by_more_than_the_skew_is_refused_until_it_is_right() {
    for (ahead_ms, taken) in [(CLOCK_SKEW_MS - 1, true), (CLOCK_SKEW_MS + 1, false)] {
        let mut mesh = Mesh::new(2, 32);
        mesh.link(0, 1);
        let [wrong, right] = [mesh.nodes[0].did, mesh.nodes[1].did];
        mesh.nodes[0].ahead_ms = ahead_ms;
        mesh.send(0, right, Class::Application, b"from the future");
        mesh.settle();
        assert_eq!(mesh.nodes[1].taken.len(), usize::from(taken), "{ahead_ms}");
        let refused = mesh.refusals(1).get("payload/from_the_future").copied();
        assert_eq!(refused, (!taken).then_some(1), "{ahead_ms}");
        // For it, the others are only late.
        mesh.send(1, wrong, Class::Application, b"from the past");
        mesh.settle();
        assert_eq!(mesh.nodes[0].taken.len(), 1);
        mesh.nodes[0].ahead_ms = 0;
        mesh.send(0, right, Class::Application, b"in time");
        mesh.settle();
        assert_eq!(mesh.nodes[1].taken.last().unwrap().body, b"in time");
        assert!(mesh.peer(1).counters().links_cut.is_empty());
    }
}
