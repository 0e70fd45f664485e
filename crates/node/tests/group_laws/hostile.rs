//! Strangers, members and hosts that ask too much, lie, or bring what is not theirs.

use overlane_core::Coded;
use overlane_core::group::GroupId;
use overlane_core::wire::cbor::{Reader, Writer};
use overlane_node::peer::groups::{Ask, EVERY_MS, IN_HAND_MAX, Reply, STRAYS_MAX};
use overlane_relay::log::bounds::NUMBER_MAX;
use overlane_relay::log::{Frame, LogId, Mutant, Space, Turn};

use crate::net::{Net, frames_in};
use crate::scenes::{ask_everything, frames, say, two_hosts};

#[test]
fn law_group_a_stranger_costs_a_look_up_and_one_short_answer() {
    let mut net = Net::linked(4, 3);
    let group = net.create(0, &[]);
    let ticket = net.invite(0, group, 1);
    net.join(1, ticket);
    net.post(0, group, &["secret"]);
    net.run_until_all_hold(&[0, 1], group, 1);
    let log = LogId::group(group);
    let before = net.groups(0).logs().counters();
    let (lines, rosters) = (
        net.groups(0).numbers().lines,
        net.groups(0).counters().rosters,
    );
    let send = Frame::Send {
        log,
        envelope: &[7; 300],
    };
    let mut greet = Writer::new();
    greet.array(4).uint(1).bytes(&log.0).uint(0).boolean(true);
    let mut news = Writer::new();
    news.array(2).uint(4).bytes(&log.0);
    let mut leave = Writer::new();
    leave.array(2).uint(5).bytes(&log.0);
    let mut roster = Writer::new();
    roster.array(2).uint(3).bytes(&[1; 500]);
    let said = net.said;
    for _ in 0..100 {
        for body in [
            frames(&[&send.to_bytes(), &send.to_bytes()]),
            ask_everything(log),
            greet.as_bytes().to_vec(),
            leave.as_bytes().to_vec(),
            news.as_bytes().to_vec(),
            roster.as_bytes().to_vec(),
            vec![0x82, 9, 9],
        ] {
            let (did, now) = (net.nodes[3].did, net.now());
            net.groups(0).handle_message(did, &body, now);
        }
    }
    net.nodes[0].given += 700;
    net.flush(0);
    assert_eq!(
        net.said - said,
        STRAYS_MAX as u64,
        "answers in the air are bounded"
    );
    let answers: Vec<_> = net.wires[&(0, 3)].iter().cloned().collect();
    assert!(answers.iter().all(|data| data.message().body().len() < 40));
    assert!(
        answers
            .iter()
            .all(|data| frames_in(data.message().body()).is_empty())
    );
    let counters = net.groups(0).counters();
    assert_eq!((counters.turned_away, counters.malformed), (400, 100));
    assert_eq!(counters.rosters_refused, 100);
    assert_eq!(
        (net.groups(0).numbers().lines, counters.rosters),
        (lines, rosters)
    );
    assert_eq!(
        net.groups(0).logs().counters(),
        before,
        "no log heard of it"
    );
    net.run_for(EVERY_MS);
    assert_eq!(net.held(3, group), 0);
    assert_eq!(net.nodes[0].given, net.nodes[0].taken);
}

/// A member asks for everything again and again, takes nothing, and sends what is no RECON message.
#[test]
fn law_group_a_member_that_asks_for_everything_again_is_answered_once_it_took_what_it_asked_for() {
    let mut net = Net::linked(2, 3);
    let group = net.team();
    let bodies: Vec<_> = (0..900).map(|it| format!("{it:0>500}")).collect();
    let bodies: Vec<_> = bodies.iter().map(String::as_str).collect();
    net.post(0, group, &bodies);
    net.settle();
    let log = LogId::group(group);
    net.run_for(2 * EVERY_MS);
    let answered = net.groups(0).logs().counters().answered;
    // Its own machine does not see what is said to it: it reads nothing.
    net.nodes[1].given = 0;
    let before = net.said;
    for _ in 0..200 {
        let (did, now) = (net.nodes[1].did, net.now());
        net.groups(0).handle_message(did, &ask_everything(log), now);
        // Flushed without what was said coming to a lane: the driver's `handle_said` is late.
        net.groups(0).flush(now);
        let effects = std::iter::from_fn(|| net.groups(0).poll_effect()).count();
        assert!(effects <= 2 * IN_HAND_MAX + 3, "{effects}");
    }
    let counters = net.groups(0).logs().counters();
    assert_eq!(counters.answered - answered, 1, "{counters:?}");
    assert!(counters.not_answered >= 199, "{counters:?}");
    assert_eq!(net.said, before);
    // No message: refused by its own code, and the session lives on.
    let frame = Frame::Recon {
        log,
        space: Space::Numbered,
        turn: Turn::Ask,
        payload: b"\xff",
    };
    say(&mut net, 1, 0, &frames(&[&frame.to_bytes()]));
    assert!(net.groups(0).failure().is_none());
}

