//! `doctor` and `health` on homes that are well, and on homes with something broken.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on has failed, helpers' parts too"
)]

mod support;

use std::fs::{self, Permissions};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use support::{Pair, Place, Running, lose_an_answer};

/// The steps, the sum, and the exit code.
fn doctor(place: &Place, args: &[&str]) -> (Vec<Value>, Value, i32) {
    let answer = place.overlane(["doctor"].iter().chain(args).chain(&["--json"]));
    let lines = answer.out.lines();
    let mut lines: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect();
    let sum = lines.pop().expect("a last line");
    (lines, sum, answer.code)
}

/// The one bad step of a home with one thing broken; it says what to do.
fn broken(place: &Place) -> Value {
    let (steps, sum, code) = doctor(place, &[]);
    let bad: Vec<_> = steps.iter().filter(|it| it["finding"] == "bad").collect();
    assert_eq!((bad.len(), code), (1, 1), "{steps:?}");
    assert_eq!(sum["bad"], 1);
    let bad = bad[0].clone();
    for field in ["tried", "found", "meaning", "next"] {
        assert!(
            bad[field].as_str().is_some_and(|it| !it.is_empty()),
            "{field}: {bad}"
        );
    }
    bad
}

fn found(step: &Value, words: &str) -> bool {
    step["found"].as_str().is_some_and(|it| it.contains(words))
}

#[test]
fn cli_doctor_finds_what_is_broken_without_a_daemon() {
    // Nothing there.
    let bad = broken(&Place::new());
    assert_eq!(bad["step"], "key");
    assert!(found(&bad, "home/not_initialised"), "{bad}");
    // A key that others may read.
    let place = Place::with_node();
    let key = place.home().join("account.key");
    fs::set_permissions(&key, Permissions::from_mode(0o644)).expect("a mode");
    let bad = broken(&place);
    assert!(
        bad["step"] == "key" && found(&bad, "home/key_mode"),
        "{bad}"
    );
    fs::set_permissions(&key, Permissions::from_mode(0o600)).expect("a mode");
    // A folder that everybody may write into.
    fs::set_permissions(place.home(), Permissions::from_mode(0o777)).expect("a mode");
    let bad = broken(&place);
    assert!(
        bad["step"] == "folder" && found(&bad, "home/folder_open"),
        "{bad}"
    );
    place
        .overlane(["run", "--json"])
        .is_refused(4, "home/folder_open");
    fs::set_permissions(place.home(), Permissions::from_mode(0o700)).expect("a mode");
    // A key of the configuration that is none.
    let config = place.home().join("config.toml");
    let before = fs::read_to_string(&config).expect("a file");
    fs::write(&config, format!("{before}\nlisten_at = 1\n")).expect("written");
    let bad = broken(&place);
    assert!(bad["step"] == "config" && found(&bad, "listen_at"), "{bad}");
    // An address that somebody listens at.
    let taken = TcpListener::bind("127.0.0.1:0").expect("an address");
    let address = taken.local_addr().expect("an address").to_string();
    let other = before
        .lines()
        .map(|line| match line.starts_with("listen =") {
            true => format!("listen = \"{address}\""),
            false => line.to_owned(),
        });
    fs::write(&config, other.collect::<Vec<_>>().join("\n")).expect("written");
    let bad = broken(&place);
    assert_eq!(bad["step"], "listen", "{bad}");
    fs::write(&config, &before).expect("written");
    // A clock that was set back since the home was written.
    let ahead = SystemTime::now() + Duration::from_secs(3_600);
    let file = fs::File::options()
        .append(true)
        .open(&config)
        .expect("a file");
    file.set_modified(ahead).expect("a time");
    let bad = broken(&place);
    assert_eq!(bad["step"], "clock", "{bad}");
    file.set_modified(SystemTime::now()).expect("a time");
    // All mended.
    let (steps, sum, code) = doctor(&place, &[]);
    assert_eq!((&sum["bad"], code), (&Value::from(0), 0), "{steps:?}");
    let ports = steps.iter().find(|it| it["step"] == "ports");
    assert!(ports.is_some_and(|it| it["finding"] == "good"), "{steps:?}");
    // An address for links that this machine has not (RFC 5737).
    let mut elsewhere = place.command(["doctor", "--json"]);
    let elsewhere = elsewhere.env("OVERLANE_LINKS_BIND", "192.0.2.1").output();
    let elsewhere = String::from_utf8(elsewhere.expect("it runs").stdout).expect("text");
    let mut lines = elsewhere
        .lines()
        .filter(|it| it.contains("\"step\":\"ports\""));
    assert!(
        lines.any(|it| it.contains("\"finding\":\"bad\"")),
        "{elsewhere}"
    );
    let health = place.overlane(["health", "--json"]);
    assert_eq!(
        (health.code, &health.json()["healthy"]),
        (1, &Value::from(false))
    );
}

