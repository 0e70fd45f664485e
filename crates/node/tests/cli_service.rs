//! What a service manager and a packager use: readiness and watchdog, `init --if-missing`, the manual, completions.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on has failed, helpers' parts too"
)]

mod support;

use std::os::unix::net::UnixDatagram;

use support::{Place, Running};

/// What the manager hears next; waits until it is told something.
fn heard(manager: &UnixDatagram) -> String {
    let mut told = [0; 256];
    let length = manager.recv(&mut told).expect("a datagram");
    String::from_utf8_lossy(&told[..length]).into_owned()
}

#[test]
fn cli_run_tells_its_manager_that_it_is_up_that_it_lives_and_that_it_ends() {
    let place = Place::with_node();
    let socket = place.dir.path().join("manager");
    let manager = UnixDatagram::bind(&socket).expect("a socket");
    let mut command = place.command(["run", "--json"]);
    command
        .env("NOTIFY_SOCKET", &socket)
        .env("WATCHDOG_USEC", "20000")
        .env_remove("WATCHDOG_PID");
    let mut daemon = Running::of(command);
    assert_eq!(heard(&manager).trim(), "READY=1");
    for _ in 0..3 {
        assert_eq!(heard(&manager).trim(), "WATCHDOG=1");
    }
    assert_eq!(daemon.terminate(), Some(0));
    let last = std::iter::repeat_with(|| heard(&manager)).find(|told| told.trim() != "WATCHDOG=1");
    assert_eq!(last.as_deref().map(str::trim), Some("STOPPING=1"));
}

#[test]
fn cli_init_if_missing_makes_an_account_once_and_keeps_it() {
    let place = Place::new();
    let first = place.overlane(["init", "--if-missing", "--json"]);
    let second = place.overlane(["init", "--if-missing", "--json"]);
    assert_eq!((first.code, second.code), (0, 0), "{first:?} {second:?}");
    assert!(first.json()["did"].is_string(), "{first:?}");
    assert_eq!(first.json()["did"], second.json()["did"]);
    let plain = place.overlane(["init", "--json"]);
    assert_eq!(plain.json()["error"], "home/already_initialised");
}

#[test]
fn cli_man_writes_a_page_for_every_command() {
    let place = Place::new();
    let pages = place.dir.path().join("pages");
    let written = place.overlane([std::ffi::OsStr::new("man"), pages.as_os_str()]);
    assert_eq!(written.code, 0, "{written:?}");
    for page in [
        "overlane.1",
        "overlane-run.1",
        "overlane-peer-add.1",
        "overlane-replay-forks.1",
    ] {
        let text = std::fs::read_to_string(pages.join(page)).expect(page);
        assert!(text.contains(".SH SYNOPSIS"), "{page}: {text}");
        assert!(
            page == "overlane.1" || text.contains("Example: "),
            "{page}: {text}"
        );
    }
    let nowhere = place.overlane(["man", "/dev/null/pages"]);
    assert_eq!(nowhere.code, 2, "{nowhere:?}");
    assert!(nowhere.err.contains("cli/man"), "{nowhere:?}");
}

#[test]
fn cli_completions_name_the_commands() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.overlane(["completions", shell]);
        assert_eq!(script.code, 0, "{script:?}");
        for word in ["doctor", "explain", "watch"] {
            assert!(script.out.contains(word), "{shell} without {word}");
        }
    }
    assert_eq!(place.overlane(["completions", "tcl"]).code, 2);
}