/// A host that names what it never gives, or says the same again, or nothing: each reconciliation
/// ends with a reason, and the next comes after a pause that grows.
#[test]
fn law_group_a_host_that_lies_is_asked_less_and_less() {
    for lie in 0..3 {
        let mut net = Net::linked(2, lie);
        let group = net.team();
        net.run_for(EVERY_MS);
        let log = LogId::group(group);
        let greetings = net.groups(1).counters().failed;
        let mut asked = 0;
        net.deaf.insert(0);
        let until_ms = net.now_ms + 60 * EVERY_MS;
        while net.now_ms < until_ms {
            // What the follower says is answered by the liar.
            let said: Vec<_> = net.wires.remove(&(1, 0)).into_iter().flatten().collect();
            for data in said {
                let body = data.message().body().to_vec();
                let greeted = body.get(1) == Some(&1);
                if greeted {
                    let mut answer = Writer::new();
                    answer
                        .array(5)
                        .uint(2)
                        .bytes(&log.0)
                        .uint(2)
                        .uint(1_000)
                        .uint(1);
                    say(&mut net, 0, 1, answer.as_bytes());
                } else if frames_in(&body).contains(&"recon") {
                    asked += 1;
                    let payload: Vec<u8> = match lie {
                        // A name nobody has.
                        0 => {
                            let mut ids = Writer::new();
                            ids.array(2).uint(1).array(1).array(3);
                            ids.uint(u64::MAX).uint(2).array(1).bytes(&[9; 32]);
                            ids.into_bytes()
                        }
                        // No message.
                        1 => vec![0xff],
                        _ => continue,
                    };
                    let frame = Frame::Recon {
                        log,
                        space: Space::Numbered,
                        turn: Turn::Answer,
                        payload: &payload,
                    };
                    say(&mut net, 0, 1, &frames(&[&frame.to_bytes()]));
                }
            }
            // The true host hears nothing of it.
            net.wires.remove(&(0, 1));
            let before = net.now_ms;
            net.run_for(500);
            assert!(net.now_ms > before);
        }
        let failed = net.groups(1).counters().failed - greetings;
        assert!(failed >= 10, "lie {lie}: {failed}");
        assert!(failed <= 80, "lie {lie}: {failed} in an hour");
        assert!(asked <= 8 * failed, "lie {lie}: {asked} rounds");
        assert!(net.groups(1).logs().syncing() <= 1);
    }
}

/// A roster of another's making, an older one, and one of a group that nobody here joined.
#[test]
fn law_group_rosters_come_from_the_owner_alone_and_never_go_back() {
    let mut net = Net::linked(4, 37);
    let group = net.team();
    net.run_for(EVERY_MS);
    let log = LogId::group(group);
    let roster_of = |net: &mut Net, node: usize, group: GroupId| {
        let log = LogId::group(group);
        let roster = net
            .groups(node)
            .logs()
            .rules()
            .roster(&log)
            .unwrap()
            .to_bytes();
        let mut body = Writer::new();
        body.array(2).uint(3).bytes(&roster);
        body.into_bytes()
    };
    let first = roster_of(&mut net, 0, group);
    let account = net.nodes[3].did;
    net.asked(0, Ask::Remove { group, account }).unwrap();
    net.run_for(EVERY_MS);
    let revision = |net: &mut Net, node: usize| {
        let rules = net.groups(node).logs().rules();
        rules.roster(&log).map(|it| it.subject().revision())
    };
    let current = revision(&mut net, 0);
    assert_eq!(revision(&mut net, 1), current);
    // Who was removed brings the roster that it was on.
    say(&mut net, 3, 0, &first);
    say(&mut net, 3, 1, &first);
    assert_eq!(
        (revision(&mut net, 0), revision(&mut net, 1)),
        (current, current)
    );
    // A member makes a group of its own: nobody hosts or follows it for that.
    let other = net.asked(
        1,
        Ask::Create {
            name: "mine".into(),
            hosts: vec![net.nodes[0].did],
        },
    );
    let Ok(Reply::Group(other)) = other else {
        panic!("{other:?}")
    };
    let unasked = roster_of(&mut net, 1, other.group);
    say(&mut net, 1, 0, &unasked);
    net.run_for(EVERY_MS);
    assert!(
        net.groups(0)
            .logs()
            .rules()
            .roster(&LogId::group(other.group))
            .is_none()
    );
    assert!(matches!(net.asked(0, Ask::List), Ok(Reply::Groups(views)) if views.len() == 1));
    // Any changed byte of a newer roster.
    let account = net.nodes[2].did;
    net.unlink(0, 1);
    net.asked(0, Ask::Remove { group, account }).unwrap();
    net.settle();
    let newer = roster_of(&mut net, 0, group);
    for at in (8..newer.len()).step_by(37) {
        let mut changed = newer.clone();
        changed[at] ^= 1;
        say(&mut net, 3, 1, &changed);
        assert_eq!(revision(&mut net, 1), current, "byte {at}");
    }
    // Whole, it counts whoever brings it.
    say(&mut net, 3, 1, &newer);
    assert!(revision(&mut net, 1) > current);
}

