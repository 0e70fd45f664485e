//! What a store holds of groups.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use overlane_core::group::{GroupId, GroupKey, Roster};
use overlane_core::identity::{Signer, Verified, VerifyContext};
use overlane_core::seal::{SealingKey, SealingSecret};
use overlane_core::wire::cbor::from_slice;
use overlane_core::{Coded, Did, Fault, NetworkId};
use overlane_relay::log::group::GroupRules;
use overlane_relay::log::{LogId, LogStore, Logs, Numbering, Retention, Row};
use zeroize::Zeroizing;

use super::book::Group;
use super::earlier::{EarlierRow, Kept};
use super::leaving::Leaving;
use super::rows::{
    COMPLETE_ROWS, EARLIER_ROWS, FLOOR_ROWS, GROUP_ROWS, GroupRow, HOME_ROWS, KEY_ROWS,
    LEAVING_ROWS, LEFT_ROWS, MEMBER_ROWS, of_key,
};
use super::{GONE_MS, GroupCounters, Groups};
use crate::peer::Now;

/// Who a node is, for its groups.
#[derive(Debug)]
pub struct Own {
    /// What it signs with.
    pub signer: Arc<Signer>,
    /// What opens what is sealed to its account; none for an account of a kind that has no such key.
    pub secret: Option<SealingSecret>,
    /// 32 bytes drawn at random for this start: nonces and keys come from them.
    pub seed: Zeroizing<[u8; 32]>,
}

/// The store of logs holds what are no groups, or cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// It cannot be read.
    #[error("the store of logs cannot be read: {cause}")]
    Store {
        /// What it said.
        cause: String,
    },
    /// A row is not what this node wrote.
    #[error("the store of logs cannot be trusted: a row of a group does not read ({key})")]
    Corrupt {
        /// The row's key, in hexadecimal.
        key: String,
    },
}

impl Coded for OpenError {
    fn code(&self) -> &'static str {
        match self {
            Self::Store { .. } => "group/store_unreadable",
            Self::Corrupt { .. } => "group/store_corrupt",
        }
    }

    fn fault(&self) -> Fault {
        Fault::StoreFailedClosed
    }
}

impl<S: LogStore> Groups<S> {
    /// The groups that `store` holds.
    ///
    /// # Errors
    /// [`OpenError`]
    pub fn open(mut store: S, own: Own, now: Now) -> Result<Self, OpenError> {
        let (did, network) = (own.signer.did(), own.signer.network());
        let mut rules = GroupRules::new(network, Retention::GROUP);
        let groups = read(&mut store, did, network, own.secret.as_ref(), &mut rules)?;
        let left = rows(&mut store, LEFT_ROWS)?;
        let left = left.iter().filter_map(|(key, _)| Some(of_key(key)?.0));
        let left: BTreeSet<_> = left.collect();
        let mut leaving = BTreeMap::new();
        for (key, value) in rows(&mut store, LEAVING_ROWS)? {
            let read = of_key(&key).zip(from_slice::<Leaving>(&value).ok());
            let ((log, _), row) = read.ok_or_else(|| corrupt(&key))?;
            leaving.insert(log, row);
        }
        let logs = Logs::open(store, rules).map_err(|error| OpenError::Store {
            cause: error.to_string(),
        })?;
        let mut this = Self {
            did,
            network,
            signer: own.signer,
            secret: own.secret,
            logs,
            groups,
            left,
            leaving,
            seed: own.seed,
            drawn: 0,
            lines: BTreeMap::new(),
            strays: 0,
            waiting: 0,
            held: Vec::new(),
            out: VecDeque::new(),
            opened_ms: now.steady_ms,
            maintain_ms: now.steady_ms,
            host_gone_ms: GONE_MS,
            ahead_ms: now.wall_ms.saturating_sub(now.steady_ms),
            failure: None,
            counters: GroupCounters::default(),
        };
        let logs: Vec<_> = this.groups.keys().copied().collect();
        for log in logs {
            // It may have ended before all that waited was numbered.
            let numbers = this.logs.numbering(&log);
            if let Some(group) = this.groups.get_mut(&log) {
                group.numbers_waiting = matches!(numbers, Ok(Numbering::Own));
            }
            this.set_courses(log, now);
        }
        Ok(this)
    }
}

