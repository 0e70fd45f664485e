//! The stores under measurement.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use overlane_core::store::{Change, Effect, RecordStore};
use overlane_storage_native::vfs::RealVfs;
use overlane_storage_native::{FILES_BUDGET_BYTES, FilesStore, JournalConfig, JournalStore};
use redb::{Durability, ReadableDatabase as _, TableDefinition};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// One 4 KiB block written in place and flushed: what no store can beat one at a time.
    Flush,
    /// The journal, with segments that no run fills.
    Journal,
    /// The journal as a node has it: at these rates a checkpoint is always running.
    JournalCheckpointing,
    /// One file a record.
    Files,
    /// fjall, a batch, `fdatasync`.
    Fjall,
    /// redb, a transaction, `Durability::Immediate`.
    Redb,
    /// SQLite, WAL, synchronous FULL.
    Sqlite,
}

impl Kind {
    pub(crate) const ALL: [Self; 7] = [
        Self::Flush,
        Self::Journal,
        Self::JournalCheckpointing,
        Self::Files,
        Self::Fjall,
        Self::Redb,
        Self::Sqlite,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Journal => "journal",
            Self::JournalCheckpointing => "journal_checkpointing",
            Self::Files => "files",
            Self::Fjall => "fjall",
            Self::Redb => "redb",
            Self::Sqlite => "sqlite",
        }
    }

    pub(crate) fn open(self, folder: &Path) -> anyhow::Result<Box<dyn Store>> {
        let vfs = Arc::new(RealVfs);
        Ok(match self {
            Self::Flush => Box::new(Flush::open(folder)?),
            Self::Journal => {
                let config = JournalConfig {
                    segments: 8,
                    segment_bytes: 64 * 1024 * 1024,
                    ..JournalConfig::default()
                };
                Box::new(Ours(JournalStore::open(vfs, folder, config)?))
            }
            Self::JournalCheckpointing => {
                let config = JournalConfig::default();
                Box::new(Ours(JournalStore::open(vfs, folder, config)?))
            }
            Self::Files => Box::new(Ours(FilesStore::open(vfs, folder, FILES_BUDGET_BYTES)?)),
            Self::Fjall => Box::new(Fjall::open(folder)?),
            Self::Redb => Box::new(Redb::open(folder)?),
            Self::Sqlite => Box::new(Sqlite::open(folder)?),
        })
    }
}

/// A store that makes a batch durable.
pub(crate) trait Store {
    fn write(&mut self, batch: &[Change]) -> anyhow::Result<()>;
}

struct Ours<S>(S);

impl<S: RecordStore> Store for Ours<S> {
    fn write(&mut self, batch: &[Change]) -> anyhow::Result<()> {
        self.0.write(batch).context("write a batch")
    }
}

/// The records of a batch, whole: the stores of others know no deltas.
fn wholes(batch: &[Change]) -> impl Iterator<Item = (&[u8; 20], Vec<u8>)> {
    batch.iter().filter_map(|change| match &change.effect {
        Effect::Write(image) => Some((&change.name.0, image.whole())),
        Effect::Remove => None,
    })
}

struct Flush {
    file: File,
    block: u64,
}

impl Flush {
    const BLOCK: [u8; 4096] = [7; 4096];
    const BLOCKS: u64 = 4096;

    fn open(folder: &Path) -> anyhow::Result<Self> {
        let file = File::create_new(folder.join("blocks"))?;
        for block in 0..Self::BLOCKS {
            file.write_all_at(&[0; 4096], block * 4096)?;
        }
        file.sync_all()?;
        Ok(Self { file, block: 0 })
    }
}

impl Store for Flush {
    fn write(&mut self, _batch: &[Change]) -> anyhow::Result<()> {
        self.block = (self.block + 1) % Self::BLOCKS;
        self.file.write_all_at(&Self::BLOCK, self.block * 4096)?;
        Ok(self.file.sync_data()?)
    }
}

struct Fjall {
    database: Database,
    records: Keyspace,
}

impl Fjall {
    fn open(folder: &Path) -> anyhow::Result<Self> {
        let database = Database::builder(folder).open()?;
        let records = database.keyspace("records", KeyspaceCreateOptions::default)?;
        Ok(Self { database, records })
    }
}

impl Store for Fjall {
    fn write(&mut self, batch: &[Change]) -> anyhow::Result<()> {
        let mut write = self
            .database
            .batch()
            .durability(Some(PersistMode::SyncData));
        for (name, whole) in wholes(batch) {
            write.insert(&self.records, name, whole);
        }
        Ok(write.commit()?)
    }
}

struct Redb(redb::Database);

const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");

impl Redb {
    fn open(folder: &Path) -> anyhow::Result<Self> {
        let database = redb::Database::create(folder.join("records.redb"))?;
        database.begin_read()?;
        Ok(Self(database))
    }
}

impl Store for Redb {
    fn write(&mut self, batch: &[Change]) -> anyhow::Result<()> {
        let mut write = self.0.begin_write()?;
        write.set_durability(Durability::Immediate)?;
        {
            let mut records = write.open_table(RECORDS)?;
            for (name, whole) in wholes(batch) {
                records.insert(name.as_slice(), whole.as_slice())?;
            }
        }
        Ok(write.commit()?)
    }
}

struct Sqlite(rusqlite::Connection);

impl Sqlite {
    fn open(folder: &Path) -> anyhow::Result<Self> {
        let connection = rusqlite::Connection::open(folder.join("records.sqlite"))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.execute_batch(
            "CREATE TABLE records (name BLOB PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID",
        )?;
        Ok(Self(connection))
    }
}

impl Store for Sqlite {
    fn write(&mut self, batch: &[Change]) -> anyhow::Result<()> {
        let write = self.0.transaction()?;
        {
            let mut put = write.prepare_cached("INSERT OR REPLACE INTO records VALUES (?1, ?2)")?;
            for (name, whole) in wholes(batch) {
                put.execute((name.as_slice(), whole.as_slice()))?;
            }
        }
        Ok(write.commit()?)
    }
}
