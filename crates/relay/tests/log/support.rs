//! Accounts, a log whose envelopes name their author in the clear, and a network that delivers at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use overlane_core::Did;
use overlane_relay::log::testkit::MemoryLogs;
use overlane_relay::log::{
    Access, Allowance, EnvelopeId, Event, Frame, Full, Judged, LogId, Logs, Peer, Refusal,
    Retention, Rules, Transmit,
};

pub(crate) const LOG: LogId = LogId([7; 32]);
pub(crate) const NOW_MS: u64 = 1_700_000_000_000;

pub(crate) fn did(seed: u8) -> Did {
    Did([seed; 20])
}

pub(crate) fn peer(seed: u8) -> Peer {
    Peer {
        account: did(seed),
        slot: u32::from(seed),
    }
}

/// An envelope of this author: its Did, then anything.
pub(crate) fn envelope(author: u8, number: u64) -> Vec<u8> {
    let mut bytes = did(author).0.to_vec();
    bytes.extend(number.to_be_bytes());
    bytes
}

pub(crate) fn id_of(envelope: &[u8]) -> EnvelopeId {
    overlane_recon::Id(*blake3::hash(envelope).as_bytes())
}

/// Members and holders by name; an envelope is by whom it says.
#[derive(Debug, Clone)]
pub(crate) struct Plain {
    pub(crate) members: BTreeSet<Did>,
    pub(crate) holders: BTreeSet<Did>,
    pub(crate) retention: Retention,
    pub(crate) refused: BTreeSet<EnvelopeId>,
    pub(crate) slot_bytes: u64,
    pub(crate) allowance: Allowance,
    pub(crate) expires_ms: u64,
    /// Who has a share of its own, if not everybody.
    pub(crate) shares: Option<BTreeSet<Did>>,
}

pub(crate) const ROOMY: Retention = Retention {
    entries: 100_000,
    bytes: 1 << 30,
    age_ms: 1_000_000,
    full: Full::Oldest,
};

impl Plain {
    pub(crate) fn of(members: &[u8], holders: &[u8]) -> Self {
        Self {
            members: members.iter().map(|it| did(*it)).collect(),
            holders: holders.iter().map(|it| did(*it)).collect(),
            retention: ROOMY,
            refused: BTreeSet::new(),
            slot_bytes: u64::MAX,
            allowance: Allowance::default(),
            expires_ms: u64::MAX,
            shares: None,
        }
    }
}

impl Rules for Plain {
    fn access(&self, log: &LogId, peer: &Did) -> Access {
        match () {
            () if *log != LOG => Access::None,
            () if self.holders.contains(peer) => Access::Holder,
            () if self.members.contains(peer) => Access::Member,
            () => Access::None,
        }
    }

    fn retention(&self, _: &LogId) -> Retention {
        self.retention
    }

    fn allowance(&self) -> Allowance {
        self.allowance
    }

    fn has_share(&self, _: &LogId, author: &Did) -> bool {
        self.shares.as_ref().is_none_or(|it| it.contains(author))
    }

    fn slot_bytes(&self) -> u64 {
        self.slot_bytes
    }

    fn judge(
        &mut self,
        log: &LogId,
        envelope: &[u8],
        from: &Did,
        _: u64,
    ) -> Result<Judged, Refusal> {
        let (id, author) = (id_of(envelope), envelope.first_chunk().copied().map(Did));
        match author {
            Some(author) if !self.refused.contains(&id) => Ok(Judged {
                id,
                author,
                expires_ms: self.expires_ms,
            }),
            _ => Err(Refusal::NotHere {
                log: *log,
                peer: *from,
            }),
        }
    }
}

pub(crate) type Node = Logs<MemoryLogs, Plain>;

pub(crate) fn node(rules: Plain) -> Node {
    Logs::open(MemoryLogs::default(), rules).unwrap()
}

/// All frames a node owes now.
pub(crate) fn owed(node: &mut Node) -> Vec<Transmit> {
    std::iter::from_fn(|| node.poll_transmit().unwrap()).collect()
}

pub(crate) fn events(node: &mut Node) -> Vec<Event> {
    std::iter::from_fn(|| node.poll_event()).collect()
}

pub(crate) fn send(node: &mut Node, from: u8, envelope: &[u8]) {
    let frame = Frame::Send { log: LOG, envelope }.to_bytes();
    node.handle_frame(peer(from), &frame, NOW_MS).unwrap();
}

/// The words of frames: enough to tell them apart.
pub(crate) fn words(frames: &[Transmit]) -> Vec<String> {
    let word = |it: &Transmit| match Frame::from_bytes(&it.frame).unwrap() {
        Frame::Send { .. } => "send".to_owned(),
        Frame::SendAck { seq, .. } => format!("ack {seq}"),
        Frame::Push { seq, .. } => format!("push {seq}"),
        Frame::Recon { .. } => "recon".to_owned(),
        Frame::Refuse { code, .. } => code.to_owned(),
        Frame::Named { .. } => "named".to_owned(),
    };
    frames.iter().map(word).collect()
}

/// Nodes whose frames arrive in order.
pub(crate) struct Mesh {
    pub(crate) nodes: BTreeMap<u8, Node>,
    /// Frames so far, and their bytes without envelopes.
    pub(crate) recon_frames: usize,
    pub(crate) recon_bytes: usize,
}

impl Mesh {
    pub(crate) fn of(nodes: impl IntoIterator<Item = (u8, Node)>) -> Self {
        Self {
            nodes: nodes.into_iter().collect(),
            recon_frames: 0,
            recon_bytes: 0,
        }
    }

    pub(crate) fn at(&mut self, node: u8) -> &mut Node {
        self.nodes.get_mut(&node).unwrap()
    }

    /// Runs until nobody has anything to say.
    pub(crate) fn settle(&mut self) {
        let mut queue: VecDeque<(u8, Transmit)> = VecDeque::new();
        for _ in 0..10_000 {
            for (name, node) in &mut self.nodes {
                node.flush(NOW_MS).unwrap();
                queue.extend(owed(node).into_iter().map(|it| (*name, it)));
            }
            if queue.is_empty() {
                return;
            }
            while let Some((from, transmit)) = queue.pop_front() {
                if let Ok(Frame::Recon { payload, .. }) = Frame::from_bytes(&transmit.frame) {
                    self.recon_frames += 1;
                    self.recon_bytes += payload.len();
                }
                let to = transmit.to.0[0];
                let to = self.nodes.get_mut(&to).unwrap();
                if to.is_full() {
                    to.flush(NOW_MS).unwrap();
                }
                to.handle_frame(peer(from), &transmit.frame, NOW_MS)
                    .unwrap();
            }
        }
        panic!("they never come to rest");
    }

    /// The envelopes a node holds, by name.
    pub(crate) fn ids(&mut self, node: u8) -> BTreeSet<EnvelopeId> {
        let entries = self.entries(node);
        entries.into_iter().map(|it| it.id).collect()
    }

    pub(crate) fn entries(&mut self, node: u8) -> Vec<overlane_relay::log::Entry> {
        use overlane_relay::log::LogStore;
        let store = self.at(node).store();
        store.entries(&LOG, 0, usize::MAX).unwrap()
    }

    /// How the reconciliations of a node ended.
    pub(crate) fn reports(&mut self, node: u8) -> Vec<overlane_recon::Report> {
        let synced = |event| match event {
            Event::Synced { report, .. } => Some(report),
            _ => None,
        };
        events(self.at(node))
            .into_iter()
            .filter_map(synced)
            .collect()
    }
}
