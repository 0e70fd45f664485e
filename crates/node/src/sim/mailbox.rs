//! A node's stores of mail, of groups and of references: the production stores on disks in memory that crash.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use overlane_core::{Did, TransactionDigest};
use overlane_relay::inbox::bounds::INBOX_MAILS;
use overlane_relay::log::{LogId, LogStore as _};
use overlane_storage_native::disk::{Disk, Image, Seeded};
use overlane_storage_native::{LogsStore, RefsStore};

use super::check::Kept;
use super::node::NETWORK;
use super::store::{crashed, plan};
use crate::peer::SendId;
use crate::peer::inbox::{Keeper, TakeId, Told, Work};

/// Where a store lies.
const FOLDER: &str = "/home/logs";

/// Effects after which the disk forgets what no crash can lose.
const EFFECTS_KEPT: usize = 256;

/// What a process does on a store of logs.
pub(super) trait OnDisk {
    /// Whether nothing waits to be done.
    fn rests(&self) -> bool;

    /// Does what waits, and tells nobody.
    fn finish(&mut self);

    /// The latest that its node's clock showed when something was done, since this was asked last.
    fn acted_ms(&mut self) -> u64 {
        0
    }
}

/// What outlives the process.
#[derive(Debug, Default)]
pub(super) struct LogsDisk {
    disk: Disk,
    /// What the disk held some flushes ago, for one that forgets.
    earlier: Option<Image>,
    flushes: u64,
    /// The last process ended with nothing on its way to the store.
    pub(super) ended_at_rest: bool,
    /// The latest that the node's clock showed when the last process did something that nobody looked at.
    acted_ms: u64,
}

/// What a node's process has of mail.
#[derive(Debug)]
pub(super) struct Mailroom {
    pub(super) keeper: Keeper<LogsStore>,
    pub(super) work: VecDeque<Work>,
    /// The store's thread is at work, or will be.
    pub(super) due: bool,
    /// Transactions of the store that were looked at.
    pub(super) looked_at: Option<u64>,
    pub(super) takes: BTreeMap<TakeId, TransactionDigest>,
    pub(super) next_take: u64,
    /// Mails on their way, and what they are once they are signed.
    pub(super) sending: BTreeMap<SendId, Option<TransactionDigest>>,
    /// The latest that the node's clock showed when something was done that nobody looked at.
    acted_ms: u64,
}

impl Mailroom {
    pub(super) fn new(keeper: Keeper<LogsStore>) -> Self {
        Self {
            keeper,
            work: VecDeque::new(),
            due: false,
            looked_at: None,
            takes: BTreeMap::new(),
            next_take: 0,
            sending: BTreeMap::new(),
            acted_ms: 0,
        }
    }

    /// Does what waits, up to so much of it, in one transaction.
    pub(super) fn work(&mut self, most: usize) -> Vec<Told> {
        let mut now_ms = 0;
        for work in self.work.drain(..most.min(self.work.len())) {
            now_ms = work.now_ms;
            self.acted_ms = self.acted_ms.max(now_ms);
            self.keeper.handle(work);
        }
        self.keeper.flush(now_ms)
    }

    /// What the store has, if something changed since it was looked at. `None` also of one that failed.
    pub(super) fn look(&mut self) -> Option<BTreeMap<TransactionDigest, Kept>> {
        let inboxes = self.keeper.inboxes();
        let flushes = inboxes.logs().counters().flushes;
        if self.looked_at.replace(flushes) == Some(flushes) {
            return None;
        }
        let mut mails = BTreeMap::new();
        for owner in inboxes.owners() {
            let store = inboxes.logs().store();
            let entries = store.entries(&LogId::inbox(&owner), 0, usize::MAX).ok()?;
            mails.extend(entries.into_iter().map(|it| {
                let until_ms = it.expires_ms;
                (TransactionDigest(it.id.0), Kept { owner, until_ms })
            }));
        }
        Some(mails)
    }
}

impl OnDisk for Mailroom {
    fn rests(&self) -> bool {
        self.work.is_empty()
    }