/// Answers in the place of a host that hears nothing, until nothing more is said to it.
fn in_its_place(
    net: &mut Net,
    host: usize,
    member: usize,
    mut answers: impl FnMut(&[u8]) -> Vec<Vec<u8>>,
) {
    loop {
        let said: Vec<_> = net
            .wires
            .remove(&(member, host))
            .into_iter()
            .flatten()
            .collect();
        net.wires.remove(&(host, member));
        if said.is_empty() {
            return;
        }
        for data in said {
            for answer in answers(data.message().body()) {
                say(net, host, member, &answer);
            }
        }
    }
}

/// The answer to a greeting, of one that holds a thousand posts.
fn greeted(log: LogId, revision: u64) -> Vec<u8> {
    let mut answer = Writer::new();
    let writer = answer.array(5).uint(2).bytes(&log.0).uint(revision);
    writer.uint(1_000).uint(1);
    answer.into_bytes()
}

fn answered(log: LogId, payload: &[u8]) -> Vec<u8> {
    let frame = Frame::Recon {
        log,
        space: Space::Numbered,
        turn: Turn::Answer,
        payload,
    };
    frames(&[&frame.to_bytes()])
}

/// A payload that settles all.
fn settled() -> Vec<u8> {
    let mut payload = Writer::new();
    let ranges = payload.array(2).uint(1).array(1);
    ranges.array(3).uint(u64::MAX).uint(0).null();
    payload.into_bytes()
}

/// What a member sends, each acknowledged under this number.
fn acknowledged_as(log: LogId, seq: u64, body: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = Reader::new(body);
    let (Ok(2), Ok(0), Ok(count)) = (reader.array(), reader.u8(), reader.array()) else {
        return Vec::new();
    };
    let mut acks = Vec::new();
    for _ in 0..count {
        if let Ok(Frame::Send { envelope, .. }) = Frame::from_bytes(reader.bytes().unwrap()) {
            let id = overlane_relay::log::address(envelope);
            acks.push(Frame::SendAck { log, id, seq }.to_bytes());
        }
    }
    match acks.is_empty() {
        true => acks,
        false => vec![frames(&acks.iter().map(Vec::as_slice).collect::<Vec<_>>())],
    }
}

