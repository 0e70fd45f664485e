//! Every metric that a node tells is moved once by what it is about: by use, or by the fault that it tells.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on has failed, helpers' parts too"
)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use support::{Place, Running, host, lose_an_answer};

/// How often something is looked at that comes by itself, each time by a process of its own.
const LOOKS: usize = 3_000;

/// What a daemon told first, and which families have moved since.
struct Watched<'p> {
    place: &'p Place,
    first: BTreeMap<String, String>,
    moved: BTreeSet<String>,
}

fn samples(place: &Place) -> BTreeMap<String, String> {
    let text = place.overlane(["metrics"]);
    assert_eq!(text.code, 0, "{text:?}");
    let samples = text.out.lines().filter(|line| !line.starts_with('#'));
    let samples = samples.filter_map(|line| line.rsplit_once(' '));
    samples
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// The family of a sample, as the page of metrics names it.
fn family(sample: &str, families: &BTreeSet<String>) -> String {
    let name = sample.split('{').next().unwrap_or(sample);
    let ends = ["_bucket", "_sum", "_count"];
    let of = ends.iter().find_map(|end| name.strip_suffix(end));
    let of = of.filter(|of| families.contains(*of)).unwrap_or(name);
    assert!(families.contains(of), "{sample} is not on the page");
    of.to_owned()
}

impl<'p> Watched<'p> {
    fn new(place: &'p Place) -> Self {
        Self {
            place,
            first: samples(place),
            moved: BTreeSet::new(),
        }
    }

    fn look(&mut self, families: &BTreeSet<String>) {
        let now = samples(self.place);
        let names: BTreeSet<_> = now.keys().chain(self.first.keys()).collect();
        for name in names {
            if now.get(name) != self.first.get(name) {
                self.moved.insert(family(name, families));
            }
        }
    }

    /// Looks until all of these have moved.
    #[track_caller]
    fn until(&mut self, families: &BTreeSet<String>, wanted: &[&str]) {
        let missing = |moved: &BTreeSet<String>| -> Vec<String> {
            let names = wanted.iter().map(|name| format!("overlane_{name}"));
            names.filter(|name| !moved.contains(name)).collect()
        };
        for _ in 0..LOOKS {
            self.look(families);
            if missing(&self.moved).is_empty() {
                return;
            }
        }
        panic!("{:?} did not move", missing(&self.moved));
    }
}

/// A daemon whose writes to files fail once they are bounded, instead of ending it.
fn daemon(place: &Place, more: &[&str]) -> (Running, Value) {
    let mut command = Command::new("sh");
    let script = "trap '' XFSZ; exec \"$0\" \"$@\"";
    command.args([
        "-c",
        script,
        env!("CARGO_BIN_EXE_overlane"),
        "run",
        "--json",
    ]);
    command.args(more).env("OVERLANE_HOME", place.home());
    command.current_dir(place.dir.path()).stdin(Stdio::null());
    let mut running = Running::with_log(command, Stdio::null());
    let up = running.line();
    (running, up)
}

/// Lets the process write no file any more.
fn fill_the_disk(of: &Running) {
    let pid = of.child.id().to_string();
    let mut prlimit = Command::new("prlimit");
    let done = prlimit.args(["--pid", &pid, "--fsize=0:0"]).status();
    let done = done.expect("prlimit is there");
    assert!(done.success());
}

/// Asks the local API for so many sends at once, and waits for none.
fn flood(place: &Place, to: &str, count: usize) -> UnixStream {
    let mut stream = UnixStream::connect(place.home().join("overlane.sock")).expect("it listens");
    let body = json!({"destination": to, "namespace": "text", "body": "00"}).to_string();
    let request = format!(
        "POST /v1/send HTTP/1.1\r\nHost: overlane\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    // In one write: the socket takes it whole, whether it is read or not.
    let requests = request.repeat(count);
    stream.write_all(requests.as_bytes()).expect("asked");
    stream
}

#[test]
fn cli_metrics_each_moves_by_what_it_tells() {
    let page = Place::new().overlane(["metrics", "--page"]).out;
    let names = page.split('`').filter(|it| it.starts_with("overlane_"));
    let families: BTreeSet<String> = names.map(str::to_owned).collect();
    let (here, there, gone) = (Place::with_node(), Place::with_node(), Place::with_node());
    let config = here.home().join("config.toml");
    let mut text = fs::read_to_string(&config).expect("its configuration");
    // Nothing answers there.
    text += "\n[[ice.servers]]\nurl = \"stun:127.0.0.1:9\"\n";
    fs::write(&config, text).expect("written");
    let (sender, own) = daemon(&here, &[]);
    let (receiver, up) = daemon(&there, &["--set", "api.listen=127.0.0.1:0"]);
    let text = |of: &Value, name: &str| of[name].as_str().expect("text").to_owned();
    let (own, to) = (text(&own, "did"), text(&up, "did"));
    let (url, api) = (text(&up, "url"), text(&up, "api"));
    let (mut a, mut b) = (Watched::new(&here), Watched::new(&there));
    let run = |place: &Place, args: &[&str]| {
        let answer = place.overlane(args);
        assert_eq!(answer.code, 0, "{args:?}: {answer:?}");
        answer
    };

    // A handshake that nobody goes on with: it is given up in its time, while the rest goes on.
    let lost = Place::with_node();
    let proxy = TcpListener::bind("127.0.0.1:0").expect("a port");
    let by = format!("http://{}", proxy.local_addr().expect("bound"));
    run(&lost, &["peer", "add", &by]);
    let (mut dialler, _) = daemon(&lost, &[]);
    lose_an_answer(&proxy, &url);
    dialler.kill();

    // Links, the ring, and messages that are admitted, refused, and taken by nobody.
    run(&here, &["peer", "add", &url]);
    run(
        &here,
        &["send", &to, "hello", "--keep", "kept", "--no-hold"],
    );
    run(&here, &["send", "--signed", "kept"]);
    assert_ne!(here.overlane(["send", &own, "to itself"]).code, 0);
    let mut stranger = TcpStream::connect(host(&url)).expect("it listens");
    let garbage =
        "POST /v1/offer HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 4\r\n\r\nrust";
    stranger.write_all(garbage.as_bytes()).expect("asked");
    stranger.read_to_end(&mut Vec::new()).expect("answered");
    let mut stranger = TcpStream::connect(host(&api)).expect("it listens");
    let asked = format!(
        "GET /v1/status HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        host(&api)
    );
    stranger.write_all(asked.as_bytes()).expect("asked");
    stranger.read_to_end(&mut Vec::new()).expect("refused");
    run(&here, &["key", "rotate"]);
    run(&here, &["share", config.to_str().expect("text")]);
    run(&here, &["group", "create", "team"]);
    let absent = gone.overlane(["id", "--json"]).json()["did_key"].clone();
    let absent = absent.as_str().expect("a key");
    a.until(
        &families,
        &[
            "uptime_seconds",
            "delegation_end_timestamp_seconds",
            "replay_events_total",
            "node_events_total",
            "sends_refused_total",
            "link_paths",
            "ice_servers",
            "links",
            "peers",
            "ring_neighbours",
            "lane_credit",
            "delegation_references",
            "place_confirmed_age_seconds",
            "references",
            "groups",
            "bound_current",
            "bound_high_water",
        ],
    );
    b.until(
        &families,
        &[
            "admitted_total",
            "not_admitted_total",
            "frames_refused_total",
            "offers_refused_total",
            "api_refused_total",
            "dispatch_held",
            "dispatch_held_high_water",
            "batch_answers",
            "batch_write_seconds",
            "durable_wait_seconds",
        ],
    );
    run(&here, &["send", absent, "for later", "--json"]);
    a.until(&families, &["mail"]);

    // A receiver whose application takes nothing, and then one that does not run on.
    let waiting = flood(&here, &to, 250);
    b.until(&families, &["lane_untaken"]);
    receiver.signal("-STOP");
    fs::write(here.dir.path().join("large"), vec![7; 40_000_000]).expect("written");
    let mut upload = here.command(["send", &to, "--file", "large", "--no-hold"]);
    let upload = upload.stdout(Stdio::null()).stderr(Stdio::null());
    let mut upload = upload.spawn().expect("started");
    a.until(
        &families,
        &[
            "lane_queued_frames",
            "lane_queued_bytes",
            "lane_in_flight",
            "pending_sends",
        ],
    );
    receiver.signal("-CONT");
    upload.kill().expect("ended");
    upload.wait().expect("its end");
    drop(waiting);
    b.until(&families, &["links_not_opened_total"]);

    // Stores that cannot write: each says so once something is to be kept in it.
    fill_the_disk(&sender);
    let _ = here.overlane(["group", "create", "other"]);
    let _ = here.overlane(["share", "kept"]);
    let _ = here.overlane(["send", &to, "--no-hold", "--class", "storage", "new stream"]);
    a.until(
        &families,
        &["store_durable", "references_durable", "groups_durable"],
    );
    drop((sender, receiver));
    let (_sender, _) = daemon(&here, &["--set", "links.max=5"]);
    a.until(&families, &["bound_limit"]);

    // A node without a link holds what it sends itself. Nothing else is written there meanwhile: the sequences of
    // the stream were taken with the first message.
    let alone = Place::with_node();
    let (holder, _) = daemon(&alone, &[]);
    run(&alone, &["send", absent, "held here", "--wait", "0"]);
    let mut c = Watched::new(&alone);
    fill_the_disk(&holder);
    let mut held = alone.command(["send", absent, "not held", "--wait", "0"]);
    let held = held.stdout(Stdio::null()).stderr(Stdio::null());
    let mut held = held.spawn().expect("started");
    c.until(&families, &["mail_durable"]);
    held.kill().expect("ended");
    held.wait().expect("its end");

    let moved: BTreeSet<_> = [&a, &b, &c].into_iter().flat_map(|it| &it.moved).collect();
    let still = families.iter().filter(|it| !moved.contains(it));
    let still: Vec<_> = still.collect();
    assert!(still.is_empty(), "nothing here moves {still:?}");
}
