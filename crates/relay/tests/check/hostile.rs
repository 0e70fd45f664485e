//! A peer that sends anything: every sequence of frames from an alphabet of operations on every id
//! that means something, and some that mean nothing, mixed with what the node itself does.

use super::explore::Model;
use overlane_relay::refs::Limits;
use overlane_relay::refs::table::{
    Answer, Event, LinkId, Local, LocalObject, LocalPromise, Step, Tables,
};
use overlane_relay::refs::wire::{
    AckOnly, Body, Epoch, Frame, Hardness, Kind, Numbered, Op, Outcome, Reason, Resolution, Resume,
    Revocation, Seq, Side, Slot, WireId,
};

const HOSTILE: LinkId = LinkId(1);
const HONEST: LinkId = LinkId(2);

/// What can happen.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// The peer sends a frame of the alphabet, with this many frames acknowledged.
    Frame {
        letter: usize,
        acks: u64,
    },
    /// It sends a frame out of its turn.
    Early,
    Again,
    /// It acknowledges alone.
    AckOnly(u64),
    /// It says where it is.
    Resume {
        recv: u64,
        acked: u64,
    },
    /// The node mentions its object to the peer.
    Mention,
    Revoke(Hardness),
    Resolve,
    Release,
}

pub struct Hostile {
    pub depth: u8,
    pub limits: Limits,
    letters: Vec<Op>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct State {
    tables: Tables,
    depth: u8,
    object: LocalObject,
    promise: LocalPromise,
    answer: LocalPromise,
}

fn id(kind: Kind, side: Side, number: u64) -> WireId {
    WireId { kind, side, number }
}

impl Hostile {
    pub fn new(depth: u8) -> Self {
        let limits = Limits {
            imports: 3,
            promises: 4,
            unacked_frames: 3,
            queued_messages: 2,
            soft_violations: 1,
            ..Limits::default()
        };
        Self {
            depth,
            limits,
            letters: letters(),
        }
    }

    pub fn letters(&self) -> usize {
        self.letters.len()
    }
}

/// Every operation on every interesting id.
fn letters() -> Vec<Op> {
    let mut ids = Vec::new();
    for (side, highest) in [(Side::Receiver, 2), (Side::Sender, 2)] {
        ids.extend((0..=highest).map(|number| id(Kind::Object, side, number)));
        ids.extend((1..=highest + 1).map(|number| id(Kind::Promise, side, number)));
    }
    ids.push(id(Kind::Object, Side::Sender, WireId::NUMBER_MAX));
    let door = id(Kind::Object, Side::Receiver, 0);
    let fresh = id(Kind::Promise, Side::Sender, 1);
    let deliver = |target, result, slot: Option<WireId>| Op::Deliver {
        target,
        result,
        body: Body::of(slot),
    };
    let resolve = |promise, outcome| Op::Resolve(vec![Resolution { promise, outcome }]);
    let mut letters = Vec::new();
    for &one in &ids {
        letters.push(deliver(one, None, None));
        letters.push(deliver(door, Some(one), None));
        letters.push(deliver(one, Some(fresh), Some(one)));
        letters.push(deliver(door, None, Some(one)));
        letters.push(Op::Drop(vec![one]));
        letters.push(resolve(one, Outcome::Data(Body::data(b""))));
        letters.push(resolve(one, Outcome::Data(Body::of([one]))));
        letters.push(resolve(one, Outcome::Reference(door)));
        letters.push(resolve(one, Outcome::Reference(one)));
        for hardness in [Hardness::Soft, Hardness::Hard] {
            letters.push(Op::Revoke(vec![Revocation {
                object: one,
                hardness,
                reason: Reason::FIRST_FREE,
                error: b"no"[..].into(),
            }]));
        }
    }
    let twice = id(Kind::Object, Side::Receiver, 1);
    letters.push(Op::Drop(vec![twice, twice]));
    letters.push(Op::Deliver {
        target: door,
        result: None,
        body: Body {
            slots: vec![Slot::Broken(Reason(1)); 2],
            bytes: b"x"[..].into(),
        },
    });
    letters
}

impl Model for Hostile {
    type State = State;
    type Action = Act;

