//! What must hold of any bytes at all. The fuzz targets and the test suite run the same functions.

use overlane_core::Did;
use overlane_core::wire::cbor::{Value, Writer, from_slice};
use overlane_relay::inbox;
use overlane_relay::log::testkit::MemoryLogs;
use overlane_relay::log::{
    self, Access, Judged, LogId, LogStore, Logs, Peer, Refusal, Retention, Rules,
};
use overlane_relay::refs::Limits;
use overlane_relay::refs::table::{
    Answer, Event, LinkId, Local, LocalObject, LocalPromise, Step, Tables,
};
use overlane_relay::refs::wire::{Body, Epoch, FRAME_MAX_BYTES, Frame, Hardness, Outcome, Reason};

/// Bytes are the one form of a frame, or refused.
pub(crate) fn refs_frame(bytes: &[u8]) {
    if let Ok(frame) = Frame::from_bytes(bytes) {
        assert_eq!(frame.to_bytes(), bytes);
        // A structure that miscounts its fields reads its own bytes, but they are not one item.
        assert!(from_slice::<Value>(bytes).is_ok());
    }
}

/// Bytes are the one form of a log's frame, or refused.
pub(crate) fn log_frame(bytes: &[u8]) {
    if let Ok(frame) = log::Frame::from_bytes(bytes) {
        assert_eq!(frame.to_bytes(), bytes);
        assert!(from_slice::<Value>(bytes).is_ok());
    }
}

/// Bytes are the one form of an inbox's frame, or refused.
pub(crate) fn inbox_frame(bytes: &[u8]) {
    if let Ok(frame) = inbox::Frame::from_bytes(bytes) {
        assert_eq!(frame.to_bytes(), bytes);
        assert!(from_slice::<Value>(bytes).is_ok());
    }
}

/// Bytes are frames of several peers: a log neither panics nor contradicts itself, whatever they say,
/// and says nothing that is no frame. A step is who speaks, a length, and the frame.
pub(crate) fn log_host(mut bytes: &[u8]) {
    let Ok(mut logs) = Logs::open(MemoryLogs::default(), AnyLog) else {
        return;
    };
    let mut now_ms = 0;
    while let Some(step) = take(&mut bytes, 1).first().copied() {
        let length = usize::from(take(&mut bytes, 1).first().copied().unwrap_or_default());
        let frame = take(&mut bytes, length);
        now_ms += 1_000;
        let account = Did([step & 0x0f; 20]);
        if step >= 0x80 {
            let log = LogId([7; 32]);
            let followed = logs.follow(log, Did([9; 20]));
            assert!(followed.is_ok() && logs.start_sync(log, Did([9; 20]), now_ms).is_ok());
        }
        // Bytes that are no frame are the peer's fault; the store does not fail.
        let _ = logs.handle_frame(Peer { account, slot: 0 }, frame, now_ms);
        assert!(logs.flush(now_ms).is_ok());
        while let Ok(Some(transmit)) = logs.poll_transmit() {
            assert!(log::Frame::from_bytes(&transmit.frame).is_ok());
        }
    }
    for log in [LogId([7; 32]), LogId([0; 32])] {
        let kept = logs
            .store()
            .entries(&log, 0, usize::MAX)
            .unwrap_or_default();
        let size = logs.size(&log).ok();
        let held: u64 = kept.iter().map(|it| u64::from(it.bytes)).sum();
        assert_eq!(size, Some((kept.len() as u64, held)));
        for entry in kept {
            assert_eq!(logs.store().seq_of(&log, &entry.id), Ok(Some(entry.seq)));
        }
    }
}

/// Everyone may do everything, and an envelope is by the Did it begins with.
struct AnyLog;

impl Rules for AnyLog {
    fn access(&self, _: &LogId, peer: &Did) -> Access {
        match peer.0.first() {
            Some(0) => Access::None,
            Some(1..=7) => Access::Member,
            _ => Access::Holder,
        }
    }

    fn retention(&self, _: &LogId) -> Retention {
        Retention {
            entries: 8,
            ..Retention::GROUP
        }
    }

    fn judge(
        &mut self,
        log: &LogId,
        envelope: &[u8],
        from: &Did,
        _: u64,
    ) -> Result<Judged, Refusal> {
        let (log, peer) = (*log, *from);
        let author = envelope.first_chunk().copied().map(Did);
        Ok(Judged {
            id: log::address(envelope),
            author: author.ok_or(Refusal::NotHere { log, peer })?,
            expires_ms: u64::MAX,
        })
    }
}

const HOSTILE: LinkId = LinkId(1);
const HONEST: LinkId = LinkId(2);