fn read<S: LogStore>(
    store: &mut S,
    did: Did,
    network: NetworkId,
    secret: Option<&SealingSecret>,
    rules: &mut GroupRules,
) -> Result<BTreeMap<LogId, Group>, OpenError> {
    let mut groups = BTreeMap::new();
    for (key, value) in rows(store, GROUP_ROWS)? {
        let group = group(network, &key, &value, rules);
        let (log, group) = group.ok_or_else(|| corrupt(&key))?;
        groups.insert(log, group);
    }
    for (key, value) in rows(store, KEY_ROWS)? {
        let read = of_key(&key).and_then(|(log, epoch)| {
            let epoch = u64::from_be_bytes(epoch.try_into().ok()?);
            let key = GroupKey::unwrap(GroupId(log.0), epoch, did, secret?, &value).ok()?;
            Some((log, key))
        });
        let (log, epoch_key) = read.ok_or_else(|| corrupt(&key))?;
        if let Some(group) = groups.get_mut(&log) {
            group.keys.insert(epoch_key.epoch(), epoch_key);
        }
    }
    for (key, value) in rows(store, MEMBER_ROWS)? {
        let read = of_key(&key).and_then(|(log, member)| {
            let member = Did(member.try_into().ok()?);
            let sealing = SealingKey::from_bytes(value.as_slice().try_into().ok()?);
            Some((log, member, sealing))
        });
        let (log, member, sealing) = read.ok_or_else(|| corrupt(&key))?;
        if let Some(group) = groups.get_mut(&log) {
            group.members.insert(member, sealing);
        }
    }
    for (key, value) in rows(store, COMPLETE_ROWS)? {
        let read = of_key(&key).and_then(|(log, _)| Some((log, value.as_slice().try_into().ok()?)));
        let (log, to) = read.ok_or_else(|| corrupt(&key))?;
        if let Some(group) = groups.get_mut(&log) {
            group.complete_to = u64::from_be_bytes(to);
        }
    }
    for (key, value) in rows(store, FLOOR_ROWS)? {
        let read = of_key(&key).and_then(|(log, _)| Some((log, value.as_slice().try_into().ok()?)));
        let (log, floor) = read.ok_or_else(|| corrupt(&key))?;
        if let Some(group) = groups.get_mut(&log) {
            group.floor = u64::from_be_bytes(floor);
        }
    }
    for (key, value) in rows(store, HOME_ROWS)? {
        let read = of_key(&key).and_then(|(log, _)| Some((log, value.as_slice().try_into().ok()?)));
        let (log, home) = read.ok_or_else(|| corrupt(&key))?;
        if let Some(group) = groups.get_mut(&log) {
            group.home = Some(Did(home));
        }
    }
    for (log, group) in &mut groups {
        // Of one group at a time: together they may be large.
        let earlier = store.rows(&super::rows::key(EARLIER_ROWS, log, &[]));
        for (key, value) in earlier.map_err(unreadable)? {
            let read = earlier_roster(&key, &value);
            let (epoch, kept) = read.ok_or_else(|| corrupt(&key))?;
            group.earlier.put(epoch, kept);
        }
    }
    Ok(groups)
}

fn earlier_roster(key: &[u8], value: &[u8]) -> Option<(u64, Kept)> {
    let (_, epoch) = of_key(key)?;
    let epoch = u64::from_be_bytes(epoch.try_into().ok()?);
    let row: EarlierRow = from_slice(value).ok()?;
    let roster: Roster = from_slice(&row.roster).ok()?;
    let kept = Kept {
        revision: roster.subject().revision(),
        bytes: row.roster.len(),
        last: row.last,
    };
    Some((epoch, kept))
}

/// A group as it was kept. Its roster was verified when it came, so it is read as of its own
/// beginning; whether it is over by now is looked at where it counts.
fn group(
    network: NetworkId,
    key: &[u8],
    value: &[u8],
    rules: &mut GroupRules,
) -> Option<(LogId, Group)> {
    let (log, _) = of_key(key)?;
    let row: GroupRow = from_slice(value).ok()?;
    let mut group = Group::new(row);
    if let Some(bytes) = &group.row.roster {
        let roster: Roster = from_slice(bytes).ok()?;
        let now_ms = roster.life().issued_ms;
        let roster = Verified::verify(roster, &VerifyContext { network, now_ms }).ok()?;
        if rules.set_roster(roster.clone()).ok()? != log {
            return None;
        }
        group.roster = Some(roster);
    }
    Some((log, group))
}

fn rows<S: LogStore>(store: &mut S, kind: u8) -> Result<Vec<Row>, OpenError> {
    store.rows(&[kind]).map_err(unreadable)
}

fn unreadable(error: impl std::fmt::Display) -> OpenError {
    OpenError::Store {
        cause: error.to_string(),
    }
}

fn corrupt(key: &[u8]) -> OpenError {
    OpenError::Corrupt {
        key: hex::encode(key),
    }
}
