//! Delegations by reference: the lease, what it saves, and its bounds.

use std::collections::VecDeque;

use zeroize::Zeroizing;

use super::pair::{NETWORK, Rng};
use crate::identity::{
    Account, Delegatee, Delegation, DelegationDigest, Life, Signer, VerifyContext,
};
use crate::ids::{Class, Did, TxId};
use crate::lane::bounds::*;
use crate::lane::delegations::{Came, Held, Leaves, Shown, Statements};
use crate::lane::per_lane::PerLane;
use crate::lane::rules::Rules;
use crate::lane::{Session, SessionConfig, SessionEvent};
use crate::transaction::{Draft, Message, Payload, RelayFields, Transaction};
use crate::wire::cbor::{Writer, from_slice, to_vec};
use crate::wire::frame::PAYLOAD_MARKER;

const NOW_MS: u64 = 1_900_000_000_000;

const LIFE: Life = Life {
    issued_ms: NOW_MS,
    ttl_ms: 600_000,
};

const CONTEXT: VerifyContext = VerifyContext {
    network: NETWORK,
    now_ms: NOW_MS,
};

fn signer(seed: u8) -> Signer {
    let account = Account::ed25519(Zeroizing::new([seed; 32])).unwrap();
    let delegatee = Delegatee::from_seed(Zeroizing::new([seed + 100; 32]));
    let delegation = Delegation::issue(&account, &delegatee, NETWORK, LIFE).unwrap();
    Signer::new(delegatee, delegation.verify(&CONTEXT).unwrap()).unwrap()
}

/// A message of `origin`'s with 100 bytes, carried by `hop`.
fn payload(origin: &Signer, hop: &Signer, sequence: u64) -> Payload {
    let draft = Draft {
        destination: Did([3; 20]),
        tx_id: TxId([5; 16]),
        sequence,
        message: Message::Storage(&[7; 100]),
        life: LIFE,
    };
    let transaction = Transaction::sign(&draft, origin).unwrap();
    let relay = RelayFields::direct(Did([3; 20]));
    Payload::carry(transaction, relay, hop, LIFE).unwrap()
}

/// A frame with the outline of a payload, and two things in the place of its delegations.
pub(super) fn outline(origin: &[u8], hop: &[u8]) -> Vec<u8> {
    let mut writer = Writer::append(PAYLOAD_MARKER.to_vec());
    writer.array(3).array(5).uint(1).uint(2).uint(3).bytes(b"4");
    let proof = |writer: &mut Writer, delegation: &[u8]| {
        writer.array(4).array(2).uint(0).bytes(delegation);
        writer.uint(5).uint(6).bytes(b"7");
    };
    proof(&mut writer, origin);
    writer.array(1).uint(8);
    proof(&mut writer, hop);
    writer.into_bytes()
}

/// What stands for the delegation of this number, larger than a digest.
pub(super) fn delegation(number: u64) -> Vec<u8> {
    let mut delegation = vec![0; 100];
    delegation[..8].copy_from_slice(&number.to_be_bytes());
    delegation
}

/// The bytes of [`delegation`] in a frame.
fn item(number: u64) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.bytes(&delegation(number));
    writer.into_bytes()
}

pub(super) fn digest(number: u64) -> DelegationDigest {
    DelegationDigest::of(&item(number))
}

/// A frame as it leaves, where everything that left before was taken.
fn shorten(shown: &mut Shown, frame: &[u8]) -> Option<Vec<u8>> {
    let leaves = Leaves {
        class: Class::Storage,
        number: 0,
        passed: &PerLane([u64::MAX; LANES]),
    };
    shown.shorten(frame, &leaves)
}

/// A frame as it comes off its channel.
fn out(held: &mut Held, frame: Vec<u8>, now_ms: u64) -> Vec<u8> {
    let came = held.write_out(Came::now(frame.into(), now_ms), now_ms);
    came.frame.into()
}

fn hear(shown: &mut Shown, statements: Statements) {
    for digest in statements.known {
        shown.known(digest, true);
    }
    for digest in statements.disclaimed {
        shown.known(digest, false);
    }
}

/// Frames under way: when each arrives, as it was sent, as it was before.
type Lane = VecDeque<(u64, Vec<u8>, Vec<u8>)>;