const LIMITS: Limits = Limits {
    exports: 8,
    imports: 8,
    promises: 8,
    unacked_frames: 8,
    queued_messages: 4,
    introductions_per_s: 64,
    frames_per_s: 64,
    soft_violations: 2,
    ack_delay_ms: 50,
    probe_ms: 5_000,
    ack_deadline_ms: 60_000,
    explicit_seq: true,
};

/// Bytes are what a peer sends, and what the node does meanwhile: no step panics, the tables never
/// contradict themselves nor outgrow their limits, and a frame that ends the epoch does nothing else.
pub(crate) fn refs_tables(mut bytes: &[u8]) {
    let Some(mut node) = Node::new() else {
        return;
    };
    while let Some(step) = take(&mut bytes, 1).first().copied() {
        if node.tables.link(HOSTILE).is_none() {
            return;
        }
        let length = usize::from(take(&mut bytes, 1).first().copied().unwrap_or_default());
        let input = take(&mut bytes, length);
        match step % 8 {
            0 => node.receive(input),
            1..=4 => {
                let frame = node.frame(u64::from(step / 8), input);
                node.receive(&frame);
            }
            5 => {
                node.now_ms += u64::from(step / 8) * 100;
                let step = node.tables.handle_timeout(node.now_ms);
                node.keep(&step);
            }
            _ => node.act(step / 8),
        }
        if let Err(error) = node.tables.audit() {
            panic!("{error}");
        }
    }
}

struct Node {
    tables: Tables,
    now_ms: u64,
    object: LocalObject,
    promise: LocalPromise,
    peer: LocalObject,
    held: Vec<Local>,
}

impl Node {
    fn new() -> Option<Self> {
        let mut tables = Tables::new(LIMITS);
        let door = tables.export();
        let peer = tables.open_link(HOSTILE, Epoch(1), LIMITS, door, 0).ok()?;
        tables.open_link(HONEST, Epoch(1), LIMITS, door, 0).ok()?;
        Some(Self {
            object: tables.export(),
            promise: tables.promise_new(),
            tables,
            now_ms: 0,
            peer,
            held: Vec::new(),
        })
    }

    /// Operations of the peer in a frame that is in its turn, so that they are looked at.
    fn frame(&self, acks: u64, ops: &[u8]) -> Vec<u8> {
        let recv = self.tables.link(HOSTILE).map_or(0, |view| view.recv.0);
        let mut writer = Writer::new();
        writer.array(5).uint(0).uint(1).uint(recv + 1);
        writer.uint(acks % 4).array(1 + usize::from(acks >= 16));
        let mut frame = writer.into_bytes();
        frame.extend_from_slice(ops);
        frame
    }

    fn receive(&mut self, frame: &[u8]) {
        let before = self.tables.clone();
        let step = self.tables.handle_frame(HOSTILE, frame, self.now_ms);
        let ended = |event: &Event| matches!(event, Event::Ended { .. });
        if step.events.iter().any(ended) {
            let mut alone = before;
            assert!(alone.end_epoch(HOSTILE, self.now_ms).is_ok());
            assert!(alone == self.tables, "a refused frame had an effect");
        }
        assert!(self.tables.link(HONEST).is_some());
        self.keep(&step);
    }

    fn keep(&mut self, step: &Step) {
        assert!(
            step.transmits
                .iter()
                .all(|sent| sent.bytes.len() <= FRAME_MAX_BYTES)
        );
        for event in &step.events {
            match event {
                Event::Deliver { body, .. } => self.held.extend(body.refs()),
                Event::Resolved { outcome, .. } => self.held.extend(outcome.refs()),
                _ => {}
            }
        }
    }

    fn act(&mut self, what: u8) {
        let now_ms = self.now_ms;
        let mentions = Body::of([Local::Object(self.object), self.promise.into()]);
        let tables = &mut self.tables;
        let done = match what % 8 {
            0 => tables
                .send(self.peer.into(), mentions, Answer::New, now_ms)
                .map(|(_, step)| step),
            1 => tables
                .send(self.promise.into(), mentions, Answer::Unwanted, now_ms)
                .map(|(_, step)| step),
            2 => tables.revoke(
                self.object,
                Hardness::Soft,
                Reason::FIRST_FREE,
                b"why",
                now_ms,
            ),
            3 => tables.revoke(
                self.object,
                Hardness::Hard,
                Reason::FIRST_FREE,
                b"why",
                now_ms,
            ),
            4 => tables.resolve(self.promise, Outcome::Reference(self.peer.into()), now_ms),
            5 => {
                let passed = Answer::Passed(self.promise);
                tables
                    .send(self.peer.into(), Body::data(b""), passed, now_ms)
                    .map(|(_, step)| step)
            }
            _ => match self.held.pop() {
                Some(local) => tables.release(local, now_ms),
                None => return,
            },
        };
        if let Ok(step) = done {
            self.keep(&step);
        }
    }
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(length.min(bytes.len()));
    *bytes = rest;
    taken
}
