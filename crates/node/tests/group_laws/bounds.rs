//! What is bounded, and what the page says of it.

use overlane_core::group::GroupId;
use overlane_core::seal::SealingKey;
use overlane_core::wire::cbor::Writer;
use overlane_core::{Coded, Did};
use overlane_node::peer::groups::{
    ASKS_WAITING_MAX, Ask, AskId, EVERY_MS, GroupsError, IN_HAND_MAX, LINES_MAX, MAINTAIN_MS,
    NAME_MAX_BYTES, POSTS_PER_ASK, POSTS_WAITING_MAX, Reply, TRIM_AGAIN_MS, TRIM_PARTS_MAX,
    WORDS_MAX,
};
use overlane_relay::log::bounds::EVICTED_PER_CALL;
use overlane_relay::log::testkit::MemoryLogs;
use overlane_relay::log::{LogId, Retention};

use crate::net::{Net, alone};

#[test]
fn law_group_bounds_refuse_by_name() {
    let mut net = Net::linked(2, 19);
    let group = net.team();
    net.unlink(0, 1);
    let code = |answer: Result<Reply, GroupsError>| answer.unwrap_err().code();
    // Names.
    for name in ["", "a\nb", &"n".repeat(NAME_MAX_BYTES + 1)] {
        let hosts = Vec::new();
        let name = name.to_owned();
        assert_eq!(
            code(net.asked(0, Ask::Create { name, hosts })),
            "group/bad_name"
        );
    }
    let taken = Ask::Create {
        name: "team".into(),
        hosts: Vec::new(),
    };
    assert_eq!(code(net.asked(0, taken)), "group/name_taken");
    // Posts of one request, and posts that wait.
    let post = |net: &mut Net, count: usize| {
        let bodies = vec![b"x".to_vec(); count];
        net.asked(1, Ask::Post { group, bodies })
    };
    assert_eq!(
        code(post(&mut net, POSTS_PER_ASK + 1)),
        "group/too_many_posts"
    );
    post(&mut net, POSTS_PER_ASK).unwrap();
    post(&mut net, POSTS_WAITING_MAX - POSTS_PER_ASK).unwrap();
    assert_eq!(code(post(&mut net, 1)), "group/posts_waiting");
    let long = vec![vec![0; overlane_node::groups::POST_BODY_MAX_BYTES + 1]];
    assert_eq!(
        code(net.asked(
            0,
            Ask::Post {
                group,
                bodies: long
            }
        )),
        "group/over_bound"
    );
    // Requests that wait for other nodes: none is answered while nothing moves.
    for _ in 0..ASKS_WAITING_MAX {
        net.ask(1, Ask::Sync { group, with: None });
    }
    let over = net.ask(1, Ask::Sync { group, with: None });
    net.flush(1);
    let refused = net.nodes[1].answers.remove(&over).unwrap();
    assert_eq!(code(refused), "group/asks_full");
    net.link(0, 1);
    net.run_until(|net| net.nodes[1].answers.len() == ASKS_WAITING_MAX);
    net.run_until_all_hold(&[0, 1], group, POSTS_WAITING_MAX as u64);
    // Others that are not asked.
    let unknown = GroupId([9; 32]);
    assert_eq!(
        code(net.asked(
            0,
            Ask::Sync {
                group: unknown,
                with: None
            }
        )),
        "group/not_known"
    );
    assert_eq!(
        code(net.asked(0, Ask::Sync { group, with: None })),
        "group/alone"
    );
    let other = Some(Did([1; 20]));
    assert_eq!(
        code(net.asked(1, Ask::Sync { group, with: other })),
        "group/not_a_host"
    );
    let account = net.nodes[0].did;
    assert_eq!(
        code(net.asked(1, Ask::Remove { group, account })),
        "group/not_owner"
    );
    let again = Ask::Invite {
        group,
        account: net.nodes[1].did,
        member: SealingKey::of_account(&net.nodes[1].key),
        hosts: false,
    };
    assert_eq!(code(net.asked(0, again)), "group/in_already");
}

/// Its user says that less is kept from now on: the next post makes room, however much that is.
#[test]
fn group_a_log_of_which_less_is_kept_from_now_on_takes_a_post_all_the_same() {
    let mut owner = alone::over(MemoryLogs::default(), 0);
    let group = alone::group_of_two(&mut owner, 1).group;
    let bodies = vec![b"before".to_vec(); 2 * EVICTED_PER_CALL + 100];
    owner.ask(AskId(2), Ask::Post { group, bodies }, alone::at(0));
    alone::answer(&mut owner);
    owner.set_retention(Retention {
        entries: 10,
        ..Retention::GROUP
    });
    let bodies = vec![b"after".to_vec()];
    owner.ask(AskId(3), Ask::Post { group, bodies }, alone::at(1));
    let Reply::Posted(posted) = alone::answer(&mut owner) else {
        panic!("it is posted");
    };
    assert_eq!(posted.len(), 1);
}

