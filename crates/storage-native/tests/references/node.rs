//! A node that keeps what it knows of references, and answers what it is asked; and the same as a
//! process that says when it comes to the point at which it is to be killed.

#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fmt, io};

use overlane_relay::refs::store::Store as _;
use overlane_relay::refs::table::{
    Answer, Change, Event, LinkId, Local, LocalObject, LocalPromise, Step, Tables,
};
use overlane_relay::refs::wire::{Body, Epoch, Outcome};
use overlane_relay::refs::{Limits, LinkError};
use overlane_storage_native::RefsStore;
use overlane_storage_native::vfs::{Entry, OpenMode, RealVfs, Vfs, VfsFile};

/// The names of rows of the application begin so; those of the tables do not.
const OWN: u8 = 0x60;
const LINK: LinkId = LinkId(1);

/// The tables, and what the application knows: one commit takes both.
pub(crate) struct Node {
    store: RefsStore,
    tables: Tables,
    door: LocalObject,
    /// The calls that were taken, the answers that came, the calls that were made.
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    unsaved: Vec<Change>,
    points: Arc<Points>,
    /// Why the link has no epoch any more.
    pub(crate) ended: Option<LinkError>,
}

impl Node {
    pub(crate) fn open(folder: &Path) -> Self {
        Self::open_with(folder, Arc::new(Points::never()))
    }

    fn open_with(folder: &Path, points: Arc<Points>) -> Self {
        let vfs = Arc::new(CountingVfs(Arc::clone(&points)));
        let mut store = RefsStore::open_on(vfs, folder).unwrap();
        let (own, of_tables): (Vec<_>, _) = store
            .rows()
            .unwrap()
            .into_iter()
            .partition(|(key, _)| key.first() == Some(&OWN));
        let of_tables = of_tables.iter();
        let of_tables = of_tables.map(|(key, value)| (&key[..], &value[..]));
        let tables = Tables::load(Limits::default(), of_tables).unwrap();
        let mut node = Self {
            store,
            tables,
            door: LocalObject(0),
            rows: own.into_iter().collect(),
            unsaved: Vec::new(),
            points,
            ended: None,
        };
        node.door = match node.rows.get(&[OWN, b'd'][..]) {
            Some(door) => LocalObject(u64::from(*door.first().unwrap())),
            None => node.begin(),
        };
        node
    }

    /// The first start: the link is opened.
    fn begin(&mut self) -> LocalObject {
        let own = self.tables.export();
        let limits = Limits::default();
        let theirs = self.tables.open_link(LINK, Epoch(1), limits, own, 0);
        let theirs = theirs.unwrap();
        self.note(b'd', &[u8::try_from(theirs.0).unwrap()]);
        self.commit();
        theirs
    }

    fn note(&mut self, what: u8, value: &[u8]) {
        let key = vec![OWN, what];
        self.rows.insert(key.clone(), value.to_vec());
        self.unsaved.push(Change {
            key,
            value: Some(value.to_vec()),
        });
    }

    fn noted(&self, what: u8) -> Vec<u8> {
        let noted = self.rows.get(&[OWN, what][..]);
        noted.cloned().unwrap_or_default()
    }

    fn add(&mut self, what: u8, number: u8) {
        let mut numbers = self.noted(what);
        numbers.push(number);
        self.note(what, &numbers);
    }

    fn commit(&mut self) {
        let mut changes = self.tables.take_changes();
        changes.append(&mut self.unsaved);
        if !changes.is_empty() {
            self.store.commit(changes).unwrap();
        }
    }

    /// What came of a step, the application's part included, is durable; then it is sent.
    fn finish(&mut self, step: Step, now_ms: u64) -> Vec<Vec<u8>> {
        let mut transmits = step.transmits;
        for event in step.events {
            let more = self.react(event, now_ms);
            transmits.extend(more.into_iter().flat_map(|step| step.transmits));
        }
        self.commit();
        self.points.reached();
        let bytes = transmits.into_iter().map(|one| one.bytes.to_vec());
        bytes.collect()
    }

    /// The application answers with the number it was asked, and lets go of everything.
    fn react(&mut self, event: Event, now_ms: u64) -> Vec<Step> {
        match event {
            Event::Deliver { body, result, .. } => {
                let number = *body.bytes.first().unwrap();
                self.add(b'c', number);
                let mut steps = Vec::new();
                let answer = Outcome::Data(Body::data(&[number]));
                if let Some(result) = result {
                    steps.extend(self.tables.resolve(result, answer, now_ms));
                }
                let held: Vec<Local> = body.refs().copied().collect();
                for local in held {
                    steps.extend(self.tables.release(local, now_ms));
                }
                steps
            }
            Event::Resolved { promise, outcome } => {
                let Outcome::Data(body) = outcome else {
                    panic!("{outcome:?}");
                };
                self.add(b'a', *body.bytes.first().unwrap());
                let promise: Local = promise.into();
                self.tables.release(promise, now_ms).into_iter().collect()
            }
            Event::Unreferenced(object) => {
                let object: Local = object.into();
                self.tables.release(object, now_ms).into_iter().collect()
            }
            Event::Unwanted(_) | Event::Revoked { .. } => Vec::new(),
            Event::Ended { cause, .. } => {
                self.ended = Some(cause);
                Vec::new()
            }
        }
    }

    pub(crate) fn frame(&mut self, bytes: &[u8], now_ms: u64) -> Vec<Vec<u8>> {
        self.points.reached();
        let step = self.tables.handle_frame(LINK, bytes, now_ms);
        self.finish(step, now_ms)
    }

