//! What is said about mail, on its way: one queue a node, a few of it with the lanes at a time.
//!
//! Nothing said here is lost for good: deposits and reconciliations are begun again by those who want them,
//! so what finds no room is dropped and counted.

use std::collections::{BTreeMap, VecDeque};

use overlane_core::transaction::Data;
use overlane_core::{Did, TransactionDigest, TxId};

use super::super::session::SESSION_SENDS;
use super::super::{Outgoing, Peer, Receipt, SendError, SendId};
use super::wire::Said;
use overlane_core::replay::Now;

/// Messages about mail to one node that its lane has not taken.
pub const SAYING_AT_ONCE: usize = 16;

/// Bytes that wait for one node.
pub const SAYING_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Bytes that wait for all.
pub const SAYING_ALL_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Digests of what was said, so that a report of it is nobody else's.
const OWN_RECENT_MAX: usize = 1_024;

/// The send ids that neither a driver, the ring, references nor sessions give.
const OWN_SENDS: u64 = 1 << 60;

// A send's result is told by its id to who sent it: no id is of two.
const _: () = assert!(OWN_SENDS + (OWN_SENDS - 1) < SESSION_SENDS);

/// What is on its way.
#[derive(Debug, Default)]
pub(super) struct Out {
    seed: [u8; 32],
    drawn: u64,
    on_their_way: BTreeMap<SendId, Did>,
    to: BTreeMap<Did, Lane>,
    bytes: usize,
    recent: VecDeque<TransactionDigest>,
    pub(super) dropped: u64,
}

#[derive(Debug, Default)]
struct Lane {
    queue: VecDeque<Data>,
    bytes: usize,
    on_its_way: usize,
}

impl Out {
    pub(super) fn new(seed: [u8; 32]) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.to.is_empty()
    }

    fn queue(&mut self, to: Did, data: Data) {
        let bytes = data.as_bytes().len();
        let lane = self.to.entry(to).or_default();
        if lane.bytes + bytes > SAYING_MAX_BYTES || self.bytes + bytes > SAYING_ALL_MAX_BYTES {
            self.dropped += 1;
            return;
        }
        lane.bytes += bytes;
        self.bytes += bytes;
        lane.queue.push_back(data);
    }

    /// The next message to this node that may go to its lane.
    fn next(&mut self, to: Did) -> Option<(SendId, TxId, Data)> {
        let lane = self.to.get_mut(&to)?;
        if lane.on_its_way >= SAYING_AT_ONCE {
            return None;
        }
        let Some(data) = lane.queue.pop_front() else {
            if lane.on_its_way == 0 {
                self.to.remove(&to);
            }
            return None;
        };
        let bytes = data.as_bytes().len();
        lane.bytes = lane.bytes.saturating_sub(bytes);
        self.bytes = self.bytes.saturating_sub(bytes);
        lane.on_its_way += 1;
        let id = SendId(OWN_SENDS | self.drawn);
        let name = blake3::keyed_hash(&self.seed, &self.drawn.to_be_bytes());
        self.drawn = self.drawn.wrapping_add(1) % OWN_SENDS;
        let name = name.as_bytes().first_chunk().copied().unwrap_or_default();
        self.on_their_way.insert(id, to);
        Some((id, TxId(name), data))
    }

    /// One is in its lane, or lost. Whose turn it is.
    fn said(&mut self, id: SendId, result: &Result<Receipt, SendError>) -> Option<Did> {
        let to = self.on_their_way.remove(&id)?;
        if let Some(lane) = self.to.get_mut(&to) {
            lane.on_its_way = lane.on_its_way.saturating_sub(1);
            if matches!(result, Err(SendError::Unreachable { .. })) {
                // What waits goes nowhere either.
                self.dropped += lane.queue.len() as u64;
                self.bytes = self.bytes.saturating_sub(lane.bytes);
                lane.queue.clear();
                lane.bytes = 0;
            }
        }
        if let Ok(receipt) = result {
            if self.recent.len() >= OWN_RECENT_MAX {
                self.recent.pop_front();
            }
            self.recent.push_back(receipt.digest);
        }
        Some(to)
    }
}

impl Peer {
    /// Says this to another node.
    pub(super) fn say_of_mail(&mut self, to: Did, said: &Said, now: Now) {
        match said.to_data() {
            Some(data) => {
                self.mail.out.queue(to, data);
                self.pump_mail(to, now);
            }
            None => self.mail.out.dropped += 1,
        }
    }

    pub(super) fn pump_mail(&mut self, to: Did, now: Now) {
        while let Some((id, name, data)) = self.mail.out.next(to) {
            if let Err(error) = self.check_send(to, now) {
                self.sent(id, Err(error));
                continue;
            }
            let outgoing = Outgoing::new(to, data, name);
            if self.outbound.begin(to, outgoing.data_bytes()) {
                self.begin_send(id, outgoing, now);
            } else {
                self.sent(id, Err(SendError::TooManyPending));
            }
        }
    }

    /// Whether a send is one of these; its result is nobody else's.
    pub(in crate::peer) fn said_of_mail(
        &mut self,
        id: SendId,
        result: &Result<Receipt, SendError>,
    ) -> bool {
        match self.mail.out.said(id, result) {
            Some(to) => {
                self.mail.freed.insert(to);
                true
            }
            None => false,
        }
    }

    /// Whether this was said about mail not long ago.
    pub(super) fn is_said_of_mail(&self, digest: &TransactionDigest) -> bool {
        self.mail.out.recent.contains(digest)
    }
}