/// Frames of changing origins to a receiver whose messages may take as long as is allowed, both ways;
/// how many references missed.
fn lease(seed: u64, rules: Rules) -> u64 {
    let mut rng = Rng(seed);
    let (mut shown, mut held) = (Shown::new(Rules::PROTOCOL), Held::new(rules));
    let mut now_ms = 0;
    // A quick lane and a slow one.
    let mut lanes: [Lane; 2] = Default::default();
    let mut control: VecDeque<(u64, Statements)> = VecDeque::new();
    let due = |rng: &mut Rng, now_ms: u64, slow: bool, last_ms: Option<u64>| {
        let takes_ms = rng.below(if slow { DELIVERY_BOUND_MS } else { 200 });
        // A channel keeps its order.
        (now_ms + takes_ms).max(last_ms.unwrap_or(0))
    };
    for step in 0..4_000_u64 {
        now_ms += rng.below(100);
        for lane in &mut lanes {
            while lane.front().is_some_and(|&(at, ..)| at <= now_ms) {
                let (_, sent, whole) = lane.pop_front().unwrap();
                let came = out(&mut held, sent, now_ms);
                assert!(held.missed > 0 || came == whole, "seed {seed}");
            }
        }
        while control.front().is_some_and(|&(at, _)| at <= now_ms) {
            hear(&mut shown, control.pop_front().unwrap().1);
        }
        if let Some(statements) = held.statements(now_ms) {
            let at_ms = due(&mut rng, now_ms, false, control.back().map(|it| it.0));
            control.push_back((at_ms, statements));
        }
        // Those who send change, faster than a slow message arrives.
        let origin = step / 2 + rng.below(12);
        let whole = outline(&delegation(origin), &delegation(1_000_000));
        let sent = shorten(&mut shown, &whole).unwrap_or_else(|| whole.clone());
        let slow = rng.chance(30);
        let lane = &mut lanes[usize::from(slow)];
        let at_ms = due(&mut rng, now_ms, slow, lane.back().map(|it| it.0));
        lane.push_back((at_ms, sent, whole));
        let (delegations, owed, _) = held.sizes();
        assert!(delegations <= HELD_DELEGATIONS_MAX && owed <= STATEMENTS_OWED_MAX);
        assert!(shown.len() <= SHOWN_DELEGATIONS_MAX);
    }
    assert!(shown.referred > 2_000, "seed {seed}: {}", shown.referred);
    held.missed
}

#[test]
fn law_a_reference_never_misses_within_the_delivery_bound() {
    for seed in 0..8 {
        assert_eq!(lease(seed, Rules::PROTOCOL), 0, "seed {seed}");
    }
}

#[test]
fn a_receiver_that_forgets_at_once_or_disclaims_nothing_is_caught() {
    let at_once = Rules {
        forgets_after_ms: 0,
        ..Rules::PROTOCOL
    };
    let silent = Rules {
        disclaims: false,
        ..at_once
    };
    for broken in [at_once, silent] {
        assert!((0..8).any(|seed| lease(seed, broken) > 0), "{broken:?}");
    }
}

#[test]
fn law_a_receiver_that_does_not_hold_one_asks_for_it_and_is_shown_it_again() {
    let mut shown = Shown::new(Rules::PROTOCOL);
    let whole = outline(&delegation(1), &delegation(2));
    assert_eq!(shorten(&mut shown, &whole), None, "shown first");
    shown.known(digest(1), true);
    shown.known(digest(2), true);
    let nothing_taken = PerLane([0; LANES]);
    let leaves = Leaves {
        class: Class::Storage,
        number: 0,
        passed: &nothing_taken,
    };
    let short = shown.shorten(&whole, &leaves).unwrap();
    assert!(short.len() + 150 < whole.len());

    let mut held = Held::new(Rules::PROTOCOL);
    let came = held.write_out(Came::now(short.clone().into(), 0), 0);
    assert_eq!((&came.frame[..], came.misses), (&short[..], true));
    assert_eq!(held.missed, 2);
    assert_eq!(held.statements(0), None, "nobody else is told anything");
    let missing = held.missing().unwrap();
    assert_eq!(missing.len(), 2);
    assert_eq!(held.missing(), None, "said once");
    for digest in missing {
        shown.missed(digest, &nothing_taken);
    }
    assert_eq!(shorten(&mut shown, &whole), None, "shown in what follows");
    let mut came = came;
    while let Some(delegation) = shown.next_to_show() {
        assert!(came.misses);
        let of = DelegationDigest::of(&delegation);
        held.hold(&delegation, 1);
        came = held.write_out_shown(came, of, &delegation, 1);
    }
    assert_eq!((&came.frame[..], came.misses), (&whole[..], false));
    assert_eq!((held.missed, held.lost), (2, 0), "counted once");
    hear(&mut shown, held.statements(1).unwrap());
    let short = shorten(&mut shown, &whole).unwrap();
    assert_eq!(out(&mut held, short, 2), whole);

    // What no frame under way refers to, nobody misses.
    shown.missed(digest(1), &PerLane([1; LANES]));
    assert_eq!(shown.next_to_show(), None);
}

