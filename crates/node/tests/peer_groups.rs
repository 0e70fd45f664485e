//! Whole peers that carry groups: signed, admitted and kept, on virtual time.

#![allow(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod mesh;

use mesh::Mesh;
use overlane_core::Class;
use overlane_core::identity::Account;
use overlane_core::seal::SealingKey;
use overlane_node::peer::groups::{Ask, GROUPS_NAMESPACE, GroupView, Reply};
use overlane_relay::log::LogId;
use zeroize::Zeroizing;

fn asked(mesh: &mut Mesh, at: usize, ask: Ask) -> Reply {
    let id = mesh.ask_groups(at, ask);
    mesh.run(|mesh| mesh.nodes[at].answered.contains_key(&id));
    mesh.nodes[at]
        .answered
        .remove(&id)
        .expect("it is answered")
        .expect("it is done")
}

/// Node 0 makes a group, and the other joins it.
fn team(mesh: &mut Mesh, member: usize) -> GroupView {
    let create = Ask::Create {
        name: "team".into(),
        hosts: Vec::new(),
    };
    let Reply::Group(made) = asked(mesh, 0, create) else {
        panic!("it is made")
    };
    let account = Account::ed25519(Zeroizing::new([member as u8 + 1; 32])).unwrap();
    let invite = Ask::Invite {
        group: made.group,
        account: account.did(),
        member: SealingKey::of_account(account.key()),
        hosts: false,
    };
    let Reply::Ticket(ticket) = asked(mesh, 0, invite) else {
        panic!("it is invited")
    };
    let join = Ask::Join {
        ticket: *ticket,
        name: None,
    };
    match asked(mesh, member, join) {
        Reply::Group(view) => *view,
        other => panic!("{other:?}"),
    }
}

/// Posts go over signed transactions while either peer crashes, with its replay batch landing or not;
/// messages of the application come between, and nothing of the one is seen by the other.
#[test]
fn law_its_own_namespace_groups_ride_on_transactions_and_are_none_of_the_applications() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut mesh = Mesh::new(2, seed);
        mesh.with_groups(0);
        mesh.with_groups(1);
        mesh.link(0, 1);
        let view = team(&mut mesh, 1);
        assert!(
            view.member && view.follows == Some(mesh.nodes[0].did),
            "{view:?}"
        );
        let group = view.group;
        for number in 0..6_u8 {
            for node in 0..2 {
                let bodies = vec![vec![node as u8, number]];
                let Reply::Posted(_) = asked(&mut mesh, node, Ask::Post { group, bodies }) else {
                    panic!("it is posted")
                };
                let to = mesh.nodes[1 - node].did;
                mesh.send(node, to, Class::Application, &[number]);
            }
            if number % 2 == 1 {
                let crashed = usize::from(number / 2 % 2 == u8::try_from(seed % 2).unwrap());
                mesh.crash(crashed, seed % 3 == 0);
                mesh.start(crashed, true);
                mesh.link(0, 1);
            }
        }
        let log = LogId::group(group);
        let held = |mesh: &mut Mesh, node: usize| {
            let groups = mesh.nodes[node].groups.as_mut().unwrap();
            groups.logs().size(&log).unwrap().0
        };
        for _ in 0..60 {
            if (0..2).all(|node| held(&mut mesh, node) == 12) {
                break;
            }
            let until_ms = mesh.now_ms + 5_000;
            mesh.run(|mesh| mesh.now_ms >= until_ms);
        }
        assert_eq!((held(&mut mesh, 0), held(&mut mesh, 1)), (12, 12));
        for node in &mesh.nodes {
            assert!(
                node.taken.iter().all(|taken| taken.body.len() == 1),
                "{:?}",
                node.taken
            );
        }
    }
}

/// What comes for a keeper that is not there is dropped and counted, and its place is free again.
#[test]
fn group_messages_to_a_node_without_groups_are_dropped_and_counted() {
    let mut mesh = Mesh::new(2, 3);
    mesh.link(0, 1);
    let to = mesh.nodes[1].did;
    for number in 0..300_u16 {
        mesh.send_in(0, to, GROUPS_NAMESPACE, &number.to_be_bytes());
        mesh.settle();
    }
    let unclaimed = mesh.peer(1).counters().unclaimed;
    assert_eq!(unclaimed, 300);
    assert!(mesh.nodes[1].taken.is_empty());
    assert_eq!(mesh.peer(1).queues()[3].0, 0, "no place is held");
}
