//! Which message is handled next, a stream at a time.
//!
//! Law **handler deadline**: the messages of one stream are handled one after another, those of
//! different streams beside each other; a handler that has not ended [`HANDLER_DEADLINE_MS`] after it
//! began is ended, and the next message of its stream goes on. So a handler that never returns costs its
//! own stream that long, and no other anything. Its message is not handled again: it was admitted once.
//! Source: protocol decision 6 (a slow handler holds its own lane only).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use overlane_core::StreamKey;

/// How long a handler may take with one message, in milliseconds.
pub const HANDLER_DEADLINE_MS: u64 = 30_000;

/// Names the handling of one message.
pub(super) type WorkId = u64;

/// Something to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Work<T> {
    /// Handle this message, and say when it is done.
    Begin(WorkId, T),
    /// Stop handling a message: its time is over.
    End(WorkId),
}

/// Messages that are handled, and those behind them.
#[derive(Debug)]
pub(super) struct Desk<T> {
    deadline_ms: u64,
    streams: BTreeMap<StreamKey, Line<T>>,
    of: BTreeMap<WorkId, StreamKey>,
    due: BTreeSet<(u64, WorkId)>,
    next: WorkId,
    work: VecDeque<Work<T>>,
}

#[derive(Debug)]
struct Line<T> {
    under_way: (u64, WorkId),
    waiting: VecDeque<T>,
}

impl<T> Desk<T> {
    /// A desk whose handlers may take so long.
    pub(super) fn new(deadline_ms: u64) -> Self {
        Self {
            deadline_ms,
            streams: BTreeMap::new(),
            of: BTreeMap::new(),
            due: BTreeSet::new(),
            next: 0,
            work: VecDeque::new(),
        }
    }

    /// Whether nothing is handled.
    pub(super) fn is_idle(&self) -> bool {
        self.streams.is_empty() && self.work.is_empty()
    }

    /// A message of this stream was admitted.
    pub(super) fn handle_message(&mut self, stream: StreamKey, message: T, now_ms: u64) {
        if let Some(line) = self.streams.get_mut(&stream) {
            return line.waiting.push_back(message);
        }
        let under_way = self.begin(stream, message, now_ms);
        let waiting = VecDeque::new();
        self.streams.insert(stream, Line { under_way, waiting });
    }

    /// A handler returned. What was ended before is nothing.
    pub(super) fn handle_done(&mut self, id: WorkId, now_ms: u64) {
        if let Some(stream) = self.of.get(&id).copied() {
            self.go_on(stream, now_ms);
        }
    }

    /// Time passed.
    pub(super) fn handle_timeout(&mut self, now_ms: u64) {
        while let Some(&(due_ms, id)) = self.due.first() {
            if due_ms > now_ms {
                return;
            }
            self.work.push_back(Work::End(id));
            match self.of.get(&id).copied() {
                Some(stream) => self.go_on(stream, now_ms),
                None => {
                    self.due.pop_first();
                }
            }
        }
    }

    /// The next thing to do.
    pub(super) fn poll_work(&mut self) -> Option<Work<T>> {
        self.work.pop_front()
    }

    /// When the next handler's time is over.
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        self.due.first().map(|&(due_ms, _)| due_ms)
    }

    fn begin(&mut self, stream: StreamKey, message: T, now_ms: u64) -> (u64, WorkId) {
        let id = self.next;
        self.next += 1;
        let under_way = (now_ms.saturating_add(self.deadline_ms), id);
        self.of.insert(id, stream);
        self.due.insert(under_way);
        self.work.push_back(Work::Begin(id, message));
        under_way
    }

    /// The stream's next message, if one waits.
    fn go_on(&mut self, stream: StreamKey, now_ms: u64) {
        let Some(mut line) = self.streams.remove(&stream) else {
            return;
        };
        self.of.remove(&line.under_way.1);
        self.due.remove(&line.under_way);
        if let Some(message) = line.waiting.pop_front() {
            line.under_way = self.begin(stream, message, now_ms);
            self.streams.insert(stream, line);
        }
    }
}

#[cfg(test)]
mod tests {
    use overlane_core::{Class, Did, NetworkId};

    use super::*;

    fn stream(origin: u8, class: Class) -> StreamKey {
        StreamKey {
            network: NetworkId(1),
            origin: Did([origin; 20]),
            destination: Did([9; 20]),
            class,
        }
    }

    /// Handles three messages of each of three streams; the first message of one of them is never done.
    /// Gives what was begun in its order, and when; `ends` tells the desk of the time that passed.
    fn handled(ends: bool) -> Vec<(u64, &'static str)> {
        let mut desk = Desk::new(HANDLER_DEADLINE_MS);
        let stuck = stream(1, Class::Application);
        let others = [stream(1, Class::E2e), stream(2, Class::Application)];
        for message in ["stuck", "behind it", "last of it"] {
            desk.handle_message(stuck, message, 0);
        }
        for other in others {
            for message in ["one", "two", "three"] {
                desk.handle_message(other, message, 0);
            }
        }
        let mut begun = Vec::new();
        let mut now_ms = 0;
        loop {
            while let Some(work) = desk.poll_work() {
                if let Work::Begin(id, message) = work {
                    begun.push((now_ms, message));
                    if message != "stuck" {
                        desk.handle_done(id, now_ms);
                    }
                }
            }
            match desk.poll_timeout() {
                Some(due_ms) if ends => now_ms = due_ms,
                _ => return begun,
            }
            desk.handle_timeout(now_ms);
        }
    }

    #[test]
    fn law_handler_deadline_one_that_never_returns_holds_its_own_stream_and_no_longer() {
        let begun = handled(true);
        let others = begun.iter().filter(|(at_ms, _)| *at_ms == 0);
        assert_eq!(others.count(), 1 + 2 * 3, "no other waits: {begun:?}");
        let late = HANDLER_DEADLINE_MS;
        assert_eq!(begun[7..], [(late, "behind it"), (late, "last of it")]);
        // A desk that is never told of the time breaks it.
        assert_eq!(handled(false).len(), 7);
    }

    #[test]
    fn a_handler_that_returns_after_its_deadline_ends_nothing_else() {
        let mut desk = Desk::new(10);
        let stream = stream(1, Class::Storage);
        desk.handle_message(stream, "late", 0);
        desk.handle_message(stream, "next", 0);
        desk.handle_message(stream, "after", 0);
        assert_eq!(desk.poll_work(), Some(Work::Begin(0, "late")));
        desk.handle_timeout(9);
        assert_eq!(desk.poll_work(), None);
        desk.handle_timeout(10);
        assert_eq!(desk.poll_work(), Some(Work::End(0)));
        assert_eq!(desk.poll_work(), Some(Work::Begin(1, "next")));
        desk.handle_done(0, 11);
        assert_eq!(desk.poll_work(), None);
        assert_eq!(desk.poll_timeout(), Some(20));
        desk.handle_done(1, 11);
        assert_eq!(desk.poll_work(), Some(Work::Begin(2, "after")));
        desk.handle_done(2, 12);
        assert!(desk.is_idle());
        assert_eq!(desk.poll_timeout(), None);
    }
}
