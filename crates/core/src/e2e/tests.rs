//! Two nodes' sessions on virtual time, over a way that loses, repeats and reorders.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use super::bounds::*;
use super::frame::Said;
use super::mutant::{Mutant, caught};
use super::*;
use crate::fault::Coded;
use crate::identity::Account;
use crate::ids::{Did, NetworkId};
use crate::seal::{SealingKey, SealingSecret};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;
use zeroize::Zeroizing;

const NETWORK: NetworkId = NetworkId(7);

fn account(number: u8) -> Account {
    Account::ed25519(Zeroizing::new([number; 32])).unwrap()
}

fn key(number: u8) -> SealingKey {
    SealingKey::of_account(account(number).key()).unwrap()
}

fn did(number: u8) -> Did {
    account(number).did()
}

fn sessions(number: u8, seed: u8) -> Sessions {
    let secret = SealingSecret::for_account(&account(number)).unwrap();
    Sessions::new(
        NETWORK,
        did(number),
        Arc::new(secret),
        Zeroizing::new([seed; 32]),
    )
}

/// Two nodes, 1 and 2, and what is on its way between them.
struct Pair {
    nodes: [Sessions; 2],
    way: VecDeque<(usize, Vec<u8>)>,
    /// Everything that ever was on its way: from whom, and what.
    wire: Vec<(usize, Vec<u8>)>,
    received: [Vec<Vec<u8>>; 2],
    told: [Vec<SessionAction>; 2],
    refused: [Vec<&'static str>; 2],
    now_ms: u64,
}

impl Pair {
    fn new() -> Self {
        Self {
            nodes: [sessions(1, 11), sessions(2, 12)],
            way: VecDeque::new(),
            wire: Vec::new(),
            received: Default::default(),
            told: Default::default(),
            refused: Default::default(),
            now_ms: 1_000,
        }
    }

    fn number(index: usize) -> u8 {
        [1, 2][index]
    }

    fn send(&mut self, from: usize, body: &[u8]) -> Result<(), SessionError> {
        let to = Self::number(1 - from);
        let body = Zeroizing::new(body.to_vec());
        let sent = self.nodes[from].send(did(to), &key(to), 7, body, self.now_ms);
        self.drain(from);
        sent
    }

    fn drain(&mut self, index: usize) {
        while let Some(action) = self.nodes[index].poll_action() {
            match action {
                SessionAction::Say { body, .. } => {
                    self.wire.push((index, body.clone()));
                    self.way.push_back((index, body));
                }
                SessionAction::Received { body, .. } => self.received[index].push(body.to_vec()),
                told => self.told[index].push(told),
            }
        }
    }

    fn deliver(&mut self, from: usize, body: &[u8]) {
        let (to, number) = (1 - from, Self::number(from));
        let taken = self.nodes[to].handle_body(did(number), &key(number), body, self.now_ms);
        if let Err(refusal) = taken {
            self.refused[to].push(refusal.code());
        }
        self.drain(to);
    }