#[test]
fn cli_doctor_finds_a_bad_record_and_a_peer_that_is_away() {
    let place = Place::with_store("files");
    let pair = Pair::of(Place::with_node(), place);
    pair.link();
    pair.send(&["hello"]);
    pair.take();
    let Pair {
        here,
        there,
        mut receiver,
        ..
    } = pair;
    assert_eq!(receiver.running.terminate(), Some(0));
    let records = fs::read_dir(there.home().join("replay")).expect("a folder");
    let records = records.map(|it| it.expect("an entry").path());
    let record = records
        .filter(|path| path.file_name().is_some_and(|name| name.len() == 40))
        .max_by_key(|path| path.metadata().expect("a file").len());
    fs::write(record.expect("a record"), b"torn").expect("written");
    let bad = broken(&there);
    assert!(
        bad["step"] == "store" && found(&bad, "1 of them bad"),
        "{bad}"
    );
    // The other has it among its peers, and says that it is away.
    let away = (0..2_000).find_map(|_| {
        let (steps, ..) = doctor(&here, &[]);
        let mut peers = steps.into_iter().filter(|it| it["step"] == "peers");
        peers.find(|it| it["meaning"].is_string())
    });
    let away = away.expect("it is noticed");
    assert_eq!(away["finding"], "warning", "{away}");
}

#[test]
fn cli_doctor_asks_a_running_node_and_follows_the_way_to_another() {
    let pair = Pair::linked();
    // The link that was asked for is on its way; the addresses that it tried are shown once it came out.
    let (steps, sum, code) = loop {
        let asked = doctor(&pair.here, &[]);
        if asked.0.iter().any(|it| it["step"] == "ways") {
            break asked;
        }
    };
    assert_eq!((&sum["bad"], code), (&Value::from(0), 0), "{steps:?}");
    let named: Vec<_> = steps
        .iter()
        .map(|it| it["step"].as_str().expect("a name"))
        .collect();
    for step in [
        "key",
        "config",
        "disk",
        "clock",
        "daemon",
        "delegation",
        "store",
        "signalling",
        "links",
        "clocks",
        "ways",
        "ring",
        "holders",
        "custody",
    ] {
        assert!(named.contains(&step), "{step}: {named:?}");
    }
    let ways = steps.iter().find(|it| it["step"] == "ways").expect("there");
    assert!(found(ways, "connected, direct: host 127.0.0.1:"), "{ways}");
    assert!(found(ways, "answered"), "{ways}");
    let linked = ["health", "--links", "1", "--wait", "30"];
    assert_eq!(pair.here.overlane(linked).code, 0);
    let beyond = pair.here.overlane(["health", "--links", "2"]);
    assert_eq!(
        (beyond.code, beyond.out.trim()),
        (1, "not healthy: 1 link, and 2 are asked for")
    );
    let there = pair.receiver.did();
    // Two that were linked this instant are a ring a moment later.
    let steps = (0..500).find_map(|_| {
        let (steps, _, code) = doctor(&pair.here, &["peer", there]);
        (code == 0).then_some(steps)
    });
    let steps = steps.expect("the ring heals");
    assert!(
        steps
            .iter()
            .any(|it| it["step"] == "answer" && found(it, "hops away")),
        "{steps:?}"
    );
    let slot = steps.iter().find(|it| it["step"] == "slot").expect("there");
    assert!(found(slot, "32 are its own"), "{slot}");
    let status = pair.here.overlane(["status", "--json"]).json();
    let link = &status["links"][0];
    assert_eq!(
        (&link["up"], &link["slot"]["floor"]),
        (&true.into(), &32.into())
    );
    // What the other node said is charged to it: it is the only one that brings anything.
    assert!(link["slot"]["streams"].as_u64() >= Some(1), "{link}");
    let nobody = "0f".repeat(20);
    let (steps, sum, code) = doctor(&pair.here, &["peer", &nobody]);
    assert_eq!(code, 1, "{steps:?}");
    assert!(sum["bad"].as_u64().is_some_and(|bad| bad >= 1), "{steps:?}");
    let words = pair.here.overlane(["doctor", "peer", &nobody]);
    assert!(words.out.contains("means"), "{words:?}");
}