/// And what is too much goes with the next maintenance, though nobody posts.
#[test]
fn group_a_log_of_which_less_is_kept_from_now_on_lets_go_of_the_rest_by_itself() {
    let mut owner = alone::over(MemoryLogs::default(), 0);
    let group = alone::group_of_two(&mut owner, 1).group;
    let at_once = TRIM_PARTS_MAX * EVICTED_PER_CALL;
    let posts = at_once + EVICTED_PER_CALL + 50;
    for part in [POSTS_PER_ASK, posts - POSTS_PER_ASK] {
        let bodies = vec![b"before".to_vec(); part];
        owner.ask(AskId(2), Ask::Post { group, bodies }, alone::at(0));
        alone::answer(&mut owner);
    }
    owner.handle_timeout(alone::at(0));
    owner.set_retention(Retention {
        entries: 10,
        ..Retention::GROUP
    });
    let mut let_go = |ms| {
        let due_ms = owner.poll_timeout().expect("it is due");
        assert!(due_ms <= ms, "{due_ms}");
        owner.handle_timeout(alone::at(ms));
        owner.flush(alone::at(ms));
        owner.numbers().logs.let_go
    };
    // A part of it at a time, and the next is soon.
    assert_eq!(let_go(MAINTAIN_MS), at_once as u64);
    let soon_ms = MAINTAIN_MS + TRIM_AGAIN_MS;
    assert_eq!(let_go(soon_ms), posts as u64 - 10);
    assert_eq!(let_go(soon_ms + MAINTAIN_MS), posts as u64 - 10);
}

/// Words and nodes that something waits to be said to, while nothing comes to a lane.
#[test]
fn law_group_what_waits_to_be_said_is_bounded() {
    let mut net = Net::linked(2, 23);
    let group = net.team();
    net.run_for(EVERY_MS);
    let log = LogId::group(group);
    let mut greet = Writer::new();
    greet.array(4).uint(1).bytes(&log.0).uint(0).boolean(true);
    let not_said = net.groups(0).counters().not_said;
    let (did, now) = (net.nodes[1].did, net.now());
    for _ in 0..2 * WORDS_MAX {
        net.groups(0).handle_message(did, greet.as_bytes(), now);
    }
    let counters = net.groups(0).counters();
    // Each is answered with the roster and what is here.
    assert_eq!(
        counters.not_said - not_said,
        (4 * WORDS_MAX - WORDS_MAX) as u64
    );
    assert!(net.groups(0).numbers().lines <= LINES_MAX);
    net.groups(0).flush(now);
    let said = std::iter::from_fn(|| net.groups(0).poll_effect());
    let said = said.filter(|it| matches!(it, overlane_node::peer::groups::Effect::Say { .. }));
    assert!(said.count() <= IN_HAND_MAX);
}

/// What docs/protocol.md says of bounds is so.
#[test]
fn group_the_page_tells_every_bound_as_it_is() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, part) = page.split_once("\n### Groups between nodes\n").unwrap();
    let part = part.split("\n## ").next().unwrap();
    use overlane_node::peer::groups as bounds;
    macro_rules! told {
        ($($name:ident),* $(,)?) => {
            $(
                let (name, value) = (stringify!($name), bounds::$name);
                let row = format!("| `{name}` | {value}");
                assert!(part.contains(&row), "no row {row}");
            )*
        };
    }
    told![
        FRAMES_PER_MESSAGE,
        IN_HAND_MAX,
        LINES_MAX,
        WORDS_MAX,
        WORDS_MAX_BYTES,
        STRAYS_MAX,
        SYNCS_MAX,
        POSTS_PER_ASK,
        POSTS_WAITING_MAX,
        ASKS_WAITING_MAX,
        KEYS_MAX,
        PAGE_MAX,
        NAME_MAX_BYTES,
        GREETING_MS,
        GONE_MS,
        GONE_MIN_MS,
        GONE_MAX_MS,
        EARLIER_MAX,
        EARLIER_MAX_BYTES,
        FOLLOW_MS,
        LEAVING_MAX,
        LEAVING_MS,
    ];
    assert!(part.contains(&format!("`{}`", bounds::GROUPS_NAMESPACE)));
    let row = format!(
        "| `EVERY_MS`, `PAUSE_MS` | {}, {} |",
        bounds::EVERY_MS,
        bounds::PAUSE_MS
    );
    assert!(part.contains(&row));
}