    fn finish(&mut self) {
        if !self.work.is_empty() {
            self.work(usize::MAX);
        }
    }

    fn acted_ms(&mut self) -> u64 {
        std::mem::take(&mut self.acted_ms)
    }
}

impl LogsDisk {
    /// Opens the store.
    ///
    /// # Errors
    /// As the store says.
    pub(super) fn open_store(&mut self) -> Result<LogsStore, String> {
        let store = LogsStore::open_on(self.disk.vfs(), Path::new(FOLDER));
        store.map_err(|error| error.to_string())
    }

    /// The latest that the node's clock showed when the last process did something that nobody looked at; once.
    pub(super) fn acted_ms(&mut self) -> u64 {
        std::mem::take(&mut self.acted_ms)
    }

    /// Opens the store of references.
    ///
    /// # Errors
    /// As the store says.
    pub(super) fn open_references(&mut self) -> Result<RefsStore, String> {
        let store = RefsStore::open_on(self.disk.vfs(), Path::new(FOLDER));
        store.map_err(|error| error.to_string())
    }

    /// Opens what it has of mail.
    ///
    /// # Errors
    /// As the store says.
    pub(super) fn open_mail(&mut self, own: Did, now_ms: u64) -> Result<Keeper<LogsStore>, String> {
        let keeper = Keeper::open(self.open_store()?, NETWORK, own, INBOX_MAILS, now_ms);
        keeper.map_err(|error| error.to_string())
    }

    /// Something was written; `forgetful` for a disk that will not have.
    pub(super) fn wrote(&mut self, forgetful: bool) {
        self.flushes += 1;
        if forgetful && self.flushes % 32 == 1 {
            self.earlier = Some(self.disk.image());
        }
        if self.disk.position() > EFFECTS_KEPT {
            self.disk.forget_settled();
        }
    }

    /// The process ends in order.
    pub(super) fn close(&mut self, mut room: impl OnDisk) {
        room.finish();
        self.acted_ms = self.acted_ms.max(room.acted_ms());
        self.ended_at_rest = true;
    }

    /// The process ends at once; the system goes on. What waited may have been `handed` to the platform.
    pub(super) fn kill(&mut self, mut room: impl OnDisk, handed: bool) {
        self.ended_at_rest = room.rests();
        if handed {
            room.finish();
        }
        self.acted_ms = self.acted_ms.max(room.acted_ms());
        self.disk.cut_off(|| drop(room));
    }

    /// The power fails, at some effect of what waited to be written, and else at rest.
    pub(super) fn cut(&mut self, mut room: impl OnDisk, chance: &mut Seeded) {
        self.ended_at_rest = room.rests();
        let from = self.disk.position();
        room.finish();
        self.acted_ms = self.acted_ms.max(room.acted_ms());
        self.disk.cut_off(|| drop(room));
        self.disk = crashed(&self.disk, from, chance);
        if let Some(earlier) = &self.earlier {
            self.disk = Disk::from_image(earlier);
        }
    }

    /// The power fails while the store is being opened.
    pub(super) fn cut_while_opening(&mut self, chance: &mut Seeded) {
        self.cut_while(Self::open_store, chance);
    }

    /// The same of a store of references.
    pub(super) fn cut_while_opening_references(&mut self, chance: &mut Seeded) {
        self.cut_while(Self::open_references, chance);
    }

    fn cut_while<S>(&mut self, open: impl FnOnce(&mut Self) -> S, chance: &mut Seeded) {
        let from = self.disk.position();
        let opened = open(self);
        self.disk.cut_off(|| drop(opened));
        self.disk = crashed(&self.disk, from, chance);
    }

    /// Lets a call of the disk fail, soon.
    pub(super) fn fail(&mut self, chance: &mut Seeded) {
        self.disk.fail(plan(chance));
    }

    /// The disk fails no more; whether it had.
    pub(super) fn heal(&mut self) -> bool {
        self.disk.heal()
    }
}
