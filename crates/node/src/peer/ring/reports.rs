//! Reports of messages that did not arrive: sent for others', believed for one's own.
//!
//! Law (a report is believed once): a report names the digest of a transaction; it counts if this node sent
//! that to that destination, by way of others, not long ago, and was not told before. A digest is
//! known to the hops of its message alone, each of which could as well have dropped it. Of a message in
//! chunks a hop sees the chunks alone: their reports are the message's, the first of which tells of it. Law (no report of a report): what answers
//! or reports is dropped without a word, and reports are paced, so that they cannot multiply.

use std::collections::{BTreeMap, VecDeque};

use overlane_core::identity::Verified;
use overlane_core::replay::{Bucket, QuotaLimits};
use overlane_core::ring::{RequestId, RingMessage, WhyUnreachable};
use overlane_core::transaction::{Message, Payload};
use overlane_core::{Coded, Did, StreamKey, TransactionDigest};

use super::super::counters::count;
use super::super::story::Step;
use super::super::{Event, Now, Peer, Receipt, Refusal, SendId};

/// Transactions sent by way of others that a report may name; the oldest is forgotten.
pub const RECENT_MAX: usize = 4_096;

/// Chunks sent by way of others that a report may name; the oldest is forgotten. More than are under way
/// at once.
pub const RECENT_CHUNKS_MAX: usize = 1_024;

/// What reports are paced to; messages beyond it are dropped without one.
pub const REPORTS: QuotaLimits = QuotaLimits {
    messages_per_s: 64,
    burst_messages: 256,
    bytes_per_s: 1 << 20,
    burst_bytes: 1 << 20,
};

/// Reports of one node.
#[derive(Debug)]
pub(super) struct Reports {
    pace: Bucket,
    recent: BTreeMap<TransactionDigest, Recent>,
    order: VecDeque<TransactionDigest>,
    /// The messages of chunks, by the chunks' own digests.
    chunks: BTreeMap<TransactionDigest, TransactionDigest>,
    chunk_order: VecDeque<TransactionDigest>,
}

#[derive(Debug, Clone, Copy)]
struct Recent {
    stream: StreamKey,
    sequence: u64,
    request: Option<RequestId>,
}

impl Reports {
    pub(super) fn new(steady_ms: u64) -> Self {
        Self {
            pace: Bucket::full(&REPORTS, steady_ms),
            recent: BTreeMap::new(),
            order: VecDeque::new(),
            chunks: BTreeMap::new(),
            chunk_order: VecDeque::new(),
        }
    }
}

/// A message that does not arrive.
#[derive(Debug)]
pub(super) struct Undelivered {
    origin: Did,
    destination: Did,
    digest: TransactionDigest,
    reply_via: Option<Did>,
    /// Its origin is told: it neither answers nor reports.
    is_told: bool,
}

impl Undelivered {
    pub(super) fn of(payload: &Verified<Payload>) -> Self {
        Self {
            origin: payload.origin(),
            destination: payload.stream().destination,
            digest: payload.digest(),
            reply_via: payload.relay().reply_via,
            is_told: is_told(&payload.message()),
        }
    }

    /// The same of a frame that this node verified and signed for its next hop.
    pub(super) fn in_frame(receipt: &Receipt) -> Option<Self> {
        let payload = Payload::from_frame(&receipt.signed).ok()?;
        Some(Self {
            origin: receipt.stream.origin,
            destination: receipt.stream.destination,
            digest: receipt.digest,
            reply_via: payload.relay().reply_via,
            is_told: is_told(&payload.transaction().data().message()),
        })
    }
}

fn is_told(message: &Message<'_>) -> bool {
    match message {
        Message::Control(body) if RingMessage::is_ring(body) => {
            RingMessage::from_body(body).is_ok_and(|message| message.asks().is_some())
        }
        _ => true,
    }
}

