//! What the local API takes and answers: what happens, and messages as they are taken.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::super::names::ClassName;

/// Takes one message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TakeRequest {
    /// The number that the stream of `GET /v1/watch` began with.
    pub watch: u64,
}

/// An admitted message, taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TakenMessage {
    /// Its stream.
    pub stream: String,
    /// Who signed it.
    pub origin: String,
    /// Its traffic class.
    pub class: ClassName,
    /// Its sequence in the stream.
    pub sequence: u64,
    /// The transaction's digest.
    pub digest: String,
    /// How it entered the window: `First`, `Advance` or `Late`.
    pub verdict: String,
    /// Whether it was sealed, so that nobody on its way could read it.
    #[serde(default)]
    pub sealed: bool,
    /// What an application message is about.
    pub namespace: Option<String>,
    /// The body, where it is text.
    pub text: Option<String>,
    /// The body, in hexadecimal.
    pub body: String,
}

/// Something that happened in the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventLine {
    /// The stream of events has begun: what happens from here on is in it.
    Watching {
        /// The number to take messages with, where that right comes with the stream.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        watch: Option<u64>,
    },
    /// A link was admitted.
    LinkUp {
        /// The link.
        link: u64,
        /// Who is at its other end.
        peer: String,
    },
    /// A link is gone.
    LinkDown {
        /// The link.
        link: u64,
        /// Who was at its other end.
        peer: String,
        /// Why.
        reason: String,
    },
    /// A message was admitted.
    Admitted {
        /// Its stream.
        stream: String,
        /// Its sequence.
        sequence: u64,
        /// Its digest.
        digest: String,
        /// How it entered the window.
        verdict: String,
    },
    /// A frame was refused.
    Refused {
        /// The link it came on.
        link: u64,
        /// Who is at its other end.
        peer: String,
        /// The lane it came on.
        class: ClassName,
        /// Why, as a code.
        error: String,
        /// Why, in words.
        message: String,
    },
    /// A message of this node's does not reach its destination.
    Unreachable {
        /// Its stream.
        stream: String,
        /// Its sequence.
        sequence: u64,
        /// Its digest.
        digest: String,
        /// The node where its way ended.
        reporter: String,
        /// Why, as a code.
        error: String,
    },
    /// The other side of an E2E session does not know it any more.
    SessionLost {
        /// The other side.
        with: String,
        /// How many bodies were sent in it.
        sent: u64,
    },
    /// A part of a large message is in its lane.
    SendProgress {
        /// The send.
        send: u64,
        /// Bytes in the lane.
        placed_bytes: u64,
        /// Bytes in all.
        total_bytes: u64,
    },
    /// A mail for this node waits to be taken.
    MailWaits {
        /// Who sent it.
        origin: String,
        /// Its transaction.
        digest: String,
    },
    /// A mail for this node can be admitted no more.
    MailLost {
        /// Who sent it.
        origin: String,
        /// Its transaction.
        digest: String,
        /// Why, as a code.
        error: String,
    },
    /// What became of a mail of this node's that others held.
    MailEnded {
        /// Whom it was for.
        destination: String,
        /// Its transaction.
        digest: String,
        /// `taken`, `expired` or `evicted`.
        outcome: String,
        /// The holder that says so.
        by: String,
    },
    /// What this node holds for another account changed.
    MailHolds {
        /// Whose mail it is.
        owner: String,
        /// How many there are now.
        mails: u64,
    },
    /// Other nodes hold this node's mail now while it is away.
    MailHolders {
        /// Them, by the ring.
        holders: Vec<String>,
    },
    /// The replay store failed: nothing is sent or admitted until the node is restarted.
    StoreFailed {
        /// Why, as a code.
        error: String,
        /// Why, in words.
        message: String,
    },
    /// The reader was too slow for this many events.
    Missed {
        /// How many.
        count: u64,
    },
}

impl EventLine {
    /// What happened, in the word that its line says.
    pub(in crate::api) const fn name(&self) -> &'static str {
        match self {
            Self::Watching { .. } => "watching",
            Self::LinkUp { .. } => "link_up",
            Self::LinkDown { .. } => "link_down",
            Self::Admitted { .. } => "admitted",
            Self::Refused { .. } => "refused",
            Self::Unreachable { .. } => "unreachable",
            Self::SendProgress { .. } => "send_progress",
            Self::StoreFailed { .. } => "store_failed",
            Self::SessionLost { .. } => "session_lost",
            Self::MailWaits { .. } => "mail_waits",
            Self::MailLost { .. } => "mail_lost",
            Self::MailEnded { .. } => "mail_ended",
            Self::MailHolds { .. } => "mail_holds",
            Self::MailHolders { .. } => "mail_holders",
            Self::Missed { .. } => "missed",
        }
    }
}
