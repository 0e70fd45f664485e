//! A node in a process of its own is killed between receiving, committing and transmitting, and
//! at calls to the disk on the way, over real files.
//!
//! Law (durable first): whatever the moment, each message is taken once on either side, each
//! question gets its one answer, and in the end neither side has a name that the other has not.

#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests")]

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::node::{Node, Said};

/// Every so many points of a run are tried; `OVERLANE_KILL_STEP=1` tries all.
const STEP: usize = 17;

const QUESTIONS: u32 = 4;
const CALLS: u32 = 3;

/// The other process: the node, killed at one point.
struct Process {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

/// What came of one thing that it was asked to do.
enum Came {
    /// It did it, and said this.
    Done(Vec<Said>),
    /// It was killed, after it had said this.
    Killed,
}

impl Process {
    fn start(folder: &Path, dies_at: usize) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "node::child", "--ignored", "--nocapture"])
            .env("OVERLANE_TEST_FOLDER", folder)
            .env("OVERLANE_TEST_DIES_AT", dies_at.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self {
            child,
            input,
            output,
        }
    }

    fn ask(&mut self, what: &str) -> Came {
        writeln!(self.input, "{what}").unwrap();
        self.answer()
    }

    fn answer(&mut self) -> Came {
        let mut said = Vec::new();
        for line in self.output.by_ref() {
            let line = line.unwrap();
            let Some(line) = line.split("> ").nth(1) else {
                continue;
            };
            match Said::read(line) {
                Said::Done => return Came::Done(said),
                Said::HereIDie => {
                    self.child.kill().unwrap();
                    self.child.wait().unwrap();
                    return Came::Killed;
                }
                other => said.push(other),
            }
        }
        panic!("the node ended by itself");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Already gone, as a rule.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A run: the node here, and the one that is killed once.
struct Run {
    here: Node,
    folder: PathBuf,
    there: Process,
    now_ms: u64,
    killed: bool,
    /// What is under way to the other process.
    under_way: Vec<Vec<u8>>,
}

impl Run {
    fn new(home: &Path, dies_at: usize) -> Self {
        let folder = home.join("there");
        let mut run = Self {
            here: Node::open(&home.join("here")),
            there: Process::start(&folder, dies_at),
            folder,
            now_ms: 0,
            killed: false,
            under_way: Vec::new(),
        };
        run.connect();
        run
    }

    /// After a start of the other process: what was under way is lost, and both say where they are.
    fn connect(&mut self) {
        loop {
            self.under_way = self.here.connected(self.now_ms);
            match self.there.answer() {
                Came::Done(said) => return self.take(said),
                Came::Killed => self.start_again(),
            }
        }
    }

    fn start_again(&mut self) {
        assert!(!self.killed, "it dies once");
        self.killed = true;
        self.there = Process::start(&self.folder, usize::MAX);
    }

    fn take(&mut self, said: Vec<Said>) {
        for said in said {
            if let Said::Frame(bytes) = said {
                self.under_way.extend(self.here.frame(&bytes, self.now_ms));
            }
        }
    }

    /// Whether it was done; if not, the other process was killed and started again.
    fn ask(&mut self, what: &str) -> bool {
        match self.there.ask(what) {
            Came::Done(said) => {
                self.take(said);
                true
            }
            Came::Killed => {
                self.start_again();
                self.connect();
                false
            }
        }
    }

    fn exchange(&mut self) {
        while !self.under_way.is_empty() {
            let bytes = self.under_way.remove(0);
            self.ask(&format!("frame {}", Said::hex(&bytes)));
        }
    }

    fn script(&mut self) {
        for number in 0..QUESTIONS.max(CALLS) {
            if number < QUESTIONS {
                self.under_way.extend(self.here.call(number, self.now_ms));
            }
            // Whether it was done before the kill is not known: the node takes it once.
            if number < CALLS && !self.ask(&format!("call {number}")) {
                self.ask(&format!("call {number}"));
            }
            if number % 2 == 1 {
                self.exchange();
            }
        }
        // Nothing more is asked: what is left are acknowledgements, which wait for their time.
        for _ in 0..40 {
            self.exchange();
            self.now_ms += 100;
            self.under_way.extend(self.here.timeout(self.now_ms));
            self.ask(&format!("time {}", self.now_ms));
        }
        self.exchange();
    }

    /// What both sides saw in the end.
    fn judge(mut self, dies_at: usize) -> bool {
        let report = match self.there.ask("report") {
            Came::Done(said) => said,
            Came::Killed => panic!("killed at the end"),
        };
        let there = report.into_iter().find_map(|said| match said {
            Said::Report(report) => Some(report),
            _ => None,
        });
        let (there, here) = (there.unwrap(), self.here.report());
        let expected = |calls: u32, questions: u32| {
            let calls: Vec<u32> = (0..calls).collect();
            let answers: Vec<u32> = (0..questions).collect();
            format!("calls {calls:?} answers {answers:?} names 2 waiting 0")
        };
        assert_eq!(
            here,
            expected(CALLS, QUESTIONS),
            "here, killed at {dies_at}"
        );
        assert_eq!(
            there,
            expected(QUESTIONS, CALLS),
            "there, killed at {dies_at}"
        );
        self.killed
    }
}

#[test]
fn crash_killed_between_receive_commit_and_transmit_each_message_is_taken_once() {
    let step = std::env::var("OVERLANE_KILL_STEP").ok();
    let step = step.and_then(|step| step.parse().ok()).unwrap_or(STEP);
    let mut kills = 0;
    for dies_at in (1..).step_by(step) {
        let home = tempfile::tempdir().unwrap();
        let mut run = Run::new(home.path(), dies_at);
        run.script();
        if !run.judge(dies_at) {
            break;
        }
        kills += 1;
    }
    println!("killed at {kills} points, every {step}th");
    assert!(kills > 10, "{kills}");
}
