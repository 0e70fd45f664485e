//! What is asked about references, what is answered, and what they want done.

use std::fmt;
use std::sync::Arc;

use overlane_core::Did;
use overlane_core::transaction::Data;
use overlane_relay::refs::table::{Change, Local, LocalObject, LocalPromise};
use overlane_relay::refs::wire::{Body, Hardness, Outcome, Reason, Slot};

use super::{CallId, ReferenceError, Token};

/// Names one request until it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub u64);

/// Names one commit until it is known to be durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitId(pub u64);

/// Something the application wants of its references.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// A new object, whose calls are answered from now on. Answered by [`Reply::Handle`].
    Export,
    /// Calls of a kept object of this node's own are answered from now on, those that waited first.
    /// Answered by [`Reply::Handle`].
    Attach(Token),
    /// A call. Answered by [`Reply::Promise`], and by [`Effect::Became`] in the end.
    Send {
        /// What is called: an object, or what a promise becomes.
        target: Local,
        /// The application's bytes.
        bytes: Vec<u8>,
        /// The references they speak of.
        refs: Vec<Local>,
    },
    /// The answer to a call. Answered by [`Reply::Done`].
    Answer {
        /// The call.
        call: CallId,
        /// What its caller gets.
        outcome: Outcome<Local>,
    },
    /// Takes an object of this node's own back. Answered by [`Reply::Done`].
    Revoke {
        /// The object.
        object: LocalObject,
        /// Whether its identity goes too.
        hardness: Hardness,
        /// Why, as a number.
        reason: Reason,
        /// Why, in words.
        text: String,
    },
    /// Keeps a reference over restarts. Answered by [`Reply::Kept`].
    Keep {
        /// The reference.
        local: Local,
        /// What to know it by.
        note: Vec<u8>,
    },
    /// A handle of a kept reference. Answered by [`Reply::Handle`].
    Restore(Token),
    /// Keeps a reference no longer. Answered by [`Reply::Done`].
    Forget(Token),
    /// Whoever shows the secret behind this digest gets this kept reference. Answered by [`Reply::Done`].
    Admit(Token, [u8; 32]),
    /// What another node gives for a secret. Answered by [`Reply::Promise`].
    Redeem(Did, [u8; 32]),
}

/// What comes of a request, once that is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// It is done.
    Done,
    /// A reference, which the application holds.
    Handle(Handle),
    /// The promise of an answer, which the application holds.
    Promise(LocalPromise),
    /// The number under which a reference is kept.
    Kept(Token),
}

/// One handle of a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handle {
    /// The reference.
    pub local: Local,
    /// What it is worth now.
    pub state: RefState,
}

/// What a reference is worth.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RefState {
    /// Calls reach it.
    Live,
    /// Its owner took it back; it is still itself.
    Revoked(TakenBack),
    /// It is gone: taken back for good, or lost with what was shared with its node.
    Broken(TakenBack),
}

/// Why a reference works no longer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TakenBack {
    /// As a number.
    pub reason: Reason,
    /// As its owner put it; empty where it said nothing.
    pub text: String,
}

/// A call to an object of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What its answer names.
    pub id: CallId,
    /// The object.
    pub target: LocalObject,
    /// Who sent it, or passed it on; `None` for this node's own application.
    pub from: Option<Did>,
    /// What it says. Each reference is a handle.
    pub body: Body<Handle>,
    /// Whether it may have been handed out before, by a process that ended since.
    pub again: bool,
}

/// Something that references want done, in the order given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Sign it and send it there, and say with `handle_said` when that is over.
    Say {
        /// Where to.
        peer: Did,
        /// What.
        data: Data,
    },
    /// A request is answered.
    Answer(AskId, Result<Reply, ReferenceError>),
    /// Answer this with [`Ask::Answer`].
    Call(Box<Call>),
    /// A promise that the application holds became something. Each reference is a handle.
    Became {
        /// The promise.
        promise: LocalPromise,
        /// What it became.
        outcome: Outcome<Handle>,
    },
    /// A reference that the application holds is worth something else now.
    State {
        /// The reference.
        object: LocalObject,
        /// What it is worth.
        state: RefState,
    },
    /// Nobody can call the object any more.
    Detach(LocalObject),
    /// What was shared with a node is lost.
    Ended {
        /// The node.
        peer: Did,
        /// The stable code of the cause.
        code: &'static str,
        /// The cause in words.
        text: String,
    },
    /// The store failed: everything is refused from now on.
    Failed {
        /// What it said.
        cause: String,
    },
    /// A message is done with: its place on the application's side is free.
    Taken,
}

/// A commit: all of these changes become durable, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// What its result names.
    pub id: CommitId,
    /// The rows.
    pub changes: Vec<Change>,
}

impl TakenBack {
    pub(crate) fn new(reason: Reason, text: &[u8]) -> Self {
        Self {
            reason,
            text: String::from_utf8_lossy(text).into_owned(),
        }
    }
}

impl fmt::Display for TakenBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = self.reason;
        let words = match reason {
            _ if !self.text.is_empty() => &self.text,
            Reason::DISCONNECTED => "what was shared with its node is lost",
            Reason::CANNOT_SEND_TO_DATA => "it became data, which takes no calls",
            Reason::UNDELIVERABLE => "a bound on the way was reached",
            Reason::RESOLVED_TO_PROMISE => "it was resolved to another promise",
            Reason::BUSY => "the node works on as many calls as it takes",
            Reason::SERVICE_ENDED => "the program behind it ended",
            Reason::UNKNOWN_TICKET => "the node does not know the ticket",
            Reason(number) => return write!(f, "reason {number}"),
        };
        f.write_str(words)
    }
}

/// `outcome` with another kind of name.
pub(super) fn map_outcome<R, S>(outcome: Outcome<R>, name: impl FnMut(R) -> S) -> Outcome<S> {
    let mut name = name;
    match outcome {
        Outcome::Reference(of) => Outcome::Reference(name(of)),
        Outcome::Data(body) => Outcome::Data(map_body(body, name)),
        Outcome::Rejected(body) => Outcome::Rejected(map_body(body, name)),
        Outcome::Broken { reason, error } => Outcome::Broken { reason, error },
    }
}

/// `body` with another kind of name.
pub(super) fn map_body<R, S>(body: Body<R>, mut name: impl FnMut(R) -> S) -> Body<S> {
    let slots = body.slots.into_iter().map(|slot| match slot {
        Slot::Ref(of) => Slot::Ref(name(of)),
        Slot::Broken(reason) => Slot::Broken(reason),
    });
    Body {
        slots: slots.collect(),
        bytes: Arc::clone(&body.bytes),
    }
}
