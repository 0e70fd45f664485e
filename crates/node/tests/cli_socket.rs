//! Another user of the machine is refused on the local API's socket, by its mode and by who connects.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on has failed, helpers' parts too"
)]

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use support::Place;

/// Nobody: a user that owns nothing here.
const OTHER: u32 = 65_534;

fn open_to_all(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

/// The program where everybody finds it.
fn program_for_all(place: &Place) -> std::path::PathBuf {
    let program = place.dir.path().join("overlane");
    let built = env!("CARGO_BIN_EXE_overlane");
    if fs::hard_link(built, &program).is_err() {
        fs::copy(built, &program).expect("copied");
    }
    program
}

/// What the command answers this user, who has no group either.
fn answered(program: &Path, place: &Place, user: u32) -> Output {
    let mut command = Command::new(program);
    command
        .args(["status", "--json"])
        .env("OVERLANE_HOME", place.home());
    command
        .current_dir("/")
        .stdin(Stdio::null())
        .uid(user)
        .gid(user);
    command.output().expect("a process")
}

/// Whether this machine lets the test become another user; says why not.
fn can_become_another() -> bool {
    let mut command = Command::new("true");
    match command.uid(OTHER).gid(OTHER).status() {
        Ok(status) => {
            assert!(status.success());
            true
        }
        Err(why) => {
            eprintln!("skipped: this process may not become user {OTHER} (run it as root): {why}");
            false
        }
    }
}

#[test]
fn cli_socket_answers_no_other_user_not_even_where_its_mode_would_let_them() {
    if !can_become_another() {
        return;
    }
    let place = Place::with_node();
    let log = place.dir.path().join("log");
    let to = fs::File::create(&log).expect("a file");
    let mut daemon = support::Running::with_log(place.command(["run", "--json"]), to);
    assert_eq!(daemon.line()["up"], true);
    let program = program_for_all(&place);
    let socket = place.home().join("overlane.sock");
    let refused = |why: &str| {
        let Output { status, stdout, .. } = answered(&program, &place, OTHER);
        let text = String::from_utf8(stdout).expect("text");
        assert_eq!(status.code(), Some(2), "{why}: {text}");
        let answer: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(answer["error"], "api/not_ours", "{why}: {text}");
    };
    let turned_away = || {
        let log = fs::read_to_string(&log).expect("its log");
        log.matches("another user's process refused").count()
    };
    // Of the folders that lead there, then of the socket alone.
    open_to_all(place.dir.path(), 0o755);
    refused("the home's mode");
    open_to_all(&place.home(), 0o755);
    refused("the socket's mode");
    assert_eq!(turned_away(), 0, "none came as far as the node");
    // Everybody may connect now: who connects is all that is left to refuse by.
    open_to_all(&socket, 0o666);
    refused("another user's credentials");
    assert_eq!(turned_away(), 1);
    let own = answered(&program, &place, 0);
    assert!(
        own.status.success(),
        "the node's own user is answered: {own:?}"
    );
    assert_eq!(turned_away(), 1);
}
