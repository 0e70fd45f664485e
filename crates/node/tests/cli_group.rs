//! Groups between real daemons on loopback, as people use them.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod support;

use std::net::TcpListener;

use serde_json::Value;
use support::{Daemon, Place};

/// A home whose node listens at the same address in every life.
fn place() -> Place {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("its address").to_string();
    drop(free);
    let place = Place::new();
    let made = place.overlane(["init", "--listen", &address]);
    assert_eq!(made.code, 0, "{made:?}");
    place
}

fn json(place: &Place, args: &[&str]) -> Value {
    let answer = place.overlane(args.iter().chain(&["--json"]));
    assert_eq!(answer.code, 0, "{args:?}: {answer:?}");
    answer.json()
}

fn words(place: &Place, args: &[&str]) -> String {
    let answer = place.overlane(args);
    assert_eq!(answer.code, 0, "{args:?}: {answer:?}");
    answer.out
}

fn did_key(place: &Place) -> String {
    json(place, &["id"])["did_key"]
        .as_str()
        .expect("a key")
        .to_owned()
}

fn text(value: &Value) -> &str {
    value.as_str().expect("text")
}

/// The group as a node knows it.
fn team(place: &Place) -> Value {
    json(place, &["group", "list"])["groups"][0].clone()
}

/// Is invited to the group by its owner, and joins it; returns once its roster is here.
fn joins(place: &Place, owner: &Place, args: &[&str]) -> Value {
    let key = did_key(place);
    let invite = ["group", "invite", "team", &key];
    let invited = json(owner, &[&invite[..], args].concat());
    json(place, &["group", "join", text(&invited["ticket"])]);
    // The link may come after that; then the roster does by itself.
    loop {
        let joined = team(place);
        if joined["revision"] != 0 {
            return joined;
        }
        std::thread::yield_now();
    }
}

/// A host with a group, and members that have joined and stay linked to it.
fn group_of(members: usize) -> (Place, Daemon, Vec<(Place, Daemon)>) {
    let host = place();
    let up = host.daemon();
    json(&host, &["group", "create", "team"]);
    let members = (0..members).map(|_| {
        let place = Place::with_node();
        let daemon = place.daemon();
        json(&place, &["peer", "add", up.url()]);
        let joined = joins(&place, &host, &[]);
        assert_eq!(
            (&joined["member"], &joined["host"]),
            (&true.into(), &false.into())
        );
        assert_eq!(joined["follows"], up.did());
        (place, daemon)
    });
    let members = members.collect();
    (host, up, members)
}

/// The numbers and texts of so many posts, as one who follows reads them.
fn follow(place: &Place, count: usize) -> Vec<(u64, String)> {
    let count = count.to_string();
    let args = [
        "group", "log", "team", "--follow", "--count", &count, "--json",
    ];
    let read = place.overlane(args);
    assert_eq!(read.code, 0, "{}", read.err);
    let posts = read.out.lines().map(|line| {
        let post: Value = serde_json::from_str(line).expect("an object");
        (
            post["seq"].as_u64().expect("a number"),
            text(&post["text"]).to_owned(),
        )
    });
    posts.collect()
}

