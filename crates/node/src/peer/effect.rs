//! What a peer wants done, and what it tells whoever watches.

use overlane_core::identity::Verified;
use overlane_core::replay::{Admitted, Batch, Verdict};
use overlane_core::ring::{RingAnswer, RingError, WhyUnreachable};
use overlane_core::store::StoreError;
use overlane_core::transaction::Payload;
use overlane_core::{Class, Did, StreamKey, TransactionDigest};
use zeroize::Zeroizing;

use super::{
    Admission, AskId, Heard, Keeper, OfferId, PlaceId, Receipt, ReceivedReceipt, Refusal, SealJob,
    SealTicket, SendError, VerifyJob, VerifyTicket, inbox, refs,
};
use crate::link::LinkId;

/// An admitted message on its way to the application.
pub type Delivery = Admitted<Verified<Payload>>;

/// Names one send until its result is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SendId(pub u64);

/// Something to do. Each is done in the order given.
#[derive(Debug)]
pub enum Effect {
    /// Put the frame in the link's lane, and say with `handle_lane` what became of it. One frame
    /// of a lane is out at a time.
    Send {
        /// The link.
        link: LinkId,
        /// The lane.
        class: Class,
        /// The payload frame.
        frame: Vec<u8>,
    },
    /// Check the signatures, in any order, and answer with `handle_verified`.
    Verify {
        /// What the answer is for.
        ticket: VerifyTicket,
        /// The work; it runs anywhere.
        job: VerifyJob,
    },
    /// Seal or open a message, in any order, and answer with `handle_sealed`.
    Seal {
        /// What the answer is for.
        ticket: SealTicket,
        /// The work; it runs anywhere.
        job: SealJob,
    },
    /// Make the batch durable, and answer with `handle_batch_done`. One is out at a time.
    Write(Batch),
    /// Hand the message to the application; its place is held until `handle_dispatch_taken`.
    Dispatch {
        /// Its place.
        place: PlaceId,
        /// The message's class.
        class: Class,
        /// The message.
        delivery: Box<Delivery>,
    },
    /// Hand a body that came in a session to the application; its place is held until
    /// `handle_dispatch_taken`.
    InSession {
        /// Its place.
        place: PlaceId,
        /// Who sent it.
        from: Did,
        /// What it says.
        body: Zeroizing<Vec<u8>>,
    },
    /// A frame of this lane was taken: its credit goes back.
    Taken {
        /// The link.
        link: LinkId,
        /// The lane.
        class: Class,
    },
    /// Close the link: there is no place for its connection.
    Close {
        /// The link.
        link: LinkId,
    },
    /// Cut the link at once: its peer sent what only a peer that breaks the protocol sends.
    Cut {
        /// The link.
        link: LinkId,
        /// The refusal's code.
        code: &'static str,
    },
    /// The ring needs a link to this node: make an offer ([`Ask::Offer`](super::Ask::Offer)). What
    /// became of it is told with `handle_link_up` or `handle_connect_failed`.
    Connect {
        /// The node.
        peer: Did,
    },
    /// A node offers a link by way of the ring; answer with `handle_offer_answered`.
    Offered {
        /// Names the offer until it is answered.
        offer: OfferId,
        /// Who signed the message that brought it; the offer's own signer is to be the same.
        from: Did,
        /// The linked peer that brought it, whose share it is charged to.
        by: Did,
        /// The signed offer, not verified.
        bytes: Vec<u8>,
    },
    /// What came of a question to another node.
    Asked {
        /// The question.
        id: AskId,
        /// The answer.
        result: Result<RingAnswer, RingError>,
    },
    /// A send's result.
    Sent {
        /// The send.
        id: SendId,
        /// What is known locally.
        result: Result<Receipt, SendError>,
    },
    /// A receipt that was asked for.
    Receipt {
        /// What it is of.
        of: Admission,
        /// The receipt, verified.
        receipt: ReceivedReceipt,
    },
    /// Make the changes of the references durable, and answer with `handle_committed`. One is out at
    /// a time.
    Commit(refs::Commit),
    /// What references tell the application.
    References(refs::Effect),
    /// What a keeper beside the peer hears.
    Keeper(Keeper, Heard),
    /// Give this to the keeper of mail, and say with `handle_kept` what came of it.
    Keep(inbox::Work),
    /// What mail tells the application.
    Mail(inbox::Effect),
    /// Something worth watching.
    Event(Event),
}

/// What happened, for whoever watches. Nothing depends on its being read.
#[derive(Debug, Clone)]
pub enum Event {
    /// A link was admitted.
    LinkUp {
        /// The link.
        link: LinkId,
        /// Who is at its other end.
        peer: Did,
    },
    /// A link is gone.
    LinkDown {
        /// The link.
        link: LinkId,
        /// Who was at its other end.
        peer: Did,
        /// Why.
        reason: String,
    },
    /// A message was admitted and goes to the application.
    Admitted {
        /// Its stream.
        stream: StreamKey,
        /// Its sequence.
        sequence: u64,
        /// Its digest.
        digest: TransactionDigest,
        /// How it entered the window.
        verdict: Verdict,
    },
    /// A frame was refused.
    Refused {
        /// The link it came on.
        link: LinkId,
        /// Who is at its other end.
        peer: Did,
        /// The lane it came on.
        class: Class,
        /// Why.
        refusal: Refusal,
    },
    /// A node on the way says that a message of this node's does not reach its destination.
    Unreachable {
        /// The message's stream.
        stream: StreamKey,
        /// Its sequence.
        sequence: u64,
        /// Its digest.
        digest: TransactionDigest,
        /// Where its way ended.
        reporter: Did,
        /// Why.
        why: WhyUnreachable,
    },
    /// The other side of an E2E session does not know it any more: what was sent in it lately may be lost,
    /// and the next body goes in another.
    SessionLost {
        /// The other side.
        with: Did,
        /// How many bodies were sent in it.
        sent: u64,
    },
    /// A part of a large message is in its lane.
    SendProgress {
        /// The send.
        id: SendId,
        /// Bytes in the lane.
        placed_bytes: u64,
        /// Bytes in all.
        total_bytes: u64,
    },
    /// Something happened to mail.
    Mail(inbox::MailEvent),
    /// The record store failed: this node refuses sends and admissions until it is restarted.
    StoreFailed {
        /// The store's error.
        error: StoreError,
    },
}