    fn settle(&mut self) {
        while let Some((from, body)) = self.way.pop_front() {
            self.deliver(from, &body);
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        for index in [0, 1] {
            self.nodes[index].handle_timeout(self.now_ms);
            self.drain(index);
        }
    }
}

fn arrive_once_both_ways() {
    let mut pair = Pair::new();
    let (mut expected, mut crossed) = ([Vec::new(), Vec::new()], 0);
    for number in 0..100_u32 {
        for from in [0, 1] {
            // Both ask at once, with nothing delivered between.
            pair.send(from, &number.to_be_bytes()).unwrap();
            expected[1 - from].push(number.to_be_bytes().to_vec());
        }
        if number % 5 == 4 {
            crossed += 1;
            pair.settle();
        }
    }
    assert_eq!(crossed, 20);
    assert_eq!(pair.received, expected);
    assert!(pair.refused.iter().all(Vec::is_empty), "{:?}", pair.refused);
    // What came comes again, in other messages.
    let wire = pair.wire.clone();
    for (from, body) in &wire {
        pair.deliver(*from, body);
    }
    pair.settle();
    assert_eq!(pair.received, expected, "taken twice");
    assert!(pair.refused[0].contains(&"e2e/again"));
    // The order may be another: each body is taken once all the same.
    let mut pair = Pair::new();
    pair.send(0, b"first").unwrap();
    pair.settle();
    for number in 0..40_u32 {
        pair.send(0, &number.to_be_bytes()).unwrap();
    }
    while let Some((from, body)) = pair.way.pop_back() {
        pair.deliver(from, &body);
    }
    assert_eq!(pair.received[1].len(), 41);
    assert!(pair.refused[1].is_empty());
}

#[test]
fn law_session_bodies_are_taken_once_also_where_both_ask_at_once() {
    arrive_once_both_ways();
    assert!(caught(Mutant::TakesAgain, arrive_once_both_ways));
}

fn is_with_whom_it_says() {
    // The third asks for a session in the first's name: its signature would be missing, but the
    // handshake alone says so too.
    let mut third = sessions(3, 13);
    third
        .send(did(2), &key(2), 7, Zeroizing::new(b"x".to_vec()), 0)
        .unwrap();
    let Some(SessionAction::Say { body, .. }) = third.poll_action() else {
        panic!("it asks")
    };
    let mut second = sessions(2, 12);
    let refused = second.handle_body(did(1), &key(1), &body, 0);
    assert_eq!(refused, Err(SessionRefusal::Handshake));
    // Its key in its own name, and another's key with the right name.
    let refused = second.handle_body(did(3), &key(1), &body, 0);
    assert_eq!(refused, Err(SessionRefusal::Handshake));
    assert_eq!(second.handle_body(did(3), &key(3), &body, 0), Ok(()));
    let mut other = sessions(1, 14);
    let refused = other.handle_body(did(3), &key(3), &body, 0);
    assert_eq!(refused, Err(SessionRefusal::Handshake), "another recipient");
}

#[test]
fn law_a_session_is_with_the_account_that_signs_and_its_own_key() {
    is_with_whom_it_says();
    assert!(caught(Mutant::TakesAnyKey, is_with_whom_it_says));
}

fn keys_are_followed_by_others_and_end() {
    let mut pair = Pair::new();
    pair.send(0, b"one").unwrap();
    pair.settle();
    assert_eq!(pair.nodes[0].counters().opened, 1);
    pair.pass(REKEY_MS);
    pair.send(0, b"two").unwrap();
    pair.settle();
    assert_eq!(
        pair.nodes[0].counters().opened,
        2,
        "another session follows"
    );
    pair.send(0, b"three").unwrap();
    pair.settle();
    assert_eq!(
        pair.received[1],
        [b"one".to_vec(), b"two".to_vec(), b"three".to_vec()]
    );
    // Many, one after another: old ones are let go.
    for _ in 0..5 {
        pair.pass(REKEY_MS);
        pair.send(0, b"on").unwrap();
        pair.settle();
        let kept = pair.nodes.iter().map(|node| node.kept()).max().unwrap();
        assert!(kept <= SESSIONS_KEPT, "{kept} sessions are kept");
    }
    // Nothing is said any more: the keys go.
    assert!(pair.nodes[0].is_established(did(2), pair.now_ms));
    pair.pass(SESSION_LIFE_MS);
    assert!(!pair.nodes[0].is_established(did(2), pair.now_ms));
    assert_eq!([pair.nodes[0].kept(), pair.nodes[1].kept()], [0, 0]);
    pair.pass(SESSION_LIFE_MS);
    assert_eq!([pair.nodes[0].peers(), pair.nodes[1].peers()], [0, 0]);
    assert_eq!(pair.nodes[0].poll_timeout(), None);
}

#[test]
fn law_keys_are_followed_by_others_and_end() {
    keys_are_followed_by_others_and_end();
    for mutant in [Mutant::NeverRekeys, Mutant::NeverEnds] {
        let law = keys_are_followed_by_others_and_end;
        assert!(caught(mutant, law), "{mutant:?}");
    }
}

fn many_handshakes_keep_few_sessions() {
    let mut node = sessions(2, 12);
    for seed in 0..6 {
        let mut asking = sessions(1, 100 + seed);
        let body = Zeroizing::new(b"x".to_vec());
        asking.send(did(2), &key(2), 7, body, 0).unwrap();
        let Some(SessionAction::Say { body, .. }) = asking.poll_action() else {
            panic!("it asks")
        };
        assert_eq!(node.handle_body(did(1), &key(1), &body, 0), Ok(()));
        assert!(node.kept() <= SESSIONS_KEPT, "too many are kept");
    }
    assert_eq!(node.counters().accepted, 6);
}

#[test]
fn law_handshakes_of_one_node_are_bounded() {
    many_handshakes_keep_few_sessions();
    assert!(caught(Mutant::KeepsAll, many_handshakes_keep_few_sessions));
    // And paced.
    let mut node = sessions(2, 12);
    let mut refused = 0;
    for seed in 0..SESSION_OPENS + 3 {
        let mut asking = sessions(1, u8::try_from(seed).unwrap());
        let body = Zeroizing::new(b"x".to_vec());
        asking.send(did(2), &key(2), 7, body, 0).unwrap();
        if let Some(SessionAction::Say { body, .. }) = asking.poll_action() {
            let taken = node.handle_body(did(1), &key(1), &body, 0);
            refused += usize::from(taken == Err(SessionRefusal::Paced));
        }
    }
    assert_eq!(refused, 3);
}

fn nothing_opens_later() {
    let mut pair = Pair::new();
    for number in 0..10_u32 {
        pair.send(0, &[b"a canary", number.to_be_bytes().as_slice()].concat())
            .unwrap();
        pair.send(1, b"another canary").unwrap();
        pair.settle();
    }
    let sings = |body: &Vec<u8>| body.windows(6).any(|it| it == b"canary");
    assert!(!pair.wire.iter().any(|(_, body)| sings(body)));
    // Whoever has the account's secret now, and all that was on its way, opens nothing of it.
    let mut thief = sessions(2, 99);
    let mut refused = Vec::new();
    for (from, body) in &pair.wire {
        let is_answer = matches!(Said::from_body(body), Ok(Said::Accept(..)));
        if *from == 0
            && !is_answer
            && let Err(refusal) = thief.handle_body(did(1), &key(1), body, pair.now_ms)
        {
            refused.push(refusal);
        }
    }
    assert!(refused.contains(&SessionRefusal::DoesNotOpen));
    assert_eq!(thief.counters().received, 0, "something was read");
}

#[test]
fn law_forward_secrecy_nothing_opens_with_the_accounts_secret_later() {
    nothing_opens_later();
    assert!(caught(Mutant::DrawsTheSame, nothing_opens_later));
}

#[test]
fn law_a_lost_session_is_told_and_followed_by_another() {
    let mut pair = Pair::new();
    pair.send(0, b"before").unwrap();
    pair.send(0, b"before").unwrap();
    pair.settle();
    // The second is started again.
    pair.nodes[1] = sessions(2, 55);
    pair.send(0, b"into nothing").unwrap();
    pair.settle();
    assert_eq!(pair.refused[1], ["e2e/unknown_session"]);
    let lost = SessionAction::Lost {
        with: did(2),
        sent: 3,
    };
    assert!(pair.told[0].contains(&lost), "{:?}", pair.told[0]);
    pair.send(0, b"after").unwrap();
    pair.settle();
    assert_eq!(pair.received[1].last().unwrap(), b"after");
    // One that is ended here is ended there.
    pair.nodes[0].end(did(2));
    pair.drain(0);
    pair.settle();
    assert_eq!([pair.nodes[0].kept(), pair.nodes[1].kept()], [0, 0]);
    // The word that a session is not known is paced.
    pair.refused[1].clear();
    let data = pair.wire.iter().rev();
    let is_data = |body: &[u8]| matches!(Said::from_body(body), Ok(Said::Data(..)));
    let mut data = data.filter(|(from, body)| *from == 0 && is_data(body));
    let (_, body) = data.next().unwrap().clone();
    let said = pair.wire.len();
    for _ in 0..2 * SESSION_LOSTS {
        pair.deliver(0, &body);
    }
    let said = pair.wire.len() - said;
    assert_eq!(
        u64::try_from(said).unwrap(),
        SESSION_LOSTS - 1,
        "one was said before"
    );
}

#[test]
fn law_what_waits_for_a_session_is_bounded_and_fails_in_time() {
    let mut pair = Pair::new();
    for _ in 0..SESSION_WAITING_MAX {
        pair.send(0, b"x").unwrap();
    }
    assert_eq!(pair.send(0, b"x"), Err(SessionError::WaitingFull));
    let large = vec![0; BODY_MAX_BYTES + 1];
    let bytes = large.len();
    assert_eq!(pair.send(0, &large), Err(SessionError::TooLarge { bytes }));
    // Nobody answers.
    let mut asked = 0;
    while let Some(due_ms) = pair.nodes[0].poll_timeout().filter(|_| asked < 10) {
        asked += pair.way.len();
        pair.way.clear();
        pair.pass(due_ms.saturating_sub(pair.now_ms));
        if !pair.told[0].is_empty() {
            break;
        }
    }
    assert_eq!(asked, usize::from(SESSION_TRIES));
    let failed = SessionAction::Failed {
        to: did(2),
        tokens: vec![7; SESSION_WAITING_MAX],
        error: SessionError::NoAnswer,
    };
    assert_eq!(pair.told[0], [failed]);
    // A first message that was lost is said again, and an answer that was lost too.
    pair.send(0, b"y").unwrap();
    pair.way.clear();
    pair.pass(SESSION_ANSWER_MS);
    let (from, open) = pair.way.pop_front().unwrap();
    pair.deliver(from, &open);
    pair.way.clear();
    pair.pass(SESSION_ANSWER_MS);
    pair.settle();
    assert_eq!(pair.received[1], [b"y".to_vec()]);
    assert_eq!(pair.nodes[1].counters().accepted, 1);
}

#[test]
fn law_nodes_with_sessions_are_bounded_and_the_one_used_longest_ago_gives_way() {
    let mut node = sessions(1, 11);
    let many = SESSION_PEERS_MAX + 5;
    for number in 0..many {
        let mut seed = [9; 32];
        seed[..8].copy_from_slice(&number.to_be_bytes());
        let peer = Account::ed25519(Zeroizing::new(seed)).unwrap();
        let key = SealingKey::of_account(peer.key()).unwrap();
        let body = Zeroizing::new(b"x".to_vec());
        let token = u64::try_from(number).unwrap();
        node.send(peer.did(), &key, token, body, 0).unwrap();
    }
    assert_eq!(node.peers(), SESSION_PEERS_MAX);
    assert_eq!(node.counters().given_way, 5);
    let actions = std::iter::from_fn(|| node.poll_action());
    let failed = actions.filter_map(|it| match it {
        SessionAction::Failed { tokens, .. } => Some(tokens),
        _ => None,
    });
    assert_eq!(failed.flatten().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    // One that waits can be taken back, once.
    assert!(node.take_back(9) && !node.take_back(9));
}

/// Accounts cost nothing: a flood of them takes no session from those that the node speaks to.
#[test]
fn law_strangers_give_way_before_those_that_are_spoken_to() {
    let mut pair = Pair::new();
    pair.send(0, b"x").unwrap();
    pair.settle();
    assert!(pair.nodes[0].is_established(did(2), 0));
    for number in 0..2 * SESSION_PEERS_MAX {
        let mut seed = [9; 32];
        seed[..8].copy_from_slice(&number.to_be_bytes());
        let peer = Account::ed25519(Zeroizing::new(seed)).unwrap();
        let key = SealingKey::of_account(peer.key()).unwrap();
        let unknown = Said::Data(SessionId([7; 16]), 0, &[0; 32]).to_body();
        let heard = pair.nodes[0].handle_body(peer.did(), &key, &unknown, 0);
        assert!(heard.is_err());
    }
    assert_eq!(pair.nodes[0].peers(), SESSION_PEERS_MAX);
    assert!(pair.nodes[0].is_established(did(2), 0));
}

proptest! {
    #[test]
    fn prop_no_bytes_panic_or_are_taken(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        at in 0_usize..400,
    ) {
        let mut pair = Pair::new();
        pair.send(0, b"x").unwrap();
        pair.settle();
        let marked = [E2E_MARKER.as_slice(), &bytes].concat();
        prop_assert!(pair.nodes[1].handle_body(did(1), &key(1), &marked, 5_000).is_err());
        // A changed byte of what was said before.
        for (from, mut body) in pair.wire.clone() {
            let place = at % body.len();
            body[place] ^= 1;
            let number = Pair::number(from);
            let before = pair.received.clone();
            let _ = pair.nodes[1 - from].handle_body(did(number), &key(number), &body, 5_000);
            pair.drain(1 - from);
            prop_assert_eq!(&before, &pair.received);
        }
    }
}