    fn start(&self) -> State {
        let mut tables = Tables::new(self.limits);
        let door = tables.export();
        let object = tables.export();
        let promise = tables.promise_new();
        let hostile = tables
            .open_link(HOSTILE, Epoch(1), self.limits, door, 0)
            .unwrap();
        let honest = tables
            .open_link(HONEST, Epoch(1), self.limits, door, 0)
            .unwrap();
        let mentions = Body::of([Local::Object(object), Local::Promise(promise)]);
        tables
            .send(honest.into(), mentions.clone(), Answer::Unwanted, 0)
            .unwrap();
        let (answer, _) = tables
            .send(hostile.into(), mentions, Answer::New, 0)
            .unwrap();
        State {
            tables,
            depth: self.depth,
            object,
            promise,
            answer: answer.unwrap(),
        }
    }

    fn actions(&self, state: &State) -> Vec<Act> {
        if state.depth == 0 || state.tables.link(HOSTILE).is_none() {
            return Vec::new();
        }
        let mut acts = vec![
            Act::Early,
            Act::Again,
            Act::Mention,
            Act::Resolve,
            Act::Release,
            Act::Revoke(Hardness::Soft),
            Act::Revoke(Hardness::Hard),
        ];
        for letter in 0..self.letters.len() {
            acts.extend([0, 1].map(|acks| Act::Frame { letter, acks }));
        }
        acts.extend([9, u64::MAX].map(|acks| Act::Frame { letter: 0, acks }));
        acts.extend([0, 1, 2, 99, u64::MAX].map(Act::AckOnly));
        for recv in [0, 1, 99] {
            acts.extend([0, 99].map(|acked| Act::Resume { recv, acked }));
        }
        acts
    }

    fn apply(&self, state: &mut State, act: Act) -> Result<(), String> {
        state.depth -= 1;
        let before = state.tables.clone();
        let head = state.tables.link(HOSTILE).unwrap();
        let numbered = |seq: u64, ack_delta: u64, op: &Op| {
            Frame::Numbered(Numbered {
                epoch: Epoch(1),
                seq: Some(Seq(seq)),
                ack_delta,
                ops: vec![self.letters[0].clone(), op.clone()],
            })
        };
        let next = head.recv.0 + 1;
        let frame = match act {
            Act::Frame { letter, acks } => numbered(next, acks, &self.letters[letter]),
            Act::Early => numbered(next + 1, 1, &self.letters[0]),
            Act::Again => numbered(next - 1, 1, &self.letters[0]),
            Act::AckOnly(recv) => Frame::AckOnly(AckOnly {
                epoch: Epoch(1),
                after: head.recv,
                recv: Seq(recv),
            }),
            Act::Resume { recv, acked } => Frame::Resume(Resume {
                epoch: Epoch(1),
                sent: head.recv,
                recv: Seq(recv),
                acked: Seq(acked),
            }),
            own => {
                own_act(state, own);
                return state.tables.audit().map_err(|error| error.to_string());
            }
        };
        let step = state.tables.handle_frame(HOSTILE, &frame.to_bytes(), 0);
        judge(&before, &state.tables, &step)
    }

    fn check(&self, state: &State) -> Result<(), String> {
        state.tables.audit().map_err(|error| error.to_string())
    }
}

/// What the application does meanwhile. A bound may refuse it.
fn own_act(state: &mut State, act: Act) {
    let State {
        tables,
        object,
        promise,
        answer,
        ..
    } = state;
    let mention = Body::of([Local::Object(*object)]);
    let _ = match act {
        Act::Mention => tables
            .send((*answer).into(), mention, Answer::Unwanted, 0)
            .map(|(_, step)| step),
        Act::Revoke(hardness) => tables.revoke(*object, hardness, Reason::FIRST_FREE, b"mine", 0),
        Act::Resolve => tables.resolve(*promise, Outcome::Reference((*object).into()), 0),
        _ => tables.release((*answer).into(), 0),
    };
}

/// I19 and I20: a frame that ended the epoch did nothing else, and no other epoch ends.
fn judge(before: &Tables, after: &Tables, step: &Step) -> Result<(), String> {
    let ended: Vec<_> = step
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Ended { link, .. } => Some(*link),
            _ => None,
        })
        .collect();
    if ended.is_empty() {
        return Ok(());
    }
    if ended != [HOSTILE] || after.link(HONEST).is_none() {
        return Err(format!("I20 {ended:?} ended"));
    }
    let mut alone = before.clone();
    alone.end_epoch(HOSTILE, 0).unwrap();
    if alone != *after {
        return Err("I19 a frame that ended the epoch had another effect".into());
    }
    Ok(())
}