#[test]
fn cli_group_created_invited_joined_posted_read_synced_and_left() {
    let (host, up, mut members) = group_of(2);
    let (ben, _ben_up) = members.remove(0);
    let (eve, eve_up) = members.remove(0);
    let posted = json(&host, &["group", "post", "team", "hello"]);
    assert_eq!(
        (&posted["posts"], &posted["last_seq"]),
        (&1.into(), &1.into())
    );
    assert!(words(&ben, &["group", "post", "team", "hi ann"]).starts_with("posted"));
    let expected = vec![(1, "hello".to_owned()), (2, "hi ann".to_owned())];
    for place in [&host, &ben, &eve] {
        assert_eq!(follow(place, 2), expected);
    }
    let log = words(&eve, &["group", "log", "team", "--from", "2"]);
    assert!(
        log.trim().starts_with("2  ") && log.trim().ends_with("hi ann"),
        "{log}"
    );
    // What it would cost, and that it costs so.
    let plan = json(&eve, &["group", "plan", "team"]);
    assert_eq!(
        (&plan["here"], &plan["there"], &plan["receive"]),
        (&2.into(), &2.into(), &0.into())
    );
    assert!(words(&eve, &["group", "plan", "team"]).contains("would come  0 posts"));
    let synced = json(&eve, &["group", "sync", "team", "--host", up.did()]);
    assert_eq!(
        (&synced["settled"], &synced["end"]),
        (&true.into(), &"recon/settled".into())
    );
    assert!(words(&eve, &["group", "sync", "team"]).starts_with("settled with"));
    // Nobody else changes who is in; a name that is none is said to be none.
    let key = did_key(&eve);
    let args = ["group", "invite", "team", &key, "--json"];
    ben.overlane(args).is_refused(2, "group/not_owner");
    host.overlane(args).is_refused(2, "group/in_already");
    let args = ["group", "invite", "team", eve_up.did(), "--json"];
    host.overlane(args).is_refused(2, "api/no_key");
    ben.overlane(["group", "post", "nobody", "x", "--json"])
        .is_refused(2, "api/no_such_group");
    ben.overlane(["group", "join", "group:00", "--json"])
        .is_refused(2, "group/bad_ticket");
    host.overlane(["group", "sync", "team", "--json"])
        .is_refused(2, "group/alone");
    host.overlane(["group", "create", "team", "--json"])
        .is_refused(2, "group/name_taken");
    host.overlane(["group", "leave", "team", "--json"])
        .is_refused(2, "group/owner_stays");
    // Eve is taken away: what comes then is sealed without her, and she is told.
    let removed = json(&host, &["group", "remove", "team", eve_up.did()]);
    assert_eq!(
        (
            &removed["epoch"],
            &removed["members"].as_array().unwrap().len()
        ),
        (&2.into(), &2)
    );
    json(&host, &["group", "post", "team", "without eve"]);
    assert_eq!(follow(&ben, 3)[2].1, "without eve");
    let told = eve.overlane(["group", "sync", "team", "--json"]);
    told.is_refused(5, "group/not_here");
    let shown = words(&eve, &["group", "list"]);
    assert!(shown.contains("group/not_here"), "{shown}");
    assert!(words(&eve, &["group", "leave", "team"]).starts_with("left team"));
    assert!(words(&eve, &["group", "list"]).starts_with("no groups"));
    // Ben leaves by himself, and the owner hears of it.
    json(&ben, &["group", "leave", "team"]);
    while team(&host)["members"].as_array().unwrap().len() > 1 {
        std::thread::yield_now();
    }
    // Ann is alone in it then: who leaves deletes it for good, and is asked.
    let asked = host.overlane(["group", "leave", "team"]);
    assert_eq!(asked.code, 1, "{asked:?}");
    assert!(asked.out.contains("deleted for good") && asked.out.contains("group leave team --yes"));
    let asked = host.overlane(["group", "leave", "team", "--json"]);
    assert_eq!((asked.code, &asked.json()["left"]), (1, &false.into()));
    assert_eq!(team(&host)["posts"], 3, "nothing was changed");
    let status = json(&host, &["status"]);
    assert_eq!(status["groups_failed"], Value::Null);
    assert_eq!(status["groups"]["posts_kept"], 3);
    assert!(status["groups"]["rosters_taken"].is_u64());
    let left = words(&host, &["group", "leave", "team", "--yes"]);
    assert!(left.starts_with("left team; what was here"), "{left}");
    assert!(words(&host, &["group", "list"]).starts_with("no groups"));
}

