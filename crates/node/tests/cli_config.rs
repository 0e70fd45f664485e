//! `config`: every source in its order, every mistake with its place, and profiles that change bounds.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on has failed, helpers' parts too"
)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use support::{Answer, Place};

fn lines(answer: &Answer) -> Vec<Value> {
    let line = |line| serde_json::from_str(line).expect("an object");
    answer.out.lines().map(line).collect()
}

fn write(place: &Place, config: &str) {
    fs::write(place.home().join("config.toml"), config).expect("written");
}

/// What `config show` says of every key: its value and who said so.
fn shown(
    place: &Place,
    args: &[&str],
    environment: &[(&str, &str)],
) -> BTreeMap<String, [String; 2]> {
    let args = ["config", "show", "--origin", "--json"].iter().chain(args);
    let mut command = place.command(args);
    command.envs(environment.iter().copied());
    let answered = command.output().expect("a process");
    assert!(answered.status.success(), "{answered:?}");
    let text = String::from_utf8(answered.stdout).expect("text");
    let entry = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("an object");
        let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
        (text("key"), [text("value"), text("origin")])
    };
    text.lines().map(entry).collect()
}

#[test]
fn cli_config_shows_what_counts_and_who_said_so() {
    let place = Place::new();
    fs::create_dir(place.home()).expect("made");
    write(&place, "network = 3\n\n[links]\nmax = 20\n");
    let at = |line: usize| format!("{}:{line}", place.home().join("config.toml").display());
    let of = |args: &[&str], environment: &[(&str, &str)], key: &str| {
        let [value, origin] = shown(&place, args, environment)[key].clone();
        (value, origin)
    };
    let said = |value: &str, origin: &str| (value.to_owned(), origin.to_owned());
    assert_eq!(of(&[], &[], "links.max"), said("20", &at(4)));
    assert_eq!(of(&[], &[], "network"), said("3", &at(1)));
    assert_eq!(of(&[], &[], "store"), said("\"journal\"", "default"));
    assert_eq!(
        of(&[], &[], "links.ports"),
        said("\"24000-25023\"", "profile home")
    );
    let environment = [("OVERLANE_LINKS_MAX", "21"), ("OVERLANE_PROFILE", "server")];
    assert_eq!(
        of(&[], &environment, "links.max"),
        said("21", "OVERLANE_LINKS_MAX")
    );
    assert_eq!(
        of(&[], &environment, "links.ports"),
        said("\"any\"", "profile server")
    );
    let flag = ["--set", "links.max=22"];
    assert_eq!(of(&flag, &environment, "links.max"), said("22", "--set"));
    // Other commands go by the environment too.
    let mut id = place.command(["init", "--json"]);
    let made = id.env("OVERLANE_NETWORK", "9").output().expect("a process");
    let made: Value = serde_json::from_slice(&made.stdout).expect("an object");
    assert_eq!(made["network"], 9, "{made}");
    let words = place.overlane(["config", "show"]);
    assert!(words.out.contains("links.max"), "{words:?}");
}

