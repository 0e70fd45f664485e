//! A node's record store: the production journal on a disk in memory that crashes.

use std::path::Path;

use overlane_core::replay::Batch;
use overlane_core::store::{RecordStore, Scan, StoreError};
use overlane_storage_native::disk::{Disk, FaultKind, FaultPlan, Image, Seeded};
use overlane_storage_native::{JOURNAL_BUDGET_BYTES, JournalConfig, JournalStore, Pace};

/// Where the store lies.
const FOLDER: &str = "/home/replay";

/// Short segments, so that a run of some minutes turns them and compacts them.
const SEGMENT_BYTES: usize = 64 * 1024;
const SEGMENTS: usize = 3;

/// Effects after which the disk forgets what no crash can lose.
const EFFECTS_KEPT: usize = 256;

/// A store, open or closed, and its disk.
#[derive(Debug)]
pub(super) struct SimStore {
    disk: Disk,
    journal: Option<JournalStore>,
    /// What the disk held some batches ago; `None` where nobody will ask.
    earlier: Option<Image>,
    batches: u64,
}

impl SimStore {
    /// `forgetful`: the disk will once have lied about what it flushed.
    pub(super) fn new(forgetful: bool) -> Self {
        Self {
            disk: Disk::new(),
            journal: None,
            earlier: forgetful.then(Image::default),
            batches: 0,
        }
    }

    /// Opens the store and reads everything once.
    ///
    /// # Errors
    /// As the journal says.
    pub(super) fn open(&mut self) -> Result<Scan, StoreError> {
        let config = JournalConfig {
            budget_bytes: JOURNAL_BUDGET_BYTES,
            segments: SEGMENTS,
            segment_bytes: SEGMENT_BYTES,
            pace: Pace::Stepped { records: 2 },
            ..JournalConfig::default()
        };
        self.journal = None;
        let mut journal = JournalStore::open(self.disk.vfs(), Path::new(FOLDER), config)?;
        let scan = journal.scan()?;
        self.journal = Some(journal);
        Ok(scan)
    }

    /// Makes a batch durable.
    ///
    /// # Errors
    /// As the journal says.
    pub(super) fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let Some(journal) = &mut self.journal else {
            let cause = "the store is closed".to_owned();
            return Err(StoreError::Poisoned { cause });
        };
        journal.write(&batch.changes)?;
        self.batches += 1;
        // Files of which there is a second image are copied by the next write.
        if let Some(earlier) = self
            .earlier
            .as_mut()
            .filter(|_| self.batches.is_multiple_of(8))
        {
            *earlier = self.disk.image();
        }
        if self.disk.position() > EFFECTS_KEPT {
            self.disk.forget_settled();
        }
        Ok(())
    }

    /// The process ends in order.
    pub(super) fn close(&mut self) {
        if let Some(mut journal) = self.journal.take() {
            // A failure here is the next opening's to find.
            let _ = journal.seal();
        }
    }

    /// The process ends at once; the system goes on. `batch`, if any, was handed to the platform.
    pub(super) fn kill(&mut self, batch: Option<&Batch>) {
        if let Some(batch) = batch {
            let _ = self.write(batch);
        }
        self.journal = None;
    }

    /// The power fails, at some effect of writing `batch` if one was on its way, and else at rest.
    pub(super) fn cut(&mut self, batch: Option<&Batch>, chance: &mut Seeded) {
        let from = self.disk.position();
        if let (Some(batch), Some(journal)) = (batch, &mut self.journal) {
            let _ = journal.write(&batch.changes);
        }
        self.crash(from, chance);
    }

    /// The power fails while the store is being opened.
    pub(super) fn cut_while_opening(&mut self, chance: &mut Seeded) {
        let from = self.disk.position();
        let _ = self.open();
        self.crash(from, chance);
    }

    /// As [`cut`](Self::cut), and the disk had lied: what it flushed some batches ago is all there
    /// is.
    pub(super) fn cut_with_a_forgetful_disk(&mut self) {
        self.journal = None;
        if let Some(earlier) = &self.earlier {
            self.disk = Disk::from_image(earlier);
        }
    }

    fn crash(&mut self, from: usize, chance: &mut Seeded) {
        self.journal = None;
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

/// What the disk shows after the power failed at some effect from this one on.
pub(super) fn crashed(disk: &Disk, from: usize, chance: &mut Seeded) -> Disk {
    let effects = disk.position().saturating_sub(from);
    let count = u64::try_from(effects).unwrap_or(u64::MAX);
    let at = usize::try_from(chance.below(count.saturating_add(1))).unwrap_or(effects);
    Disk::from_image(&disk.recording().crash_image(from + at, chance))
}

/// A call that will fail, soon.
pub(super) fn plan(chance: &mut Seeded) -> FaultPlan {
    let kinds = [
        FaultKind::Io,
        FaultKind::NoSpace,
        FaultKind::FileFlush,
        FaultKind::Short,
        FaultKind::Interrupted,
    ];
    let drawn = usize::try_from(chance.below(5)).unwrap_or_default();
    let kind = kinds.get(drawn).copied().unwrap_or(FaultKind::Io);
    FaultPlan {
        kind,
        at: 1 + chance.below(3),
        for_good: matches!(kind, FaultKind::Io | FaultKind::NoSpace),
    }
}
