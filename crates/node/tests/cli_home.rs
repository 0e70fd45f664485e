//! `init`, `id`, and everything that can be wrong with a home.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on has failed, helpers' parts too"
)]

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use support::Place;

#[test]
fn cli_init_makes_a_private_key_and_says_who_it_is() {
    let place = Place::new();
    let made = place.overlane(["init", "--json"]);
    assert_eq!(made.code, 0, "{made:?}");
    let made = made.json();
    assert_eq!(made["did"].as_str().map(str::len), Some(40));
    assert!(
        made["did_key"]
            .as_str()
            .is_some_and(|it| it.starts_with("did:key:z"))
    );
    assert!(
        made["peer_id"]
            .as_str()
            .is_some_and(|it| it.starts_with("12D3"))
    );
    let mode = |name: &str| {
        let about = fs::metadata(place.home().join(name)).expect("it is there");
        about.mode() & 0o777
    };
    assert_eq!((mode("account.key"), mode("")), (0o600, 0o700));

    let id = place.overlane(["id", "--json"]).json();
    for field in ["did", "did_key", "peer_id", "network"] {
        assert_eq!(id[field], made[field], "{field}");
    }
    let words = place.overlane(["id"]);
    assert_eq!(words.code, 0);
    assert!(words.out.contains(made["did_key"].as_str().expect("text")));
}

#[test]
fn cli_init_writes_over_no_account() {
    let place = Place::with_node();
    let key = fs::read(place.home().join("account.key")).expect("a key");
    let again = place.overlane(["init", "--json"]);
    again.is_refused(2, "home/already_initialised");
    assert_eq!(
        fs::read(place.home().join("account.key")).expect("a key"),
        key
    );
}

#[test]
fn cli_init_explains_every_key_of_the_configuration() {
    let place = Place::with_node();
    let config = fs::read_to_string(place.home().join("config.toml")).expect("a file");
    let mut explained = false;
    let mut keys = Vec::new();
    for line in config.lines() {
        if let Some((key, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            assert!(explained, "{key} stands there without a word");
            keys.push(key.to_owned());
        }
        explained = line.starts_with('#');
    }
    assert_eq!(
        keys,
        ["network", "listen", "store", "peers", "log", "require"]
    );
}

#[test]
fn cli_a_home_without_a_node_says_what_to_type() {
    let place = Place::new();
    for command in ["id", "run"] {
        let refusal = place
            .overlane([command, "--json"])
            .is_refused(2, "home/not_initialised");
        assert!(
            refusal["next"]
                .as_str()
                .is_some_and(|next| next.contains("overlane init"))
        );
    }
    let words = place.overlane(["--home", "else where", "id"]);
    assert_eq!(words.code, 2);
    assert!(
        words.err.contains("code:  home/not_initialised"),
        "{words:?}"
    );
    assert!(
        words.err.contains("overlane --home 'else where' init"),
        "{words:?}"
    );
}

#[test]
fn cli_a_key_that_others_could_have_read_is_refused() {
    let place = Place::with_node();
    let key = place.home().join("account.key");
    for mode in [0o640, 0o604, 0o660, 0o700 | 0o001] {
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).expect("set");
        for command in ["id", "run"] {
            let refusal = place
                .overlane([command, "--json"])
                .is_refused(4, "home/key_mode");
            assert!(
                refusal["next"]
                    .as_str()
                    .is_some_and(|next| next.contains("chmod 600"))
            );
        }
    }
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("set");
    assert_eq!(place.overlane(["id"]).code, 0);
}

#[test]
fn cli_a_key_that_is_none_is_refused_and_kept() {
    let place = Place::with_node();
    let key = place.home().join("account.key");
    let whole = fs::read(&key).expect("a key");
    for bytes in [&whole[..whole.len() - 1], b"", &[0; 2000]] {
        fs::write(&key, bytes).expect("written");
        place
            .overlane(["id", "--json"])
            .is_refused(4, "home/key_invalid");
        assert_eq!(fs::read(&key).expect("still there"), bytes);
    }
    fs::remove_file(&key).expect("removed");
    std::os::unix::fs::symlink("/dev/zero", &key).expect("a link");
    place.overlane(["id", "--json"]).is_refused(4, "home/io");
}

#[test]
fn cli_a_mistake_in_the_configuration_is_shown_with_its_line() {
    let place = Place::with_node();
    let config = place.home().join("config.toml");
    fs::write(&config, "network = 1\n\nlistne = \"127.0.0.1:0\"\n").expect("written");
    let refusal = place
        .overlane(["run", "--json"])
        .is_refused(2, "home/config");
    let message = refusal["message"].as_str().expect("words");
    assert!(message.contains("config.toml:3"), "{message}");
    assert!(message.contains("listne"), "{message}");
}

#[test]
fn cli_what_is_not_understood_is_a_usage_error() {
    let place = Place::new();
    for typed in [
        &["frobnicate"][..],
        &["send"],
        &["init", "--network", "x"],
        &[],
    ] {
        assert_eq!(place.overlane(typed).code, 2, "{typed:?}");
        let json: Vec<&str> = typed.iter().copied().chain(["--json"]).collect();
        place.overlane(json).is_refused(2, "cli/usage");
    }
}

#[test]
fn cli_every_command_has_help_with_an_example() {
    let place = Place::new();
    for command in [
        &[][..],
        &["init"],
        &["run"],
        &["id"],
        &["status"],
        &["peer"],
        &["peer", "add"],
        &["peer", "list"],
        &["peer", "drop"],
        &["send"],
        &["watch"],
        &["demo"],
        &["bounds"],
        &["explain"],
        &["replay"],
        &["replay", "list"],
        &["replay", "show"],
        &["replay", "verify"],
        &["replay", "clear"],
        &["replay", "forks"],
        &["replay", "forks", "verify"],
    ] {
        let help = place.overlane(command.iter().copied().chain(["--help"]));
        assert_eq!(help.code, 0, "{help:?}");
        assert!(
            help.out.contains("Example: overlane"),
            "{command:?}: {}",
            help.out
        );
    }
}

#[test]
fn cli_questions_without_a_daemon_say_how_to_start_one() {
    let place = Place::with_node();
    let did = "00".repeat(20);
    for question in [&["status"][..], &["watch"], &["send", &did, "hello"]] {
        let json: Vec<&str> = question.iter().copied().chain(["--json"]).collect();
        let refusal = place.overlane(json).is_refused(5, "api/not_running");
        assert!(
            refusal["next"]
                .as_str()
                .is_some_and(|next| next.contains("overlane run"))
        );
    }
}
