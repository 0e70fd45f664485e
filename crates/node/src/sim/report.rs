//! What a simulation tells: a minute at a time, and at its end.

use std::collections::BTreeMap;

use super::check::Violation;
use super::config::SimConfig;
use super::world::World;

/// How far a run came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Faults come and go.
    Faults,
    /// No fault comes any more; links come back.
    Healing,
    /// Every link is back: what is sent now must arrive.
    Healed,
    /// The run is over.
    Over,
}

impl Phase {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Faults => "faults",
            Self::Healing => "healing",
            Self::Healed => "healed",
            Self::Over => "over",
        }
    }
}

/// What happened so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that nodes signed.
    pub signed: u64,
    /// Messages that nodes handed to their applications.
    pub dispatched: u64,
    /// Signed messages that were offered again.
    pub offered_again: u64,
    /// Frames refused, by code.
    pub refused: BTreeMap<&'static str, u64>,
    /// Sends refused, by code.
    pub sends_refused: BTreeMap<&'static str, u64>,
    /// Messages of others that nodes passed on.
    pub forwarded: u64,
    /// Messages whose origin was told that they do not arrive, by code.
    pub unreachable: BTreeMap<&'static str, u64>,
    /// Messages that were sent in place of such as met a congested way, once everything was healed.
    pub sent_in_place: u64,
    /// Offers of links that the ring brought, and that were answered.
    pub offers_answered: u64,
    /// The same, refused or without an answer, by code.
    pub offers_failed: BTreeMap<&'static str, u64>,
    /// Links that were cut at once for what their peer sent, by code.
    pub cut: BTreeMap<&'static str, u64>,
    /// What hostile nodes did.
    pub hostile_acts: u64,
    /// Times at which Zave's invariants were looked at.
    pub rings_checked: u64,
    /// Starts of nodes.
    pub starts: u64,
    /// Nodes that stopped in order.
    pub stops: u64,
    /// Processes that were killed.
    pub kills: u64,
    /// Nodes whose power failed.
    pub power_cuts: u64,
    /// Stores that failed closed.
    pub stores_failed: u64,
    /// Links that came up, both ends counted.
    pub links_up: u64,
    /// Links that went down.
    pub links_down: u64,
    /// Partitions and one-way cuts.
    pub partitions: u64,
    /// Wall clocks that were set wrong.
    pub clocks_set: u64,
    /// What became of mail.
    pub mail: MailCounts,
    /// What became of groups.
    pub groups: GroupCounts,
    /// What became of references.
    pub references: ReferenceCounts,
}

/// What became of references so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReferenceCounts {
    /// Objects that applications shared.
    pub shared: u64,
    /// References that applications were given for a secret.
    pub fetched: u64,
    /// Calls that applications made.
    pub calls: u64,
    /// Calls that were handed to the application they are for.
    pub served: u64,
    /// Answers of theirs that are durable.
    pub answered: u64,
    /// Answers that came to who called.
    pub heard_back: u64,
    /// References that applications let go of.
    pub let_go: u64,
    /// Objects that their owners took back.
    pub taken_back: u64,
    /// References of which their holder heard that they work no longer.
    pub heard: u64,
    /// Calls and fetches that came to nothing, by reason.
    pub broken: BTreeMap<u32, u64>,
    /// What was shared with a node and is lost, by code.
    pub ended: BTreeMap<&'static str, u64>,
    /// Requests of applications that were refused, by code.
    pub refused: BTreeMap<&'static str, u64>,
}

/// What became of groups so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupCounts {
    /// Groups that were made.
    pub groups: u64,
    /// Members and hosts that joined one.
    pub joined: u64,
    /// Members that were removed from one.
    pub removed: u64,
    /// Posts that were durable with who wrote them.
    pub posts: u64,
    /// Posts that came to another than who wrote them, each counted.
    pub came: u64,
    /// Of them, those that were written before the node that they came to was started.
    pub caught_up: u64,
    /// What hostile hosts said that was not so, or kept to themselves.
    pub lies: u64,
    /// Envelopes that members and hosts did not take.
    pub not_taken: u64,
    /// Posts that a host refused, by code.
    pub posts_refused: BTreeMap<String, u64>,
    /// Requests of applications that were refused, by code.
    pub refused: BTreeMap<&'static str, u64>,
}

/// What became of mail so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MailCounts {
    /// Mails that nodes sent.
    pub sent: u64,
    /// Of them, those that their destination said it admitted.
    pub delivered: u64,
    /// Those whose sender was given holders' receipts.
    pub held: u64,
    /// Those that are neither, by code.
    pub not_held: BTreeMap<&'static str, u64>,
    /// Mails that came from holders and wait to be taken; again after a restart, counted again.
    pub waited: u64,
    /// Mails that applications took.
    pub taken: u64,
    /// Mails that applications leave where they are.
    pub left_alone: u64,
    /// Mails that a holder let go of as its owner asked, each holder counted.
    pub let_go: u64,
    /// Mails that a holder left to the holders after it.
    pub handed_on: u64,
    /// Mails that can be admitted no more, by code.
    pub lost: BTreeMap<&'static str, u64>,
    /// What hostile holders dropped, and questions of owners to which they hid it.
    pub dropped: u64,
    /// Mails that hostile nodes brought again or under another time, and said to hold.
    pub brought: u64,
    /// What holders refused, by code.
    pub refused: BTreeMap<String, u64>,
}

/// A simulated minute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Minute {
    /// The seed of the run.
    pub seed: u64,
    /// Which one, from 1.
    pub minute: u64,
    /// What the run is about at its end.
    pub phase: Phase,
    /// Nodes that are up.
    pub nodes_up: usize,
    /// Links that are up, both ends counted.
    pub links: usize,
    /// What happened since the run began.
    pub counts: Counts,
    /// Violations since the run began.
    pub violations: u64,
}

/// A run at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What was run.
    pub config: SimConfig,
    /// How long it was, in simulated milliseconds.
    pub simulated_ms: u64,
    /// How long links took to come back after the last fault; `None` if they did not.
    pub healed_after_ms: Option<u64>,
    /// What happened.
    pub counts: Counts,
    /// How many times a law did not hold.
    pub violations: u64,
    /// The same by law.
    pub by_law: BTreeMap<&'static str, u64>,
    /// The first of them.
    pub first: Vec<Violation>,
    /// Things that happened, and a hash over all of them: two runs of one configuration agree.
    pub steps: u64,
    /// The hash.
    pub trace: String,
}

impl World<'_> {
    /// The minute that is over.
    pub(super) fn minute(&self) -> Minute {
        let running = self.nodes.iter().filter_map(|node| node.running.as_ref());
        let links = running.clone().map(|it| it.peer.links().count()).sum();
        Minute {
            seed: self.config.seed,
            minute: self.now_ms / 60_000,
            phase: self.phase,
            nodes_up: running.count(),
            links,
            counts: self.counts.clone(),
            violations: self.checks.violations,
        }
    }

    /// The run, at its end.
    pub(super) fn report(self) -> Report {
        Report {
            config: self.config,
            simulated_ms: self.now_ms,
            healed_after_ms: self.healed_after_ms,
            counts: self.counts,
            violations: self.checks.violations,
            by_law: self.checks.by_law().clone(),
            first: self.checks.kept,
            steps: self.trace.steps,
            trace: self.trace.hash(),
        }
    }
}