#[test]
fn cli_config_check_names_every_mistake_its_line_and_what_was_meant() {
    let place = Place::with_node();
    let right = place.overlane(["config", "check", "--json"]);
    assert_eq!(
        (right.code, &right.json()["ok"]),
        (0, &true.into()),
        "{right:?}"
    );

    write(
        &place,
        "netwrk = 1\nlisten = 7\n[link]\nmax = 1\n[links]\nmax = 1000\n",
    );
    let wrong = place.overlane(["config", "check", "--json"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    let told = lines(&wrong);
    let messages: Vec<_> = told
        .iter()
        .map(|it| it["message"].as_str().expect("words"))
        .collect();
    for (message, parts) in messages.iter().zip([
        ["config.toml:1", "did you mean \"network\"?"],
        ["config.toml:2", "expected text, found a number"],
        ["config.toml:3", "did you mean \"links\"?"],
        ["config.toml:6", "1 to 328 links"],
    ]) {
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
    assert_eq!(messages.len(), 4);
    assert!(told.iter().all(|it| it["error"] == "home/config"));
    place
        .overlane(["run", "--json"])
        .is_refused(2, "home/config");

    fs::write(
        place.home().join("config.toml"),
        b"network = 1\nlog = \"\xff\"\n",
    )
    .expect("written");
    let bytes = place.overlane(["config", "check", "--json"]);
    let refusal = bytes.is_refused(2, "home/config");
    let message = refusal["message"].as_str().expect("words");
    assert!(
        message.contains("config.toml:2: this is no text"),
        "{message}"
    );

    write(&place, "");
    let refused = |name: &str, value: &str| {
        let mut command = place.command(["config", "check", "--json"]);
        let answer = command.env(name, value).output().expect("a process");
        assert_eq!(answer.status.code(), Some(2), "{answer:?}");
        let refusal: Value = serde_json::from_slice(&answer.stdout).expect("an object");
        assert_eq!(refusal["error"], "home/setting");
        refusal["message"].as_str().expect("words").to_owned()
    };
    assert!(refused("OVERLANE_STORE", "memory").contains("OVERLANE_STORE"));
    let stray = refused("OVERLANE_LISEN", "x");
    assert!(stray.contains("did you mean OVERLANE_LISTEN?"), "{stray}");
    let unknown = place.overlane(["config", "check", "--set", "lissten=1", "--json"]);
    let refusal = unknown.is_refused(2, "home/setting");
    assert!(
        refusal["message"]
            .as_str()
            .is_some_and(|it| it.contains("\"listen\""))
    );
}

#[test]
fn cli_config_explain_is_the_table_and_the_page_of_the_documentation() {
    let place = Place::new();
    let one = place
        .overlane(["config", "explain", "links.max", "--json"])
        .json();
    assert_eq!(one["default"]["home"], "32");
    assert_eq!(one["environment"], "OVERLANE_LINKS_MAX");
    assert_eq!(
        (&one["unit"], &one["type"]),
        (&"links".into(), &"number".into())
    );
    let unknown = place.overlane(["config", "explain", "links.mx", "--json"]);
    let refusal = unknown.is_refused(2, "cli/unknown_key");
    assert!(
        refusal["message"]
            .as_str()
            .is_some_and(|it| it.contains("\"links.max\""))
    );
    let all = lines(&place.overlane(["config", "explain", "--json"]));
    let shown = shown(&Place::with_node(), &[], &[]);
    let keys: Vec<_> = all
        .iter()
        .map(|it| it["key"].as_str().expect("a key"))
        .collect();
    assert_eq!(keys.len(), shown.len());
    assert!(keys.iter().all(|key| shown.contains_key(*key)));

    let page = place.overlane(["config", "explain", "--page"]).out;
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.md");
    assert!(
        page == fs::read_to_string(kept).expect("the page"),
        "make it again: overlane config explain --page > docs/config.md"
    );
}

#[test]
fn cli_config_profiles_change_the_bounds_of_a_running_node() {
    let place = Place::with_node();
    let limits = |args: &[&str]| {
        let args = ["run", "--json"].iter().chain(args);
        let mut running = place.start(args);
        assert_eq!(running.line()["up"], true);
        let sheet = lines(&place.overlane(["bounds", "--json"]));
        assert_eq!(running.terminate(), Some(0));
        let limit = |name: &str| {
            let bound = sheet.iter().find(|bound| bound["name"] == name);
            bound.expect(name)["limit"].as_u64().expect("a number")
        };
        [
            "links.max",
            "limits.sends_max_bytes",
            "limits.dispatch_max_bytes",
            "limits.chunks_max_bytes",
            "limits.queued_max_bytes",
        ]
        .map(limit)
    };
    let (home, server) = (limits(&[]), limits(&["--set", "profile=server"]));
    assert!(home[0] <= 32, "{home:?}");
    assert!(home.iter().zip(&server).all(|(home, server)| home < server));
    let one = limits(&[
        "--set",
        "links.max=5",
        "--set",
        "limits.sends_max_bytes=2000000",
    ]);
    assert_eq!(one[..2], [5, 2_000_000]);
    assert_eq!(one[2..], home[2..]);
}
