//! Three holders, the owner that comes back, and what happens when holders come, go, lie or fall silent.

use crate::support::*;
use overlane_core::TransactionDigest;
use overlane_core::mail::MAIL_LIFE_DEFAULT_MS;
use overlane_relay::inbox::bounds::TAKEN_KEPT;
use overlane_relay::inbox::{Drain, DrainEvent, Event};
use overlane_relay::log::Mutant;

#[test]
fn mail_is_copied_along_the_chain_drained_once_and_removed_everywhere() {
    let mut world = World::of(&[1, 2, 3]);
    let letters: Vec<_> = (0..40)
        .map(|it| mail(20 + (it % 4) as u8, it, T0_MS))
        .collect();
    for (at, letter) in letters.iter().enumerate() {
        assert_eq!(
            world.deposit(1 + (at % 3) as u8, letter.clone(), 20),
            "held"
        );
    }
    world.reconcile(&[1, 2, 3]);
    for holder in [1, 2, 3] {
        assert_eq!(world.held(holder).len(), 40, "holder {holder}");
    }
    // A day later, long after the senders' proofs are over.
    world.now_ms = T0_MS + MAIL_LIFE_DEFAULT_MS - 1;
    let fetched = world.drain_from(&[1, 2, 3]);
    assert_eq!(fetched.len(), 40, "each once, from three holders");
    // Nothing was taken: it comes again after a restart of the owner, and holders keep it.
    for holder in [1, 2, 3] {
        assert_eq!(world.held(holder).len(), 40);
    }
    world.take(&fetched);
    for holder in [1, 2, 3] {
        assert!(world.held(holder).is_empty(), "holder {holder}");
    }
    assert_eq!(world.drain.waiting(), (0, 0));
    assert!(world.drain_from(&[1, 2, 3]).is_empty());
}

#[test]
fn mail_a_holder_that_had_not_heard_brings_nothing_back() {
    let mut world = World::of(&[1, 2, 3]);
    world.deposit(1, mail(20, 1, T0_MS), 20);
    world.reconcile(&[1, 2, 3]);
    world.cut.insert(3);
    let fetched = world.drain_from(&[1, 2]);
    world.take(&fetched);
    assert_eq!((world.held(1).len(), world.held(2).len()), (0, 0));
    assert_eq!(world.held(3).len(), 1);
    assert_eq!(world.drain.waiting(), (0, 1), "one holder has not heard");
    // It comes back and reconciles: it is told, and lets go.
    world.cut.clear();
    world.reconcile(&[1, 2, 3]);
    for holder in [1, 2, 3] {
        assert!(world.held(holder).is_empty(), "holder {holder}");
    }
    world.take(&[]);
    assert_eq!(world.drain.waiting(), (0, 0));
}

#[test]
fn mail_a_holder_that_leaves_hands_on_and_a_racing_write_survives_s25() {
    let mut world = World::of(&[1, 2, 3]);
    for number in 0..20 {
        world.deposit(1, mail(20, number, T0_MS), 20);
    }
    world.reconcile(&[1, 2, 3]);
    // A new node takes the place of holder 1.
    world.add(4);
    world.set_chain(&[2, 3, 4]);
    let now_ms = world.now_ms;
    world.at(1).reconcile(did(OWNER), did(2), now_ms).unwrap();
    world.settle();
    // It heard from one: it lets go of nothing.
    assert_eq!(world.held(1).len(), 20);
    // A sender that has not heard of the change still brings one to it: by its own view of the ring
    // it holds no more, but what raced the copies must not go with them.
    let racing = mail(20, 99, T0_MS);
    world
        .at(1)
        .set_chain(did(OWNER), [did(1), did(2), did(3)], [])
        .unwrap();
    assert_eq!(world.deposit(1, racing.clone(), 20), "held");
    world
        .at(1)
        .set_chain(did(OWNER), [did(2), did(3), did(4)], [])
        .unwrap();
    world.reconcile(&[2, 3, 4]);
    assert!(world.held(1).is_empty() || world.held(1).contains(&racing.digest()));
    world.reconcile(&[2, 3, 4]);
    assert!(world.held(1).is_empty());
    let handed_on = Event::HandedOn { owner: did(OWNER) };
    assert!(world.events[&1].contains(&handed_on));
    for holder in [2, 3, 4] {
        let held = world.held(holder);
        assert_eq!(held.len(), 21, "holder {holder}");
        assert!(held.contains(&racing.digest()));
    }
}