    pub(crate) fn connected(&mut self, now_ms: u64) -> Vec<Vec<u8>> {
        self.tables.handle_disconnected(LINK);
        let step = self.tables.handle_connected(LINK, now_ms);
        self.finish(step, now_ms)
    }

    pub(crate) fn timeout(&mut self, now_ms: u64) -> Vec<Vec<u8>> {
        let step = self.tables.handle_timeout(now_ms);
        self.finish(step, now_ms)
    }

    /// Asks the other side something, once: a new object goes with the question.
    pub(crate) fn call(&mut self, number: u32, now_ms: u64) -> Vec<Vec<u8>> {
        let number = u8::try_from(number).unwrap();
        if self.noted(b'm').contains(&number) {
            return Vec::new();
        }
        let object = self.tables.export();
        let mut body = Body::of([object.into()]);
        body.bytes = vec![number].into();
        let asked = self
            .tables
            .send(self.door.into(), body, Answer::New, now_ms);
        let (_promise, step): (Option<LocalPromise>, Step) = asked.unwrap();
        self.add(b'm', number);
        self.finish(step, now_ms)
    }

    pub(crate) fn report(&mut self) -> String {
        let mut calls = self.noted(b'c');
        let mut answers = self.noted(b'a');
        calls.sort_unstable();
        answers.sort_unstable();
        let view = self.tables.link(LINK).unwrap();
        let names = self.tables.names(LINK).count();
        let waiting = view.pending + view.outbox;
        format!("calls {calls:?} answers {answers:?} names {names} waiting {waiting}")
    }
}

/// What the process says.
pub(crate) enum Said {
    Frame(Vec<u8>),
    Report(String),
    Done,
    HereIDie,
}

impl Said {
    pub(crate) fn read(line: &str) -> Self {
        let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
        match what {
            "frame" => Self::Frame(Self::bytes(rest)),
            "report" => Self::Report(rest.to_owned()),
            "done" => Self::Done,
            _ => Self::HereIDie,
        }
    }

    pub(crate) fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let pairs = (0..hex.len()).step_by(2).map(|at| &hex[at..at + 2]);
        pairs
            .map(|pair| u8::from_str_radix(pair, 16).unwrap())
            .collect()
    }

    fn say(&self) {
        match self {
            Self::Frame(bytes) => println!("> frame {}", Self::hex(bytes)),
            Self::Report(report) => println!("> report {report}"),
            Self::Done => println!("> done"),
            Self::HereIDie => println!("> here"),
        }
        io::stdout().flush().unwrap();
    }
}

/// Counts the points at which a process can be killed, and stops at one of them until it is.
pub(crate) struct Points {
    reached: AtomicUsize,
    dies_at: usize,
}

impl Points {
    fn never() -> Self {
        Self {
            reached: AtomicUsize::new(0),
            dies_at: usize::MAX,
        }
    }

    fn reached(&self) {
        if self.reached.fetch_add(1, Ordering::SeqCst) + 1 == self.dies_at {
            Said::HereIDie.say();
            // Nothing comes: it is killed here.
            let mut rest = Vec::new();
            io::stdin().read_to_end(&mut rest).unwrap();
        }
    }
}

/// The other process.
#[test]
#[ignore = "run by crash_killed_between_receive_commit_and_transmit_each_message_is_taken_once"]
fn child() {
    let folder = std::env::var("OVERLANE_TEST_FOLDER").unwrap();
    let dies_at = std::env::var("OVERLANE_TEST_DIES_AT").unwrap();
    let points = Arc::new(Points {
        dies_at: dies_at.parse().unwrap(),
        ..Points::never()
    });
    let mut node = Node::open_with(Path::new(&folder), Arc::clone(&points));
    let mut now_ms = 0;
    let mut frames = node.connected(now_ms);
    loop {
        for frame in frames {
            Said::Frame(frame).say();
            points.reached();
        }
        Said::Done.say();
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line).unwrap() == 0 {
            return;
        }
        let (what, rest) = line
            .trim_end()
            .split_once(' ')
            .unwrap_or((line.trim_end(), ""));
        frames = match what {
            "frame" => node.frame(&Said::bytes(rest), now_ms),
            "call" => node.call(rest.parse().unwrap(), now_ms),
            "time" => {
                now_ms = rest.parse().unwrap();
                node.timeout(now_ms)
            }
            _ => {
                Said::Report(node.report()).say();
                Vec::new()
            }
        };
    }
}

/// The platform's file system; every call that changes something is a point.
struct CountingVfs(Arc<Points>);

struct CountingFile(Box<dyn VfsFile>, Arc<Points>);

impl fmt::Debug for CountingVfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CountingVfs")
    }
}

impl fmt::Debug for CountingFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Vfs for CountingVfs {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.0.reached();
        RealVfs.create_folder(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<Entry>> {
        RealVfs.list(folder)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn VfsFile>> {
        self.0.reached();
        let file = RealVfs.open(path, mode)?;
        Ok(Box::new(CountingFile(file, Arc::clone(&self.0))))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.reached();
        RealVfs.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.reached();
        RealVfs.remove(path)
    }

    fn flush_folder(&self, folder: &Path) -> io::Result<()> {
        self.0.reached();
        RealVfs.flush_folder(folder)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        RealVfs.lock(path)
    }
}

impl VfsFile for CountingFile {
    fn read_at(&mut self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(into, offset)
    }

    fn write_at(&mut self, from: &[u8], offset: u64) -> io::Result<usize> {
        self.1.reached();
        self.0.write_at(from, offset)
    }

    fn length(&mut self) -> io::Result<u64> {
        self.0.length()
    }

    fn resize(&mut self, bytes: u64) -> io::Result<()> {
        self.1.reached();
        self.0.resize(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.1.reached();
        self.0.flush()
    }
}
