//! What a node counts.

use std::collections::BTreeMap;

/// Counts since the node started. Each only rises. What the replay engine counts, verdicts and
/// batches, is counted there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Payload frames that arrived on links.
    pub frames_received: u64,
    /// Chunks of messages among them.
    pub chunks_received: u64,
    /// Admitted messages that the application took.
    pub dispatched: u64,
    /// Admitted messages in a namespace that the node keeps for itself, and has no use for.
    pub unclaimed: u64,
    /// Admitted control messages of the ring, which no application takes.
    pub ring_received: u64,
    /// Admitted messages of the node's own, of mail, groups, references and receipts, which no
    /// application takes.
    pub own_received: u64,
    /// Questions for a receipt that were forgotten, because as many waited as may.
    pub receipts_forgotten: u64,
    /// Handlers that were ended because they took longer than they may.
    pub handlers_late: u64,
    /// Handlers that panicked.
    pub handlers_broken: u64,
    /// Messages signed and put in a lane.
    pub sent: u64,
    /// Messages that were sealed to their destination.
    pub sealed: u64,
    /// Admitted messages that were sealed, and opened.
    pub opened: u64,
    /// Destinations that were asked for the keys they are sealed to.
    pub keys_asked: u64,
    /// Control messages of the ring signed and put in a lane.
    pub ring_sent: u64,
    /// Signed messages put in a lane again.
    pub offered_again: u64,
    /// Messages of others that were passed on, by class.
    pub forwarded: BTreeMap<&'static str, u64>,
    /// Messages of this node's that a node on the way said do not arrive, by code.
    pub unreachable: BTreeMap<&'static str, u64>,
    /// Offers of links by way of the ring that were declined before they were looked at, by code.
    pub offers_declined: BTreeMap<&'static str, u64>,
    /// Messages dropped on their way without a report, because reports are paced.
    pub unreported: u64,
    /// Transactions of which it is not remembered any more what became of them.
    pub stories_forgotten: u64,
    /// Links closed to make room for others.
    pub links_evicted: u64,
    /// Links closed as they came up, because every connection slot was taken.
    pub links_without_slot: u64,
    /// Refused frames by code.
    pub refused: BTreeMap<&'static str, u64>,
    /// Links cut for what their peer sent, by the refusal's code.
    pub links_cut: BTreeMap<&'static str, u64>,
    /// Refused sends by code.
    pub sends_refused: BTreeMap<&'static str, u64>,
}

/// Counts one more under `code`. Codes are constants of this program, so the table is bounded.
pub(super) fn count(table: &mut BTreeMap<&'static str, u64>, code: &'static str) {
    let counter = table.entry(code).or_default();
    *counter = counter.saturating_add(1);
}