/// Posts written without a link to the host wait, over a restart too; a host that is killed has what it
/// acknowledged.
#[test]
fn group_posts_wait_for_their_host_over_restarts_and_a_kill_of_either() {
    let (host, mut up, mut members) = group_of(1);
    let (ben, mut ben_up) = members.remove(0);
    let posted = json(&ben, &["group", "post", "team", "first"]);
    assert_eq!(posted["posts"], 1);
    assert_eq!(follow(&host, 1)[0].1, "first");
    // The host's number for it has come back: it waits no more.
    assert_eq!(follow(&ben, 1)[0].1, "first");
    up.running.kill();
    let lines: String = (0..50).map(|number| format!("away {number}\n")).collect();
    let args = ["group", "post", "team", "--lines", "--json"];
    let waits = ben.overlane_reading(args, lines.as_bytes()).json();
    assert_eq!(
        (&waits["posts"], &waits["last_seq"]),
        (&50.into(), &Value::Null)
    );
    assert_eq!(team(&ben)["waiting"], 50);
    ben_up.running.kill();
    let _up = host.daemon();
    let _ben_up = ben.daemon();
    let all = follow(&host, 51);
    let expected: Vec<_> = (0..50).map(|number| format!("away {number}")).collect();
    let texts: Vec<_> = all.into_iter().map(|it| it.1).skip(1).collect();
    assert_eq!(texts, expected, "in the order they were written");
    assert_eq!(follow(&ben, 51), follow(&host, 51));
    assert_eq!(team(&ben)["waiting"], 0);
}

/// Four nodes, one of them away for ten thousand posts: it comes back, and has all of them in order.
#[test]
fn group_of_four_with_one_member_away_for_10_000_posts() {
    let (host, _up, mut members) = group_of(3);
    let (away, mut away_up) = members.pop().expect("three");
    json(&host, &["group", "post", "team", "post 0"]);
    assert_eq!(follow(&away, 1), [(1, "post 0".to_owned())]);
    assert_eq!(away_up.running.terminate(), Some(0));
    let lines: String = (1..=10_000)
        .map(|number| format!("post {number}\n"))
        .collect();
    let args = ["group", "post", "team", "--lines", "--json"];
    let posted = host.overlane_reading(args, lines.as_bytes()).json();
    assert_eq!(
        (&posted["posts"], &posted["last_seq"]),
        (&10_000.into(), &10_001.into())
    );
    let _away_up = away.daemon();
    let expected: Vec<_> = (0..=10_000)
        .map(|number| (number + 1, format!("post {number}")))
        .collect();
    for place in [&away, &members[0].0, &members[1].0] {
        assert!(
            follow(place, 10_001) == expected,
            "all of them, in order, each once"
        );
    }
    let plan = json(&away, &["group", "plan", "team"]);
    assert_eq!(
        (&plan["here"], &plan["receive"]),
        (&10_001.into(), &0.into())
    );
    let status = json(&away, &["status"]);
    assert_eq!(status["groups"]["posts_kept"], 10_000, "each came once");
    println!("away: {}", status["groups"]);
}