/// The host of a member acknowledges what it posts, under a number that another post has, or under the highest of all.
fn numbered_by_a_liar(seq: u64, mutant: Option<Mutant>) -> Result<(), String> {
    let mut net = Net::linked(3, 21);
    let group = two_hosts(&mut net);
    net.post(0, group, &["first"]);
    net.run_until_all_hold(&[0, 1, 2], group, 1);
    net.run_for(EVERY_MS);
    net.unlink(0, 2);
    let log = LogId::group(group);
    if let Some(mutant) = mutant {
        net.groups(2).logs().break_rule(mutant);
    }
    net.deaf.insert(1);
    net.post(2, group, &["mine"]);
    net.settle();
    for _ in 0..20 {
        in_its_place(&mut net, 1, 2, |body| {
            let mut answers = acknowledged_as(log, seq, body);
            if body.get(1) == Some(&1) {
                answers.push(greeted(log, 2));
            }
            if frames_in(body).contains(&"recon") {
                answers.push(answered(log, &settled()));
            }
            answers
        });
        net.run_for(1_000);
    }
    // It goes on with the other host, and by itself.
    net.link(0, 2);
    let with = Some(net.nodes[0].did);
    let synced = net.asked(2, Ask::Sync { group, with });
    assert!(matches!(synced, Ok(Reply::Synced(..))), "{synced:?}");
    let bodies = vec![b"more".to_vec()];
    let posted = net.asked(2, Ask::Post { group, bodies });
    posted.map_err(|refused| refused.code().to_owned())?;
    net.run_for(2 * EVERY_MS);
    let mut said = net.bodies(0, group);
    said.sort();
    match said == ["first", "mine", "more"] {
        true => Ok(()),
        false => Err(format!("the other host has {said:?}")),
    }
}

#[test]
fn law_group_a_host_that_numbers_as_nobody_does_takes_nothing_from_a_member() {
    for seq in [1, NUMBER_MAX + 1, u64::MAX - 1] {
        numbered_by_a_liar(seq, None).unwrap();
    }
    let broken = numbered_by_a_liar(u64::MAX - 1, Some(Mutant::AnyNumber));
    assert_eq!(broken.unwrap_err(), "log/number_taken");
}

/// A host whose every answer is new and leads nowhere: each reconciliation ends at its bound, and is a failure.
#[test]
fn group_a_host_that_never_ends_is_asked_less_and_less() {
    let mut net = Net::linked(2, 23);
    let group = net.team();
    net.post(0, group, &["x"; 40]);
    net.run_until_all_hold(&[0, 1], group, 40);
    net.run_for(2 * EVERY_MS);
    let log = LogId::group(group);
    net.deaf.insert(0);
    let failed = net.counters(1).failed;
    let (from_ms, mut round) = (net.now_ms, 0_u64);
    while net.counters(1).failed < failed + 4 {
        in_its_place(&mut net, 0, 1, |body| {
            if body.get(1) == Some(&1) {
                return vec![greeted(log, 2)];
            }
            if !frames_in(body).contains(&"recon") {
                return Vec::new();
            }
            round += 1;
            assert!(round < 8 * 1_100, "it never ends");
            let mut cover = Writer::new();
            cover.array(2).uint(1).array(2);
            for upper in [round, u64::MAX] {
                let fingerprint = blake3::hash(&(round ^ upper).to_be_bytes());
                let range = cover.array(3).uint(upper).uint(1);
                range.bytes(fingerprint.as_bytes());
            }
            vec![answered(log, cover.as_bytes())]
        });
        net.run_for(500);
        assert!(net.now_ms < from_ms + 10 * EVERY_MS, "it is asked on");
    }
    let views = net.asked(1, Ask::List);
    let Ok(Reply::Groups(views)) = views else {
        panic!("{views:?}")
    };
    let course = &views[0].courses[0];
    assert_eq!(course.failures, 4, "{course:?}");
    assert_eq!(course.error.as_deref(), Some("recon/gave_up_rounds"));
    // The pauses between them were of one, two and four seconds.
    assert!(net.now_ms - from_ms >= 7_000);
}

/// A host says in the middle of each reconciliation that there is something new.
#[test]
fn group_news_without_end_have_a_member_reconcile_no_oftener_than_that_costs() {
    let mut net = Net::linked(2, 25);
    let group = net.team();
    net.post(0, group, &["x"; 40]);
    net.run_until_all_hold(&[0, 1], group, 40);
    let log = LogId::group(group);
    let mut news = Writer::new();
    news.array(2).uint(4).bytes(&log.0);
    net.deaf.insert(0);
    let (from_ms, mut asked) = (net.now_ms, 0);
    say(&mut net, 0, 1, news.as_bytes());
    while net.now_ms < from_ms + 10_000 {
        in_its_place(&mut net, 0, 1, |body| {
            if body.get(1) == Some(&1) {
                return vec![greeted(log, 2)];
            }
            if !frames_in(body).contains(&"recon") {
                return Vec::new();
            }
            asked += 1;
            assert!(asked < 1_000, "without end");
            vec![news.as_bytes().to_vec(), answered(log, &settled())]
        });
        net.run_for(10);
    }
    // A hundred milliseconds, and one for each hundred posts.
    assert!((20..=101).contains(&asked), "{asked}");
}
