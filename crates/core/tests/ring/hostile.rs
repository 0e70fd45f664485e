//! Nodes that lie: what they say changes nothing, and has its code.

use overlane_core::Did;
use overlane_core::ring::bounds::{REQUESTS_MAX, SILENT_MAX};
use overlane_core::ring::{RequestId, Ring, RingAction, RingConfig, RingError, RingMessage};

fn did(first: u8) -> Did {
    let mut bytes = [0; 20];
    bytes[0] = first;
    Did(bytes)
}

/// Node 100, linked to 150, which it takes for its successor, with what it asked last.
struct Node {
    ring: Ring,
    now_ms: u64,
}

impl Node {
    fn joined() -> Self {
        let ring = Ring::new(did(100), RingConfig::new(1), 0);
        let mut node = Self { ring, now_ms: 0 };
        node.ring.handle_linked(did(150), 0);
        node.pass(2_000);
        let id = node.asked(did(150), "find").unwrap();
        let owners = vec![did(150)];
        node.hears(150, RingMessage::Owner { id, owners }).unwrap();
        let id = node.asked(did(150), "ask").unwrap();
        node.hears(150, state(id, 50, &[200, 220])).unwrap();
        assert_eq!(node.ring.members().first(), Some(did(150)));
        node.drain();
        node
    }

    fn hears(&mut self, from: u8, message: RingMessage) -> Result<(), String> {
        let taken = self
            .ring
            .handle_message(did(from), None, 1, message, self.now_ms);
        taken.map_err(|refusal| overlane_core::Coded::code(&refusal).to_owned())
    }

    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        self.ring.handle_timeout(self.now_ms);
    }

    /// The number of what was asked of `to`; everything else that it wants is let go.
    fn asked(&mut self, to: Did, what: &str) -> Option<RequestId> {
        let sent = self.drain();
        let mut asked = sent
            .into_iter()
            .filter(|(whom, message)| *whom == to && message.name() == what);
        asked.next().and_then(|(_, message)| message.asks())
    }

    fn drain(&mut self) -> Vec<(Did, RingMessage)> {
        let actions = std::iter::from_fn(|| self.ring.poll_action());
        let sent = actions.filter_map(|action| match action {
            RingAction::Send { to, message, .. } => Some((to, message)),
            _ => None,
        });
        sent.collect()
    }
}

fn state(id: RequestId, predecessor: u8, successors: &[u8]) -> RingMessage {
    RingMessage::State {
        id,
        predecessor: Some(did(predecessor)),
        successors: successors.iter().map(|&of| did(of)).collect(),
    }
}

#[test]
fn law_an_answer_counts_only_from_who_was_asked_and_once() {
    let mut node = Node::joined();
    node.pass(16_000);
    let id = node.asked(did(150), "ask").unwrap();
    let before = node.ring.members().clone();
    assert_eq!(
        node.hears(120, state(id, 110, &[130])),
        Err("ring/unasked".into())
    );
    let other = RequestId(id.0.wrapping_add(99));
    assert_eq!(
        node.hears(150, state(other, 110, &[130])),
        Err("ring/unasked".into())
    );
    assert_eq!(
        node.hears(150, RingMessage::Pong { id, hops: 1 }),
        Err("ring/other_answer".into())
    );
    assert_eq!(*node.ring.members(), before);
    node.hears(150, state(id, 100, &[200, 220])).unwrap();
    assert_eq!(
        node.hears(150, state(id, 110, &[130])),
        Err("ring/unasked".into())
    );
}

#[test]
fn law_lying_successors_are_refused_and_one_that_nobody_is_behind_is_not_taken() {
    let mut node = Node::joined();
    node.pass(16_000);
    let id = node.asked(did(150), "ask").unwrap();
    for lie in [&[220, 200][..], &[200, 200], &[150, 200], &[200, 150]] {
        assert_eq!(
            node.hears(150, state(id, 100, lie)),
            Err("ring/disordered".into())
        );
    }
    // A predecessor nearer than itself is asked, and taken only once it has answered.
    node.hears(150, state(id, 110, &[200, 220])).unwrap();
    let candidate = node.asked(did(110), "ask").unwrap();
    assert_eq!(node.ring.members().first(), Some(did(150)));
    assert_eq!(
        node.hears(150, state(candidate, 100, &[150])),
        Err("ring/unasked".into())
    );
    node.pass(5_000);
    assert_eq!(node.ring.members().first(), Some(did(150)));
    // It is not asked again at once, however often it is named.
    for _ in 0..3 {
        node.pass(5_000);
        if let Some(id) = node.asked(did(150), "ask") {
            node.hears(150, state(id, 110, &[200, 220])).unwrap();
            assert_eq!(node.asked(did(110), "ask"), None);
        }
    }
}

#[test]
fn law_a_lookup_goes_nearer_or_ends() {
    let mut node = Node::joined();
    node.ring.handle_linked(did(10), node.now_ms);
    let id = node.asked(did(10), "find").unwrap();
    // For place 101 by way of 10: neither behind 10, nor past the place, nor an owner that cannot be.
    for nearer in [10, 5, 101, 200] {
        let lie = RingMessage::Nearer {
            id,
            node: did(nearer),
            after: None,
        };
        let mut place = did(100);
        place.0[19] = 1;
        if nearer != 101 {
            assert_eq!(
                node.hears(10, lie),
                Err("ring/no_progress".into()),
                "{nearer}"
            );
        }
    }
    for owner in [50, 99] {
        let owners = vec![did(owner)];
        let lie = RingMessage::Owner { id, owners };
        assert_eq!(
            node.hears(10, lie),
            Err("ring/no_progress".into()),
            "{owner}"
        );
    }
    let empty = RingMessage::Owner {
        id,
        owners: Vec::new(),
    };
    assert_eq!(node.hears(10, empty), Err("ring/no_progress".into()));
    // Sixty-four nodes that each name another: nobody else is asked after the last.
    let mut asked = id;
    let mut from = 10;
    let mut steps = 0;
    while let Some(next) = (from < 99).then_some(from + 1) {
        node.hears(
            from,
            RingMessage::Nearer {
                id: asked,
                node: did(next),
                after: None,
            },
        )
        .unwrap();
        match node.asked(did(next), "find") {
            Some(id) => asked = id,
            None => break,
        }
        steps += 1;
        from = next;
    }
    assert_eq!(steps, 64);
}

#[test]
fn nodes_that_do_not_answer_and_requests_of_users_are_bounded() {
    let mut node = Node::joined();
    for named in 0..250 {
        // A ring of candidates that nobody is behind, each named by the successor.
        node.now_ms += 1;
        let mut named_did = did(100);
        named_did.0[1] = named;
        node.ring.handle_linked(named_did, node.now_ms);
        node.ring.handle_unlinked(named_did, node.now_ms);
    }
    node.pass(6_000);
    assert!(
        node.ring.waiting() <= SILENT_MAX + 16,
        "{}",
        node.ring.waiting()
    );
    let mut refused = None;
    for _ in 0..=REQUESTS_MAX {
        if let Err(error) = node.ring.ping(did(33), node.now_ms) {
            refused = Some(error);
        }
    }
    assert_eq!(refused, Some(RingError::TooManyRequests));
    assert!(node.ring.waiting() <= REQUESTS_MAX);
}
