//! `replay …`: what an operator asks of the replay store while the node is stopped.
//!
//! Each command holds the home's lock and the store's while it runs, so none runs beside a
//! daemon; and each opens the store that is there, whichever kind it is. Nothing here destroys a
//! record.

mod clear;
mod floor;
mod forks;

use std::time::{SystemTime, UNIX_EPOCH};

use overlane_core::Fault;
use overlane_core::replay::inspect::{self, Bound, Figures, RecordLine, Verified};
use overlane_core::replay::{Now, restored};
use overlane_core::store::RecordName;
use overlane_node::home::{Home, HomeLock};
use overlane_storage_native::vfs::RealVfs;
use overlane_storage_native::{StoreAdmin, StoreSummary, kind_of};

use super::args::Replay;
use super::output::{Done, Failure, Output};

pub(super) use forks::verify_fork;

/// Does what was asked of the store.
pub(super) fn replay(home: &Home, asked: &Replay, output: &Output) -> Result<Done, Failure> {
    let mut opened = Opened::of(home)?;
    match asked {
        Replay::List => list(&mut opened, output),
        Replay::Show { name } => show(&mut opened, *name, output),
        Replay::Verify => verify(&mut opened, output),
        Replay::Clear { name, yes } => clear::clear(&mut opened, *name, *yes, output),
        Replay::Floor { reset } => floor::floor(&mut opened, *reset, output),
        Replay::Forks(asked) => forks::forks(&mut opened, asked.export.as_deref(), output),
    }
}

/// The store of a stopped node.
pub(super) struct Opened {
    pub(super) store: Box<dyn StoreAdmin>,
    // Dropped after the store.
    _lock: HomeLock,
}

impl Opened {
    /// Opens it.
    pub(super) fn of(home: &Home) -> Result<Self, Failure> {
        home.require_account()?;
        let lock = home.lock()?;
        let path = home.store_path();
        let kind = kind_of(&RealVfs, &path)?.ok_or_else(|| {
            let message = format!("there is no replay store in {} yet", path.display());
            Failure::new("replay/no_store", Fault::Usage, message)
        })?;
        Ok(Self {
            store: home.open_store(kind)?,
            _lock: lock,
        })
    }
}

/// This instant, for what is restored only to be looked at.
pub(super) fn now() -> Now {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let wall_ms = since.map_or(0, |since| since.as_millis());
    Now {
        wall_ms: u64::try_from(wall_ms).unwrap_or(u64::MAX),
        steady_ms: 0,
    }
}

fn list(opened: &mut Opened, output: &Output) -> Result<Done, Failure> {
    let scan = opened.store.scan()?;
    if scan.records.is_empty() && !output.json {
        output.line("the store holds no records")?;
    }
    for (name, found) in scan.records {
        let line = RecordLine::of(name, &restored(name, found));
        output.answer(&line, RecordLine::in_words)?;
    }
    Ok(Done::Yes)
}

fn show(opened: &mut Opened, name: RecordName, output: &Output) -> Result<Done, Failure> {
    let record = restored(name, opened.store.show(name)?);
    output.answer(&inspect::full(name, &record), |full| {
        let words = RecordLine::of(name, &record).in_words();
        format!("{words}\n{}", inspect::indented(full))
    })?;
    Ok(Done::Yes)
}

fn verify(opened: &mut Opened, output: &Output) -> Result<Done, Failure> {
    let scan = opened.store.scan()?;
    let mut verified = Verified::new(figures(&opened.store.summary()));
    for (name, found) in scan.records {
        verified.count(name, &restored(name, found));
    }
    output.answer(&verified, |verified| {
        verified.in_words(&format!("{} replay clear NAME", output.overlane))
    })?;
    Ok(if verified.bad.is_empty() {
        Done::Yes
    } else {
        Done::No
    })
}

fn figures(summary: &StoreSummary) -> Figures {
    Figures {
        kind: summary.kind.name(),
        path: summary.folder.display().to_string(),
        records: summary.records,
        bound: Bound::Bytes {
            held_bytes: summary.held_bytes,
            budget_bytes: summary.budget_bytes,
        },
        foreign_entries: summary.foreign_entries,
        cleared_kept: summary.cleared_kept,
    }
}
