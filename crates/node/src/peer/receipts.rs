//! Admission receipts: asked for by the origin, signed by the destination, each a message of the node's own.
//!
//! Law **durable first**: a receipt is signed of what the engine released as admitted, which is durable, or of
//! what a window holds while nothing is on its way to the store. Law **bounded**: what is remembered, what
//! waits to be answered and what is waited for have a bound each; beyond it the oldest is forgotten, and
//! whoever still wants a receipt asks again. Law **fair** (`owed`): nobody's questions push out those of an
//! origin that has fewer waiting.
//!
//! Only the origin of a transaction is answered. Source: protocol decision 4 (what a verdict is).

mod owed;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use overlane_core::identity::{Life, Statement, Verified};
use overlane_core::receipt::{
    self, AdmissionReceipt, AdmissionSubject, Entered, RECEIPT_TTL_MAX_MS,
};
use overlane_core::replay::Now;
use overlane_core::transaction::{Data, Message, Namespace};
use overlane_core::wire::cbor::{CborError, Decode, Encode, Reader, Writer, from_slice, to_vec};
use overlane_core::{Class, Did, StreamKey, TransactionDigest};

use super::{Delivery, Effect, Peer, SendId};

pub use owed::RECEIPTS_OWED_MAX;

use owed::Owed;

/// The namespace of messages about receipts.
pub const RECEIPTS_NAMESPACE: &str = "overlane/receipts";

/// Admissions that are remembered, with how and when.
pub const ADMISSIONS_REMEMBERED_MAX: usize = 4_096;

/// Receipts that are waited for at once.
pub const RECEIPTS_WAITED_MAX: usize = 256;

/// Names an admission: its stream, sequence and digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Admission {
    /// The stream.
    pub stream: StreamKey,
    /// The sequence.
    pub sequence: u64,
    /// The transaction's digest.
    pub digest: TransactionDigest,
}

/// What a message about receipts says.
enum Said {
    /// `[0, class, sequence, digest]`: is this of yours admitted?
    Ask(Class, u64, TransactionDigest),
    /// `[1, receipt]`.
    Receipt(Box<AdmissionReceipt>),
}

/// What a peer keeps for receipts.
#[derive(Debug, Default)]
pub(super) struct Receipts {
    remembered: BTreeMap<Admission, (Entered, u64)>,
    order: VecDeque<Admission>,
    owed: Owed,
    waited: BTreeSet<Admission>,
    on_their_way: BTreeSet<SendId>,
}

impl Peer {
    /// Asks the destination of a transaction of this node's for its receipt, which comes as
    /// [`Effect::Receipt`] once, if ever. `false` where as many are waited for as may be.
    #[must_use]
    pub fn ask_receipt(&mut self, of: Admission, now: Now) -> bool {
        let waited = &mut self.receipts.waited;
        if !waited.contains(&of) && waited.len() >= RECEIPTS_WAITED_MAX {
            return false;
        }
        waited.insert(of);
        let ask = Said::Ask(of.stream.class, of.sequence, of.digest);
        self.say_of_receipts(of.stream.destination, &ask, now);
        self.settle(now);
        true
    }

    /// Waits for the receipt no longer.
    pub fn give_up_receipt(&mut self, of: &Admission) {
        self.receipts.waited.remove(of);
    }

    /// Questions that wait, receipts that are waited for, and admissions that are remembered.
    pub fn receipts(&self) -> (usize, usize, usize) {
        let Receipts {
            remembered,
            owed,
            waited,
            ..
        } = &self.receipts;
        (owed.len(), waited.len(), remembered.len())
    }

    /// A transaction was admitted, durably: it is remembered, and whoever asked is answered.
    pub(super) fn remember_admitted(&mut self, admitted: &Delivery, now: Now) {
        let Some(entered) = Entered::of(admitted.verdict()) else {
            return;
        };
        let payload = admitted.item();
        if super::is_reserved(&payload.message()) {
            return;
        }
        let of = Admission {
            stream: payload.stream(),
            sequence: payload.sequence(),
            digest: payload.digest(),
        };
        let receipts = &mut self.receipts;
        receipts.remembered.insert(of, (entered, now.wall_ms));
        receipts.order.push_back(of);
        if receipts.order.len() > ADMISSIONS_REMEMBERED_MAX
            && let Some(oldest) = receipts.order.pop_front()
        {
            receipts.remembered.remove(&oldest);
        }
        if receipts.owed.take(&of) {
            self.answer_receipt(of, entered, now.wall_ms, now);
        }
    }

