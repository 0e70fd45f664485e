//! Real `overlane` processes on fresh homes. Nothing here waits by the clock: a daemon is up
//! when it has printed its block, an answer is there when its process has ended.

#![allow(dead_code, reason = "each test file uses its part of it")]

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A folder of its own, with a home in it that nobody has made yet.
pub(crate) struct Place {
    pub(crate) dir: TempDir,
}

/// What a command answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        Self { dir }
    }

    /// With a node that listens on any free port.
    pub(crate) fn with_node() -> Self {
        Self::with_store("journal")
    }

    /// With a node that listens on any free port and keeps its records so.
    pub(crate) fn with_store(kind: &str) -> Self {
        let place = Self::new();
        let made = place.overlane(["init", "--listen", "127.0.0.1:0", "--store", kind]);
        assert_eq!(made.code, 0, "{made:?}");
        place
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_overlane"));
        command.args(args).env("OVERLANE_HOME", self.home());
        let said = std::env::vars_os().map(|(name, _)| name);
        for name in said.filter(|name| name.to_string_lossy().starts_with("OVERLANE_")) {
            command.env_remove(name);
        }
        command
            .env_remove("XDG_DATA_HOME")
            .env("OVERLANE_HOME", self.home());
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn overlane<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Answer {
        let output = self.command(args).output().expect("a process");
        Answer {
            code: output.status.code().expect("an exit code"),
            out: String::from_utf8(output.stdout).expect("text"),
            err: String::from_utf8(output.stderr).expect("text"),
        }
    }

    /// Runs a command to its end, with something to read.
    pub(crate) fn overlane_reading<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
        input: &[u8],
    ) -> Answer {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a process");
        let mut stdin = child.stdin.take().expect("its input");
        stdin.write_all(input).expect("written");
        drop(stdin);
        let output = child.wait_with_output().expect("its end");
        Answer {
            code: output.status.code().expect("an exit code"),
            out: String::from_utf8(output.stdout).expect("text"),
            err: String::new(),
        }
    }

    /// Starts a command whose answers are read as they come.
    pub(crate) fn start<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Running {
        Running::of(self.command(args))
    }

    /// Starts the daemon, and waits until it says that it is up.
    pub(crate) fn daemon(&self) -> Daemon {
        let mut running = self.start(["run", "--json"]);
        let up = running.line();
        assert_eq!(up["up"], true, "{up}");
        Daemon { running, up }
    }
}

/// A process whose lines are read as they come; killed when dropped.
pub(crate) struct Running {
    pub(crate) child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    /// Starts this.
    pub(crate) fn of(command: Command) -> Self {
        Self::with_log(command, Stdio::piped())
    }

    /// Starts this, and has its log written there.
    pub(crate) fn with_log(mut command: Command, log: impl Into<Stdio>) -> Self {
        command.stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().expect("a process");
        let lines = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, lines }
    }

    /// The next line, which is JSON.
    pub(crate) fn line(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        if line.is_empty() {
            let mut err = String::new();
            let _ = self
                .child
                .stderr
                .take()
                .map(|mut it| it.read_to_string(&mut err));
            panic!("the process ended without another line: {err}");
        }
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Sends a signal, as `kill` takes it.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.expect("kill").success());
    }

    /// Sends SIGTERM and waits for the end; gives the exit code, if it was no signal's.
    pub(crate) fn terminate(&mut self) -> Option<i32> {
        self.signal("-TERM");
        self.child.wait().expect("its end").code()
    }

    /// What a process that has ended wrote to standard error.
    pub(crate) fn log(&mut self) -> String {
        let mut log = String::new();
        let mut stderr = self.child.stderr.take().expect("its log");
        stderr.read_to_string(&mut log).expect("text");
        log
    }

    /// Ends the process as a crash does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("its end");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A daemon that is up.
pub(crate) struct Daemon {
    pub(crate) running: Running,
    pub(crate) up: Value,
}

impl Daemon {
    pub(crate) fn did(&self) -> &str {
        self.up["did"].as_str().expect("a Did")
    }

    pub(crate) fn url(&self) -> &str {
        self.up["url"].as_str().expect("an address")
    }
}

impl Answer {
    /// The answer as one JSON object.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Checks that it is this refusal.
    #[track_caller]
    pub(crate) fn is_refused(&self, code: i32, error: &str) -> Value {
        assert_eq!(self.code, code, "{self:?}");
        let refusal = self.json();
        assert_eq!(refusal["error"], error, "{self:?}");
        assert!(!refusal["message"].as_str().expect("words").is_empty());
        refusal
    }
}

/// Two nodes on fresh homes, the first linked to the second.
pub(crate) struct Pair {
    pub(crate) here: Place,
    pub(crate) there: Place,
    pub(crate) sender: Daemon,
    pub(crate) receiver: Daemon,
}

impl Pair {
    pub(crate) fn linked() -> Self {
        Self::of(Place::with_node(), Place::with_node())
    }

    pub(crate) fn of(here: Place, there: Place) -> Self {
        let (sender, receiver) = (here.daemon(), there.daemon());
        let pair = Self {
            here,
            there,
            sender,
            receiver,
        };
        pair.link();
        pair
    }

    /// Has the sender stay linked to where the receiver is now.
    pub(crate) fn link(&self) {
        let added = self
            .here
            .overlane(["peer", "add", self.receiver.url(), "--json"]);
        assert_eq!(added.code, 0, "{added:?}");
        assert_eq!(added.json()["running"], true);
    }

    pub(crate) fn send(&self, args: &[&str]) -> Value {
        let to = self.receiver.did();
        let sent = self
            .here
            .overlane(["send", to].iter().chain(args).chain(&["--json"]));
        assert_eq!(sent.code, 0, "{sent:?}");
        sent.json()
    }

    /// The next message that the receiver admits.
    pub(crate) fn take(&self) -> Value {
        let taken = self.there.overlane(["watch", "--count", "1", "--json"]);
        assert_eq!(taken.code, 0, "{taken:?}");
        taken.json()
    }

    /// Watches the receiver's events; returns once none is missed.
    pub(crate) fn watch(&self) -> Running {
        let mut watch = self.there.start(["watch", "--events", "--json"]);
        assert_eq!(watch.line()["event"], "watching");
        watch
    }
}

/// The next line of this event.
pub(crate) fn event(watch: &mut Running, name: &str) -> Value {
    loop {
        let line = watch.line();
        if line["event"] == name {
            return line;
        }
    }
}

/// Where a URL leads.
pub(crate) fn host(url: &str) -> &str {
    url.trim_start_matches("http://")
}

/// Brings one offer to `url`, and its answer to nobody.
pub(crate) fn lose_an_answer(listener: &TcpListener, url: &str) {
    let (mut from, _) = listener.accept().expect("somebody dials");
    let mut request = Vec::new();
    let whole = |request: &[u8]| {
        let text = String::from_utf8_lossy(request).to_lowercase();
        let (head, _) = text.split_once("\r\n\r\n")?;
        let length = head.split("content-length:").nth(1)?.lines().next()?;
        Some(head.len() + 4 + length.trim().parse::<usize>().ok()?)
    };
    let mut part = [0; 4096];
    while whole(&request).is_none_or(|length| request.len() < length) {
        let read = from.read(&mut part).expect("an offer");
        assert!(read > 0, "all of an offer");
        request.extend_from_slice(&part[..read]);
    }
    let mut to = TcpStream::connect(host(url)).expect("it listens");
    to.write_all(&request).expect("brought");
    let mut first = [0; 1];
    to.read_exact(&mut first).expect("it is answered");
}
