//! Whole peers that carry references: signed, admitted and committed, on virtual time.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod mesh;

use mesh::Mesh;
use overlane_core::Class;
use overlane_node::peer::refs::{Ask, AskId, Effect, ReferenceError, Reply};
use overlane_relay::refs::table::{Local, LocalPromise};
use overlane_relay::refs::wire::{Body, Outcome};

fn answer(mesh: &Mesh, at: usize, id: AskId) -> Result<Reply, ReferenceError> {
    let told = mesh.nodes[at].told.iter();
    let mut answers = told.filter_map(|told| match told {
        Effect::Answer(of, answer) if *of == id => Some(answer.clone()),
        _ => None,
    });
    answers.next().expect("it is answered")
}

fn asked(mesh: &mut Mesh, at: usize, ask: Ask) -> Result<Reply, ReferenceError> {
    let id = mesh.ask_references(at, ask);
    // Acknowledgements go on as long as time does; this only lets happen what can.
    mesh.run(|mesh| {
        let told = &mesh.nodes[at].told;
        told.iter()
            .any(|told| matches!(told, Effect::Answer(of, _) if *of == id))
    });
    answer(mesh, at, id)
}

fn became(mesh: &Mesh, at: usize, promise: LocalPromise) -> Option<Outcome<Local>> {
    mesh.nodes[at].told.iter().find_map(|told| match told {
        Effect::Became {
            promise: of,
            outcome,
        } if *of == promise => Some(match outcome {
            Outcome::Reference(handle) => Outcome::Reference(handle.local),
            Outcome::Data(body) => Outcome::Data(Body::data(&body.bytes)),
            other => panic!("{other:?}"),
        }),
        _ => None,
    })
}

fn call(mesh: &mut Mesh, at: usize, ask: Ask) -> Outcome<Local> {
    let Ok(Reply::Promise(promise)) = asked(mesh, at, ask) else {
        panic!("it is sent");
    };
    mesh.run(|mesh| {
        // Whoever is called echoes.
        became(mesh, at, promise).is_some() || mesh.nodes.iter().any(has_open_call)
    });
    while became(mesh, at, promise).is_none() {
        echo(mesh);
        mesh.run(|mesh| {
            became(mesh, at, promise).is_some() || mesh.nodes.iter().any(has_open_call)
        });
    }
    became(mesh, at, promise).unwrap()
}

fn has_open_call(node: &mesh::SimNode) -> bool {
    node.told.iter().any(|told| matches!(told, Effect::Call(_)))
}

fn echo(mesh: &mut Mesh) {
    for at in 0..mesh.nodes.len() {
        let told = std::mem::take(&mut mesh.nodes[at].told);
        let (calls, rest): (Vec<_>, Vec<_>) = told
            .into_iter()
            .partition(|told| matches!(told, Effect::Call(_)));
        mesh.nodes[at].told = rest;
        for told in calls {
            if let Effect::Call(call) = told {
                let outcome = Outcome::Data(Body::data(&call.body.bytes));
                mesh.ask_references(
                    at,
                    Ask::Answer {
                        call: call.id,
                        outcome,
                    },
                );
            }
        }
    }
}

/// Calls go over signed transactions and come back while either peer crashes, with its replay
/// records and its references landing or not; messages of the application come between, and nothing
/// of the one is seen by the other.
#[test]
fn law_its_own_namespace_references_ride_on_transactions_and_are_none_of_the_applications() {
    for seed in 0..8 {
        println!("seed {seed}");
        let mut mesh = Mesh::new(2, seed);
        mesh.with_references(0);
        mesh.with_references(1);
        mesh.link(0, 1);
        let (zero, one) = (mesh.nodes[0].did, mesh.nodes[1].did);
        let Ok(Reply::Handle(own)) = asked(&mut mesh, 0, Ask::Export) else {
            panic!("it is exported");
        };
        let keep = Ask::Keep {
            local: own.local,
            note: Vec::new(),
        };
        let Ok(Reply::Kept(token)) = asked(&mut mesh, 0, keep) else {
            panic!("it is kept");
        };
        let digest = blake3::derive_key("overlane reference ticket", &[5; 32]);
        asked(&mut mesh, 0, Ask::Admit(token, digest)).unwrap();
        let Outcome::Reference(target) = call(&mut mesh, 1, Ask::Redeem(zero, [5; 32])) else {
            panic!("it is redeemed");
        };
        let keep = Ask::Keep {
            local: target,
            note: Vec::new(),
        };
        assert!(matches!(asked(&mut mesh, 1, keep), Ok(Reply::Kept(_))));
        for number in 0..6_u8 {
            mesh.send(1, zero, Class::Application, &[number]);
            mesh.send(0, one, Class::Application, &[number]);
            let send = Ask::Send {
                target,
                bytes: vec![number],
                refs: Vec::new(),
            };
            let outcome = call(&mut mesh, 1, send);
            assert_eq!(outcome, Outcome::Data(Body::data(&[number])));
            let at = usize::from(number % 2);
            mesh.crash(at, seed % 2 == 0);
            mesh.start(at, true);
            mesh.link(0, 1);
            if at == 0 {
                mesh.ask_references(0, Ask::Attach(token));
            }
        }
        mesh.settle();
        for at in [0, 1] {
            mesh.taken_once(at);
            let bodies = mesh.nodes[at].taken.iter().map(|taken| taken.body.len());
            assert!(bodies.clone().count() > 0);
            assert!(bodies.max() == Some(1), "nothing of references is taken");
            assert!(
                mesh.nodes[at].receipts().len() <= 12,
                "nor is it told as sent"
            );
        }
    }
}

#[test]
fn law_no_store_no_service_for_references() {
    let mut mesh = Mesh::new(2, 0);
    mesh.with_references(1);
    mesh.link(0, 1);
    let zero = mesh.nodes[0].did;
    assert_eq!(
        asked(&mut mesh, 0, Ask::Export),
        Err(ReferenceError::NoStore)
    );
    let id = mesh.ask_references(1, Ask::Redeem(zero, [0; 32]));
    mesh.settle();
    let refused = answer(&mesh, 1, id).unwrap_err();
    assert!(
        matches!(refused, ReferenceError::NoAnswer { .. }),
        "{refused:?}"
    );
    assert!(
        mesh.nodes[0].taken.is_empty(),
        "the application sees none of it"
    );
    assert!(mesh.peer(0).counters().unclaimed > 0);
    let places = mesh.peer(0).queues();
    assert_eq!(places[3].0, 0, "no place is held");
}