/// A holder leaves while a reconciliation runs that began before a mail came: what it lets go of, and which of its chain
/// lacks some of that.
fn left_in_the_middle(mutant: Option<Mutant>) -> (usize, Vec<u8>) {
    let mut world = World::of(&[1, 2, 3]);
    for number in 0..5 {
        world.deposit(1, mail(20, number, T0_MS), 20);
    }
    if let Some(mutant) = mutant {
        world.at(1).logs().break_rule(mutant);
    }
    let now_ms = world.now_ms;
    let asks = |world: &mut World, whom: u8| {
        let holder = world.at(1);
        holder.reconcile(did(OWNER), did(whom), now_ms).unwrap();
        holder.flush(now_ms).unwrap();
    };
    asks(&mut world, 2);
    world.deposit(1, mail(20, 99, T0_MS), 20);
    world.add(4);
    world.set_chain(&[2, 3, 4]);
    for whom in [2, 3, 4] {
        asks(&mut world, whom);
    }
    world.settle();
    let left = world.held(1);
    let lacks = |world: &mut World, holder: u8| world.held(holder).len() + left.len() < 6;
    let lack: Vec<u8> = [2, 3, 4]
        .into_iter()
        .filter(|&it| lacks(&mut world, it))
        .collect();
    // Asked anew, it hands on all.
    world.reconcile(&[2, 3, 4]);
    assert!(world.held(1).is_empty());
    (left.len(), lack)
}

#[test]
fn law_mail_that_came_while_a_reconciliation_ran_is_with_all_before_it_is_let_go_of() {
    assert_eq!(left_in_the_middle(None), (6, vec![]));
    assert_eq!(
        left_in_the_middle(Some(Mutant::HandOnWhatWasNotAsked)),
        (0, vec![2])
    );
}

#[test]
fn mail_survives_while_one_holder_of_the_chain_lives_s26() {
    let mut world = World::of(&[1, 2, 3]);
    for number in 0..10 {
        world.deposit(1, mail(20, number, T0_MS), 20);
    }
    world.reconcile(&[1, 2, 3]);
    // Two are gone for good, two others come in their place; then the last of the first goes.
    world.holders.remove(&1);
    world.holders.remove(&2);
    world.add(4);
    world.add(5);
    world.set_chain(&[3, 4, 5]);
    world.reconcile(&[3, 4, 5]);
    world.holders.remove(&3);
    world.add(6);
    world.set_chain(&[4, 5, 6]);
    world.reconcile(&[4, 5, 6]);
    let fetched = world.drain_from(&[4, 5, 6]);
    assert_eq!(fetched.len(), 10);
}

#[test]
fn mail_a_stranger_neither_fills_nor_shadows_an_inbox_s27() {
    let mut world = World::of(&[1, 2, 3]);
    world.deposit(1, mail(20, 1, T0_MS), 20);
    // A node that is in no chain claims to hold the inbox, and hands on.
    world.add(8);
    let chain = [1, 2, 3, 8].map(did);
    world
        .at(8)
        .set_chain(did(OWNER), [chain[3], chain[0], chain[1]], [])
        .unwrap();
    for number in 50..60 {
        assert_eq!(world.deposit(8, mail(21, number, T0_MS), 21), "held");
    }
    let now_ms = world.now_ms;
    world.at(8).reconcile(did(OWNER), did(1), now_ms).unwrap();
    world.settle();
    assert_eq!(world.held(1).len(), 1, "nothing came in");
    assert_eq!(world.held(8).len(), 10, "and nothing was told");
    let announced = |event: &Event| matches!(event, Event::Announced { by, .. } if *by == did(8));
    assert!(world.events[&1].iter().any(announced), "the ring is asked");
    // The owner asks whom the ring names.
    assert!(world.drain_from(&[1, 2, 3]).len() == 1);
}

#[test]
fn mail_of_a_holder_that_lies_is_refused_and_nothing_else() {
    let mut world = World::of(&[1, 2]);
    world.deposit(1, mail(20, 1, T0_MS), 20);
    // It signs a hold instant at which the sender's proof was over, and one that is yet to come.
    use overlane_core::mail::Mail;
    let late = Mail::hold(mail(20, 7, T0_MS), &signer(2), T0_MS + 700_000, 1_000_000).unwrap();
    let early = Mail::hold(mail(20, 8, T0_MS), &signer(2), T0_MS + 3_600_000, 1_000_000).unwrap();
    world.now_ms = T0_MS + 800_000;
    for lie in [late, early] {
        let frame = overlane_relay::log::Frame::Send {
            log: overlane_relay::log::LogId::inbox(&did(OWNER)),
            envelope: &lie.to_held().to_bytes(),
        };
        let now_ms = world.now_ms;
        world
            .at(1)
            .handle_log_frame(peer(2), &frame.to_bytes(), now_ms)
            .unwrap();
        world.settle();
    }
    assert_eq!(world.held(1).len(), 1);
    assert_eq!(world.drain_from(&[1, 2]).len(), 1);
}