#[test]
fn the_tables_are_bounded_and_a_full_one_disclaims_what_was_named_longest_ago() {
    let mut held = Held::new(Rules::PROTOCOL);
    let show = |held: &mut Held, number, now_ms| {
        out(held, outline(&delegation(number), &delegation(0)), now_ms);
    };
    let said = |held: &mut Held, now_ms| -> Vec<Statements> {
        std::iter::from_fn(|| held.statements(now_ms)).collect()
    };
    for number in 0..HELD_DELEGATIONS_MAX as u64 {
        show(&mut held, number, number);
    }
    let known = said(&mut held, 200);
    assert!(known.iter().all(|it| it.count() <= STATEMENTS_MAX));
    let known: usize = known.iter().map(|it| it.known.len()).sum();
    assert_eq!(known, HELD_DELEGATIONS_MAX);
    // Newcomers are not confirmed; so many leases end at a time, the least recently named first.
    for number in 1_000..1_100 {
        show(&mut held, number, 300);
    }
    assert_eq!(held.sizes().0, HELD_DELEGATIONS_MAX);
    let ended = said(&mut held, 300);
    assert!(ended.iter().all(|it| it.known.is_empty()));
    let mut ended: Vec<_> = ended.into_iter().flat_map(|it| it.disclaimed).collect();
    ended.sort();
    let mut oldest: Vec<_> = (1..=DISCLAIMED_MAX as u64).map(digest).collect();
    oldest.sort();
    assert_eq!(ended, oldest);
    // Nothing is forgotten a millisecond too soon.
    show(&mut held, 2_000, 299 + FORGETS_AFTER_MS);
    assert_eq!(said(&mut held, 299 + FORGETS_AFTER_MS).len(), 1);
    show(&mut held, 2_001, 300 + FORGETS_AFTER_MS);
    let known = said(&mut held, 300 + FORGETS_AFTER_MS);
    assert!(known.iter().any(|it| it.known.contains(&digest(2_001))));

    // What was never shown is asked for up to a bound.
    for number in 10_000..20_000_u64 {
        let mut frame = Writer::append(PAYLOAD_MARKER.to_vec());
        frame.array(3).array(5).uint(1).uint(2).uint(3).uint(4);
        for _ in 0..2 {
            let reference = |writer: &mut Writer| {
                writer.array(4).array(2).uint(1).value(&digest(number));
                writer.uint(5).uint(6).uint(7);
            };
            reference(&mut frame);
            frame.uint(8);
        }
        out(&mut held, frame.into_bytes(), 400 + FORGETS_AFTER_MS);
    }
    assert_eq!(held.sizes().2, STATEMENTS_OWED_MAX);
    assert_eq!(held.missed, 10_000);
    // Both names of a frame are its origin's; those over the bound are not waited for.
    assert_eq!(held.lost, 10_000 - STATEMENTS_OWED_MAX as u64);
    let asked: Vec<_> = std::iter::from_fn(|| held.missing()).collect();
    assert!(asked.iter().all(|asked| asked.len() <= MISSING_MAX));
    assert_eq!(asked.concat().len(), STATEMENTS_OWED_MAX);

    // A sender shows the ones it used longest ago again.
    let mut shown = Shown::new(Rules::PROTOCOL);
    for number in 0..=SHOWN_DELEGATIONS_MAX as u64 {
        let frame = outline(&delegation(number), &delegation(number));
        assert_eq!(shorten(&mut shown, &frame), None);
        shown.known(digest(number), true);
    }
    assert_eq!(shown.len(), SHOWN_DELEGATIONS_MAX);
    let shows = |shown: &mut Shown, number| {
        let frame = outline(&delegation(number), &delegation(number));
        shorten(shown, &frame).is_none()
    };
    assert!(!shows(&mut shown, 1));
    assert!(shows(&mut shown, 0));
    // A large one travels inline always.
    let large = outline(&[1; REFERRED_MAX_BYTES], &[2; REFERRED_MAX_BYTES]);
    let before = (shown.len(), held.sizes().0);
    assert_eq!(shorten(&mut shown, &large), None);
    out(&mut held, large, 0);
    assert_eq!((shown.len(), held.sizes().0), before);
}