#[test]
fn cli_health_counts_no_link_that_is_still_on_its_way() {
    let (here, there) = (Place::with_node(), Place::with_node());
    let receiver = there.daemon();
    // The receiver answers an offer, and whoever offered never hears of it: the link waits for nobody.
    let proxy = TcpListener::bind("127.0.0.1:0").expect("a port");
    let by = format!("http://{}", proxy.local_addr().expect("bound"));
    assert_eq!(here.overlane(["peer", "add", &by]).code, 0);
    let _dialler = here.daemon();
    lose_an_answer(&proxy, receiver.url());
    let health = there.overlane(["health", "--links", "1", "--json"]);
    assert_eq!(health.code, 1, "{health:?}");
    assert_eq!(health.json()["links"], 0, "{health:?}");
    let status = there.overlane(["status", "--json"]).json();
    let links = status["links"].as_array().expect("links");
    let ups: Vec<_> = links.iter().map(|link| &link["up"]).collect();
    assert_eq!(ups, [false], "{status}");
    // As it is, it is healthy; and so is a node whose link came up.
    assert_eq!(there.overlane(["health"]).code, 0);
}

/// A TURN server that takes nobody's credentials; the rest of a 401 (RFC 8489, section 14).
fn refusing_turn_server() -> std::net::SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("its address");
    std::thread::spawn(move || {
        let mut request = [0; 1_500];
        while let Ok((bytes, from)) = socket.recv_from(&mut request) {
            if bytes < 20 {
                continue;
            }
            let mut refusal = vec![0x01, 0x13, 0, 24];
            refusal.extend(&request[4..20]);
            refusal.extend([0x00, 0x09, 0, 4, 0, 0, 4, 1]);
            refusal.extend(b"\x00\x14\x00\x04test\x00\x15\x00\x04once");
            socket.send_to(&refusal, from).expect("sent");
        }
    });
    address
}

#[test]
fn cli_a_credential_is_shown_nowhere_and_not_taken_from_an_open_file() {
    const SECRET: &str = "s3cret-571984";
    let (here, there) = (Place::with_node(), Place::with_node());
    let receiver = there.daemon();
    let server = refusing_turn_server();
    let file = here.home().join("config.toml");
    let written = fs::read_to_string(&file).expect("a configuration");
    let peers = format!("peers = [\"{}\"]", receiver.url());
    let written = written
        .replace("peers = []", &peers)
        .replace("log = \"warn\"", "log = \"trace,rtc=trace,webrtc=trace\"");
    let table = format!(
        "\n[[ice.servers]]\nurl = \"turn:{server}\"\nusername = \"me\"\ncredential = \"{SECRET}\"\n"
    );
    fs::write(&file, written + &table).expect("written");

    fs::set_permissions(&file, Permissions::from_mode(0o644)).expect("a mode");
    let open = here.overlane(["run", "--json"]);
    open.is_refused(2, "home/config_mode");
    let bad = broken(&here);
    assert!(
        bad["step"] == "config" && found(&bad, "home/config_mode"),
        "{bad}"
    );
    fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("a mode");

    let log = here.dir.path().join("log");
    let to = fs::File::create(&log).expect("a file");
    let mut daemon = Running::with_log(here.command(["run", "--json"]), to);
    let up = daemon.line();
    let refused = (0..2_000).find_map(|_| {
        let (steps, ..) = doctor(&here, &[]);
        let mut ice = steps.into_iter().filter(|it| it["step"] == "ice");
        ice.find(|it| it["meaning"].is_string())
    });
    let refused = refused.expect("it is noticed");
    assert!(found(&refused, "ice/refused"), "{refused}");
    assert!(
        refused["next"]
            .as_str()
            .is_some_and(|it| it.contains("credential")),
        "{refused}"
    );
    let mut said = vec![open.out, open.err, up.to_string(), bad.to_string()];
    for args in [
        &["status"][..],
        &["doctor"],
        &["peer", "list"],
        &["metrics"],
        &["bounds"],
        &["send", receiver.did(), "hello"],
    ] {
        for form in [&[][..], &["--json"]] {
            let answer = here.overlane(args.iter().chain(form));
            said.extend([answer.out, answer.err]);
        }
    }
    assert_eq!(daemon.terminate(), Some(0));
    said.push(fs::read_to_string(&log).expect("its log"));
    // A number where text belongs is a mistake, which is shown with its line alone.
    let numeric = fs::read_to_string(&file).expect("the configuration");
    let numeric = numeric.replace(&format!("\"{SECRET}\""), "571984");
    fs::write(&file, numeric).expect("written");
    let mistaken = here.overlane(["run", "--json"]);
    mistaken.is_refused(2, "home/config");
    said.extend([mistaken.out, mistaken.err]);
    for said in said {
        assert!(!said.contains("571984"), "a credential is shown: {said}");
    }
}