#[test]
fn mail_an_empty_or_silent_holder_proves_nothing_s12() {
    let mut world = World::of(&[1, 2, 3]);
    world.deposit(1, mail(20, 1, T0_MS), 20);
    world.reconcile(&[1, 2, 3]);
    let fetched = world.drain_from(&[1]);
    assert_eq!(fetched.len(), 1);
    // A holder that a change of membership just named is empty, another never answers.
    world.add(4);
    world.set_chain(&[4, 2, 3]);
    world.cut.insert(2);
    assert!(world.drain_from(&[4, 2]).is_empty());
    world.drain.handle_timeout(world.now_ms + 10_000_000);
    world.drain.handle_disconnected(&did(2));
    assert_eq!(world.drain.waiting(), (1, 0), "it stays in hand");
    // Refused by custody it waits where it is, and is fetched again.
    world.cut.clear();
    world.drain.handle_not_kept(fetched[0]);
    assert_eq!(world.drain_from(&[3]), fetched);
    let mut drained = 0;
    while let Some(event) = world.drain.poll_event() {
        drained += usize::from(matches!(event, DrainEvent::Drained { .. }));
    }
    assert_eq!(drained, 0, "all told already");
}

#[test]
fn mail_that_was_taken_is_not_fetched_again_from_a_holder_that_comes_back_with_it() {
    let mut world = World::of(&[1, 2, 3]);
    world.deposit(1, mail(20, 1, T0_MS), 20);
    world.reconcile(&[1, 2, 3]);
    world.cut.insert(3);
    let fetched = world.drain_from(&[1, 2]);
    world.take(&fetched);
    // Those that know of it are gone, and the owner began anew.
    world.cut.clear();
    world.set_chain(&[3]);
    world.drain = Drain::new(did(OWNER), at(world.now_ms));
    assert_eq!(world.drain.remember_taken(fetched[0]), None);
    assert!(world.drain_from(&[3]).is_empty());
    assert!(world.drain.is_to_let_go(&did(3)));
    assert_eq!(world.held(3).len(), 1, "nothing was signed yet");
    world.take(&[]);
    assert!(world.held(3).is_empty());
    assert!(!world.drain.is_to_let_go(&did(3)));
}

#[test]
fn mail_a_holder_that_brings_what_was_taken_is_given_the_removal_at_once() {
    let mut world = World::of(&[1, 2]);
    for sequence in 0..3 {
        world.deposit(1, mail(20, sequence, T0_MS), 20);
    }
    world.reconcile(&[1, 2]);
    world.cut.insert(2);
    let fetched = world.drain_from(&[1]);
    world.take(&fetched);
    world.cut.clear();
    // It begins; the other only answers.
    let now_ms = world.now_ms;
    world.at(2).reconcile(did(OWNER), did(1), now_ms).unwrap();
    world.settle();
    assert!(world.held(2).is_empty() && world.held(1).is_empty());
}

#[test]
fn mail_that_was_taken_is_remembered_within_a_bound() {
    let mut drain = Drain::new(did(OWNER), at(T0_MS));
    let digest = |number: usize| {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        TransactionDigest(bytes)
    };
    for number in 0..TAKEN_KEPT {
        assert_eq!(drain.handle_taken(digest(number)), None);
    }
    assert_eq!(drain.remember_taken(digest(0)), None, "it is there");
    assert_eq!(drain.handle_taken(digest(TAKEN_KEPT)), Some(digest(0)));
}

#[test]
fn mail_that_can_be_admitted_no_more_takes_no_place_and_is_not_fetched_again() {
    let mut world = World::of(&[1, 2, 3]);
    world.deposit(1, mail(20, 1, T0_MS), 20);
    world.reconcile(&[1, 2, 3]);
    let fetched = world.drain_from(&[1]);
    assert_eq!((fetched.len(), world.drain.waiting()), (1, (1, 0)));
    world.drain.handle_lost(fetched[0]);
    assert_eq!(world.drain.waiting(), (0, 0));
    assert!(world.drain_from(&[1, 2, 3]).is_empty());
    // The holders keep it to its end: nobody signed that it was taken.
    assert_eq!(world.held(1).len(), 1);
}