/// The host that a member asks is killed: the member goes over to the other one, and everybody has everything once, the
/// killed one too when it is back.
#[test]
fn group_a_member_goes_on_with_another_host_when_its_own_is_killed() {
    let (ann, up, mut members) = group_of(1);
    let (ben, _ben_up) = members.remove(0);
    // Cy hosts the group as well, and ben goes over to him.
    let cy = place();
    let mut cy_up = cy.daemon();
    json(&cy, &["peer", "add", up.url()]);
    let args = ["group", "invite", "team", &did_key(&cy), "--host"];
    json(&cy, &["group", "join", text(&json(&ann, &args)["ticket"])]);
    json(&ann, &["group", "post", "team", "hello"]);
    assert_eq!(follow(&cy, 1).len(), 1);
    // Until the roster that lists cy has come to ben, and a way to him is there, it is refused.
    let over = ["group", "sync", "team", "--host", cy_up.did(), "--json"];
    while ben.overlane(over).code != 0 {
        std::thread::yield_now();
    }
    assert_eq!(team(&ben)["follows"], Value::Null);
    json(&ben, &["group", "post", "team", "by way of cy"]);
    assert_eq!(follow(&ann, 2).len(), 2);
    cy_up.running.kill();
    json(&ben, &["group", "post", "team", "while cy is dead"]);
    let synced = json(&ben, &["group", "sync", "team", "--host", up.did()]);
    assert_eq!(
        (&synced["settled"], &synced["with"]),
        (&true.into(), &up.did().into())
    );
    let texts = |place: &Place, count| {
        let mut all: Vec<_> = follow(place, count).into_iter().map(|it| it.1).collect();
        all.sort();
        all
    };
    let all = ["by way of cy", "hello", "while cy is dead"];
    assert_eq!(texts(&ann, 3), all);
    assert_eq!(texts(&ben, 3), all);
    let _cy_up = cy.daemon();
    assert_eq!(texts(&cy, 3), all);
    let has = |place: &Place| (team(place)["posts"].clone(), team(place)["waiting"].clone());
    for place in [&ann, &ben, &cy] {
        assert_eq!(has(place), (3.into(), 0.into()));
    }
}

/// The host that a member asks is killed and stays away: the member goes over to the other one by itself, and asks that
/// one after a restart too. How long a host may be gone is the member's to say.
#[test]
fn group_a_member_goes_over_by_itself_when_its_host_is_gone() {
    let (ann, mut ann_up, _) = group_of(0);
    let cy = place();
    let cy_up = cy.daemon();
    let ben = Place::with_node();
    let mut ben_up = ben.start(["run", "--json", "--set", "groups.host_gone_ms=1000"]);
    assert_eq!(ben_up.line()["up"], true);
    json(&cy, &["peer", "add", ann_up.url()]);
    json(&ben, &["peer", "add", ann_up.url()]);
    json(&ben, &["peer", "add", cy_up.url()]);
    joins(&ben, &ann, &[]);
    joins(&cy, &ann, &["--host"]);
    json(&ann, &["group", "post", "team", "hello"]);
    assert_eq!(follow(&cy, 1), follow(&ben, 1));
    // It greets its host before it reconciles, and so has the roster that lists the other.
    assert_eq!(team(&ben)["hosts"].as_array().map(Vec::len), Some(2));
    ann_up.running.kill();
    json(&ben, &["group", "post", "team", "while ann is dead"]);
    assert_eq!(follow(&cy, 2)[1].1, "while ann is dead");
    assert_eq!(team(&ben)["asks"], cy_up.did());
    let status = json(&ben, &["status"]);
    assert!(
        status["groups"]["went_over"].as_u64() >= Some(1),
        "{status}"
    );
    assert_eq!(ben_up.terminate(), Some(0));
    let _ben_up = ben.daemon();
    let known = team(&ben);
    assert_eq!(
        (&known["asks"], &known["waiting"]),
        (&cy_up.did().into(), &0.into())
    );
}

/// A node keeps of a group's log what its user says.
#[test]
fn cli_group_a_node_keeps_as_many_posts_as_its_user_says() {
    let ann = Place::with_node();
    let mut up = ann.start(["run", "--json", "--set", "groups.keep_posts=256"]);
    assert_eq!(up.line()["up"], true);
    json(&ann, &["group", "create", "team"]);
    let lines: String = (1..=300).map(|number| format!("post {number}\n")).collect();
    let args = ["group", "post", "team", "--lines", "--json"];
    let posted = ann.overlane_reading(args, lines.as_bytes()).json();
    assert_eq!(posted["last_seq"], 300);
    assert_eq!(team(&ann)["posts"], 256);
    let oldest = &follow(&ann, 1)[0];
    assert_eq!(oldest, &(45, "post 45".to_owned()));
}
