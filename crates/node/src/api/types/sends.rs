//! What the local API takes and answers: what is sent, and what is known of it then.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::super::inbox::ArrivedReport;
use super::super::names::ClassName;
use super::Refusal;

/// A message to sign and send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SendRequest {
    /// The destination: 40 hexadecimal digits, or `did:key:z…`.
    pub destination: String,
    /// What the message is about, for the application at the other end.
    pub namespace: String,
    /// The traffic class.
    #[serde(default)]
    pub class: ClassName,
    /// The body, in hexadecimal.
    pub body: String,
    /// Whether an application's message is sent as it is, and not sealed to its destination.
    #[serde(default)]
    pub plain: bool,
    /// Whether the answer waits until the message is delivered, or held for a destination that is away.
    /// Only what is sealed is held.
    #[serde(default)]
    pub hold: bool,
    /// How long to wait for a link to the destination.
    #[serde(default)]
    pub wait_ms: u64,
    /// How long to wait for the destination's receipt; 0 asks for none.
    #[serde(default)]
    pub receipt_ms: u64,
}

/// A large message to sign and send; its body follows this line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UploadRequest {
    /// The destination: 40 hexadecimal digits, or `did:key:z…`.
    pub destination: String,
    /// What the message is about, for the application at the other end.
    pub namespace: String,
    /// The traffic class.
    #[serde(default)]
    pub class: ClassName,
    /// Whether an application's message is sent as it is, and not sealed to its destination.
    #[serde(default)]
    pub plain: bool,
    /// How long to wait for a link to the destination.
    #[serde(default)]
    pub wait_ms: u64,
    /// How long to wait for the destination's receipt; 0 asks for none.
    #[serde(default)]
    pub receipt_ms: u64,
}

/// A step of an upload. The last is how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum UploadLine {
    /// How far the message came into its lane.
    Progress {
        /// Bytes in the lane.
        placed_bytes: u64,
        /// Bytes in all.
        total_bytes: u64,
    },
    /// It is in its lane whole. The signed bytes are empty if they are longer than a frame.
    Sent(SendReceipt),
    /// It was refused.
    Refused(Refusal),
}

/// Signed bytes to offer again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OfferAgainRequest {
    /// The signed bytes, in hexadecimal, as a [`SendReceipt`] had them.
    pub signed: String,
    /// How long to wait for a link to the destination.
    #[serde(default)]
    pub wait_ms: u64,
    /// How long to wait for the destination's receipt; 0 asks for none.
    #[serde(default)]
    pub receipt_ms: u64,
}

/// What is known here once a message has been signed and handed to its lane. Whether the
/// destination admitted it, is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SendReceipt {
    /// The message's stream.
    pub stream: String,
    /// Its sequence in the stream.
    pub sequence: u64,
    /// The transaction's digest.
    pub digest: String,
    /// The signed bytes.
    pub signed: String,
    /// Whether nothing had been heard of the peer behind the link for a while.
    #[serde(default)]
    pub disturbed: bool,
    /// Where the message is, if it was to be delivered or held.
    #[serde(default)]
    pub arrived: Option<ArrivedReport>,
    /// The destination's signed word that it admitted the message, in hexadecimal, if it was asked for and
    /// came.
    #[serde(default)]
    pub receipt: Option<String>,
    /// What became of it since, as far as is known; `None` where `arrived` says more.
    #[serde(default)]
    pub outcome: Option<SendOutcome>,
}

/// What became of a message after a lane took it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum SendOutcome {
    /// A link of the destination's own has it.
    Placed,
    /// A neighbour has it, and the destination is there.
    PassedOn {
        /// Hops to the destination.
        hops: u8,
    },
    /// A node on the way says that it does not arrive.
    Unreachable {
        /// Why, as a code.
        error: String,
        /// The node where the way ended.
        reporter: String,
    },
    /// A neighbour has it; neither a report nor an answer of the destination came in time.
    Unanswered,
}
