//! Reports of messages that did not arrive: sent for others', believed for one's own.
//!
//! Law (a report is believed once): a report names the digest of a transaction; it counts if this node sent
//! that to that destination, by way of others, not long ago, and was not told before. A digest is
//! known to the hops of its message alone, each of which could as well have dropped it. Law (no report of a report): what answers
//! or reports is dropped without a word, and reports are paced, so that they cannot multiply.

use std::collections::{BTreeMap, VecDeque};

use overlane_core::identity::Verified;
use overlane_core::replay::{Bucket, QuotaLimits};
use overlane_core::ring::{RequestId, RingMessage, WhyUnreachable};
use overlane_core::transaction::{Message, Payload};
use overlane_core::{Coded, Did, StreamKey, TransactionDigest};

use super::super::counters::count;
use super::super::{Event, Now, Peer, Receipt, Refusal, SendId};

/// Transactions sent by way of others that a report may name; the oldest is forgotten.
pub const RECENT_MAX: usize = 4_096;

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
        }
    }
}

impl Peer {
    /// A transaction of this node's own goes by way of others.
    pub(in crate::peer) fn note_sent(&mut self, id: SendId, receipt: &Receipt) {
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

    /// Tells the origin that its message does not arrive.
    pub(super) fn report(&mut self, payload: &Verified<Payload>, why: WhyUnreachable, now: Now) {
        let (origin, digest) = (payload.origin(), payload.digest());
        let destination = payload.stream().destination;
        let of_request = match payload.message() {
            Message::Control(body) if RingMessage::is_ring(body) => {
                RingMessage::from_body(body).is_ok_and(|message| message.asks().is_some())
            }
            _ => true,
        };
        if !of_request || self.ring.ring.is_none() {
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
        let via = payload.relay().reply_via;
        self.send_control(origin, (via, None), &message, now);
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
        let known = reports.recent.get(&digest).copied();
        let Some(recent) = known.filter(|recent| recent.stream.destination == destination) else {
            return Err(Refusal::UnknownReport { reporter });
        };
        reports.recent.remove(&digest);
        reports.order.retain(|of| *of != digest);
        count(&mut self.counters.unreachable, why.code());
        match (recent.request, &mut self.ring.ring) {
            (Some(request), Some(ring)) => {
                ring.handle_unreachable(request, reporter, why, now.steady_ms);
            }
            _ => self.tell(Event::Unreachable {
                stream: recent.stream,
                sequence: recent.sequence,
                digest,
                reporter,
                why,
            }),
        }
        Ok(())
    }
}
