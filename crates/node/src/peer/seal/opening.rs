//! Admitted messages that are opened on their way to the application.
//!
//! Law (opened in its turn): what was sealed is opened by a worker, and what the same origin sent after it
//! waits behind it, sealed or not, so that the order of its stream stays. Every one of them holds its place
//! on the application's side already, which bounds what is here.

use std::collections::{BTreeMap, VecDeque};

use overlane_core::{Class, Did};

use super::super::lanes::InboundLane;
use super::super::{Delivery, Refusal};
use super::job::SealTicket;
use crate::link::LinkId;

/// The origin and the class of messages that keep their order.
pub(super) type Origin = (Did, Class);

/// A message, where it came from, and the bytes it holds on the application's side.
pub(super) struct Arrived {
    pub(super) link: LinkId,
    pub(super) lane: InboundLane,
    pub(super) bytes: u64,
    pub(super) message: Result<Box<Delivery>, Refusal>,
}

/// Lines of messages whose first one is being opened.
#[derive(Debug, Default)]
pub(super) struct Opening {
    lines: BTreeMap<Origin, VecDeque<Place>>,
    working: BTreeMap<SealTicket, Origin>,
}

#[derive(Debug)]
struct Place {
    link: LinkId,
    lane: InboundLane,
    bytes: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Working(SealTicket),
    Ready(Result<Box<Delivery>, Refusal>),
}

impl Opening {
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Whether a message of this origin is being opened.
    pub(super) fn holds(&self, origin: Origin) -> bool {
        self.lines.contains_key(&origin)
    }

    /// A message is with a worker.
    pub(super) fn push_working(
        &mut self,
        origin: Origin,
        (link, lane, bytes): (LinkId, InboundLane, u64),
        ticket: SealTicket,
    ) {
        self.working.insert(ticket, origin);
        let state = State::Working(ticket);
        self.push(
            origin,
            Place {
                link,
                lane,
                bytes,
                state,
            },
        );
    }

    /// A message needs no worker, and waits behind those that do.
    pub(super) fn push_ready(&mut self, origin: Origin, arrived: Arrived) {
        let Arrived {
            link,
            lane,
            bytes,
            message,
        } = arrived;
        let state = State::Ready(message);
        self.push(
            origin,
            Place {
                link,
                lane,
                bytes,
                state,
            },
        );
    }

    /// A worker is done with a message: whose line may move.
    pub(super) fn finish(
        &mut self,
        ticket: SealTicket,
        opened: Result<Box<Delivery>, Refusal>,
    ) -> Option<Origin> {
        let origin = self.working.remove(&ticket)?;
        let line = self.lines.get_mut(&origin)?;
        let is_it = |place: &&mut Place| matches!(place.state, State::Working(it) if it == ticket);
        line.iter_mut().find(is_it)?.state = State::Ready(opened);
        Some(origin)
    }

    /// The line's first message, if no worker has it.
    pub(super) fn pop(&mut self, origin: Origin) -> Option<Arrived> {
        let line = self.lines.get_mut(&origin)?;
        if !matches!(line.front()?.state, State::Ready(_)) {
            return None;
        }
        let first = line.pop_front()?;
        if line.is_empty() {
            self.lines.remove(&origin);
        }
        match first.state {
            State::Ready(message) => Some(Arrived {
                link: first.link,
                lane: first.lane,
                bytes: first.bytes,
                message,
            }),
            State::Working(_) => None,
        }
    }

    fn push(&mut self, origin: Origin, place: Place) {
        self.lines.entry(origin).or_default().push_back(place);
    }
}