impl Peer {
    /// A transaction goes to this neighbour: one of this node's own that goes by way of others may be
    /// reported.
    pub(in crate::peer) fn note_sent(&mut self, id: SendId, receipt: &Receipt, neighbour: Did) {
        let stream = &receipt.stream;
        if stream.origin != self.did || stream.destination == neighbour {
            return;
        }
        let request = self.ring_request(id);
        let reports = &mut self.ring.reports;
        if reports.order.len() >= RECENT_MAX
            && let Some(oldest) = reports.order.pop_front()
        {
            reports.recent.remove(&oldest);
        }
        let recent = Recent {
            stream: receipt.stream,
            sequence: receipt.sequence,
            request,
        };
        if reports.recent.insert(receipt.digest, recent).is_none() {
            reports.order.push_back(receipt.digest);
        }
    }

    /// A chunk of the message with this digest goes to a neighbour that is not its destination.
    pub(in crate::peer) fn note_chunk(&mut self, chunk: &Payload, of: TransactionDigest) {
        if chunk.relay().next_hop == chunk.transaction().destination() {
            return;
        }
        let Ok((_, digest)) = chunk.transaction().claims() else {
            return;
        };
        let reports = &mut self.ring.reports;
        if reports.chunk_order.len() >= RECENT_CHUNKS_MAX
            && let Some(oldest) = reports.chunk_order.pop_front()
        {
            reports.chunks.remove(&oldest);
        }
        if reports.chunks.insert(digest, of).is_none() {
            reports.chunk_order.push_back(digest);
        }
    }

    /// Tells the origin that its message does not arrive.
    pub(super) fn report(&mut self, undelivered: &Undelivered, why: WhyUnreachable, now: Now) {
        let Undelivered {
            origin,
            destination,
            digest,
            reply_via,
            is_told,
        } = *undelivered;
        if !is_told || self.ring.ring.is_none() {
            return;
        }
        if origin == self.did {
            // It came back here, and ends here: nobody else tells.
            let told = self.take_report(origin, digest, destination, why, now);
            return told.unwrap_or_default();
        }
        let paced = self.ring.reports.pace.take(&REPORTS, 1, now.steady_ms);
        if paced.is_err() {
            let unreported = &mut self.counters.unreported;
            *unreported = unreported.saturating_add(1);
            return;
        }
        let message = RingMessage::Unreachable {
            digest,
            destination,
            why,
        };
        self.send_control(origin, (reply_via, None), &message, now);
    }

    /// A report came from `reporter`.
    pub(super) fn take_report(
        &mut self,
        reporter: Did,
        digest: TransactionDigest,
        destination: Did,
        why: WhyUnreachable,
        now: Now,
    ) -> Result<(), Refusal> {
        let reports = &mut self.ring.reports;
        let of_chunk = reports.chunks.get(&digest).copied();
        let digest = of_chunk.unwrap_or(digest);
        let known = reports.recent.get(&digest).copied();
        let Some(recent) = known.filter(|recent| recent.stream.destination == destination) else {
            // Another chunk told of the message before.
            return match of_chunk {
                Some(_) if known.is_none() => Ok(()),
                _ => Err(Refusal::UnknownReport { reporter }),
            };
        };
        reports.recent.remove(&digest);
        reports.order.retain(|of| *of != digest);
        count(&mut self.counters.unreachable, why.code());
        let of_mail = recent.request.is_none() && self.mail_unreachable(&digest, now);
        match recent.request.zip(self.ring.ring.as_mut()) {
            Some((request, ring)) => {
                ring.handle_unreachable(request, reporter, why, now.steady_ms);
            }
            // Nobody is to hear of what was said about mail.
            _ if of_mail => {}
            _ => {
                self.note_later(digest, Step::Unreachable { reporter, why }, now);
                self.tell(Event::Unreachable {
                    stream: recent.stream,
                    sequence: recent.sequence,
                    digest,
                    reporter,
                    why,
                });
            }
        }
        Ok(())
    }
}