#[test]
fn statements_have_one_form_and_their_bound() {
    let statements = |known: usize, disclaimed: usize| Statements {
        known: (0..known as u64).map(digest).collect(),
        disclaimed: (0..disclaimed as u64).map(digest).collect(),
    };
    let decodes = |it: &Statements| from_slice::<Statements>(&to_vec(it)).as_ref() == Ok(it);
    assert!(decodes(&statements(1, 0)) && decodes(&statements(0, STATEMENTS_MAX)));
    assert!(!decodes(&statements(0, 0)));
    assert!(!decodes(&statements(STATEMENTS_MAX, 1)));
}

#[test]
fn law_a_shortened_frame_is_what_the_payload_says_and_comes_out_as_it_was() {
    let (origin, hop) = (signer(1), signer(2));
    for (origin, hop) in [(&origin, &origin), (&origin, &hop)] {
        let payload = payload(origin, hop, 1);
        let whole = payload.to_frame(|_| false);
        let (mut shown, mut held) = (Shown::new(Rules::PROTOCOL), Held::new(Rules::PROTOCOL));
        assert_eq!(shorten(&mut shown, &whole), None);
        assert_eq!(out(&mut held, whole.clone(), 0), whole);
        hear(&mut shown, held.statements(0).unwrap());
        let short = shorten(&mut shown, &whole).unwrap();
        assert_eq!(short, payload.to_frame(|_| true));
        assert_eq!(out(&mut held, short, 1), whole);
    }
}

/// Two sessions side by side; what the first sends, and how many bytes of payload messages.
fn cross(rules: Rules, frames: &[Vec<u8>]) -> (usize, [Session; 2]) {
    let session = || {
        let mut config = SessionConfig::new(NETWORK);
        config.rules = rules;
        Session::new(config, 0)
    };
    let mut ends = [session(), session()];
    for class in Class::ALL {
        ends.iter_mut()
            .for_each(|end| end.handle_channel_open(class, 0));
    }
    let (mut bytes, mut came) = (0, Vec::new());
    let mut settle = |ends: &mut [Session; 2], came: &mut Vec<Vec<u8>>| {
        while let Some((side, sent)) =
            (0..2).find_map(|side| Some((side, ends[side].poll_transmit(0)?)))
        {
            ends[side].handle_accepted(sent.class, 0);
            if side == 0 && sent.class == Class::Storage {
                bytes += sent.bytes.len();
            }
            ends[1 - side].handle_message(sent.class, sent.bytes, 0);
            while let Some(event) = ends[1 - side].poll_event() {
                if let SessionEvent::Frames { class, frames } = event {
                    ends[1 - side].taken(class, frames.len(), 0);
                    came.extend(frames.into_iter().map(Vec::from));
                }
            }
        }
    };
    settle(&mut ends, &mut came);
    for frame in frames {
        ends[0].send(Class::Storage, frame.clone()).unwrap();
        settle(&mut ends, &mut came);
    }
    assert_eq!(came, frames, "each as it was, in order");
    (bytes, ends)
}

#[test]
fn law_a_delegation_travels_once_and_then_by_reference() {
    let (origin, hop) = (signer(1), signer(2));
    for (what, origin, hop) in [("direct", &origin, &origin), ("carried", &origin, &hop)] {
        let frames: Vec<Vec<u8>> = (0..50)
            .map(|sequence| payload(origin, hop, sequence).to_frame(|_| false))
            .collect();
        let inline = Rules {
            refers: false,
            ..Rules::PROTOCOL
        };
        let (before, _) = cross(inline, &frames);
        let (after, ends) = cross(Rules::PROTOCOL, &frames);
        let each = |bytes: usize| bytes / frames.len();
        println!(
            "{what}: {} bytes a message, {} by reference",
            each(before),
            each(after)
        );
        let delegations = if what == "direct" { 1 } else { 2 };
        let counters = ends[0].status().counters;
        assert_eq!(counters.references_sent, delegations * 49);
        assert_eq!(ends[1].status().counters.references_missed, 0);
        let saved = u64::try_from(before - after).unwrap();
        assert!(saved > delegations * 49 * 150, "{saved}");
    }
}