    /// Takes an admitted message about receipts.
    pub(super) fn handle_receipts(&mut self, from: Did, body: &[u8], now: Now) {
        match from_slice(body) {
            Ok(Said::Ask(class, sequence, digest)) => {
                let stream = StreamKey {
                    network: self.network,
                    origin: from,
                    destination: self.did,
                    class,
                };
                let of = Admission {
                    stream,
                    sequence,
                    digest,
                };
                self.owe_receipt(of, now);
            }
            Ok(Said::Receipt(signed)) => self.take_receipt(*signed, now),
            Err(_) => self.counters.unclaimed = self.counters.unclaimed.saturating_add(1),
        }
    }

    fn owe_receipt(&mut self, of: Admission, now: Now) {
        if let Some(&(entered, durable_ms)) = self.receipts.remembered.get(&of) {
            return self.answer_receipt(of, entered, durable_ms, now);
        }
        // While something is on its way to the store, a window may hold what is not durable yet.
        let record = self.engine.receiver(&of.stream);
        let held = record.and_then(|record| record.window.at(of.sequence));
        if held == Some(of.digest) && self.engine.pending() == 0 {
            return self.answer_receipt(of, Entered::Before, now.wall_ms, now);
        }
        let forgotten = self.receipts.owed.note(of);
        let counter = &mut self.counters.receipts_forgotten;
        *counter = counter.saturating_add(u64::from(forgotten));
    }

    fn answer_receipt(&mut self, of: Admission, entered: Entered, durable_ms: u64, now: Now) {
        let subject = AdmissionSubject {
            stream: of.stream,
            sequence: of.sequence,
            digest: of.digest,
            entered,
            durable_ms,
        };
        let life = Life {
            issued_ms: now.wall_ms,
            ttl_ms: RECEIPT_TTL_MAX_MS,
        };
        match Statement::sign(subject, &self.signer, life) {
            Ok(signed) => {
                let said = Said::Receipt(Box::new(signed));
                self.say_of_receipts(of.stream.origin, &said, now);
            }
            Err(error) => tracing::error!(%error, "no receipt can be signed"),
        }
    }

    /// A receipt counts if it is asked for, and its destination's.
    fn take_receipt(&mut self, signed: AdmissionReceipt, now: Now) {
        let subject = signed.subject();
        let of = Admission {
            stream: subject.stream,
            sequence: subject.sequence,
            digest: subject.digest,
        };
        let checked = receipt::verify(signed, now.wall_ms);
        match checked {
            Ok(receipt) if self.receipts.waited.remove(&of) => {
                let receipt = Box::new(receipt);
                self.effects.push_back(Effect::Receipt { of, receipt });
            }
            _ => self.counters.unclaimed = self.counters.unclaimed.saturating_add(1),
        }
    }

    /// A message about receipts is in a lane, or lost: whoever misses it asks again.
    pub(super) fn is_of_receipts(&mut self, id: SendId) -> bool {
        self.receipts.on_their_way.remove(&id)
    }

    fn say_of_receipts(&mut self, to: Did, said: &Said, now: Now) {
        let body = to_vec(said);
        let message = Message::Application {
            namespace: Namespace::new(RECEIPTS_NAMESPACE).unwrap_or_default(),
            body: &body,
        };
        match Data::parse(to_vec(&message)) {
            Ok(data) => {
                let id = self.next_own_send();
                self.receipts.on_their_way.insert(id.0);
                self.say_own(id, to, data, now);
            }
            Err(error) => tracing::error!(%error, "a message about receipts is none"),
        }
    }
}

/// A receipt that was waited for.
pub type ReceivedReceipt = Box<Verified<AdmissionReceipt>>;

impl Encode for Said {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Ask(class, sequence, digest) => {
                writer
                    .array(4)
                    .uint(0)
                    .value(class)
                    .uint(*sequence)
                    .value(digest);
            }
            Self::Receipt(receipt) => {
                writer.array(2).uint(1).value(&**receipt);
            }
        }
    }
}

impl<'a> Decode<'a> for Said {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let items = reader.array()?;
        let at = reader.at();
        match (items, reader.u8()?) {
            (4, 0) => Ok(Self::Ask(reader.value()?, reader.uint()?, reader.value()?)),
            (2, 1) => Ok(Self::Receipt(Box::new(reader.value()?))),
            _ => Err(Reader::invalid(at, "a message about receipts")),
        }
    }
}
