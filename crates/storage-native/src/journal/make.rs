//! Making a journal where there is none.

use std::path::Path;

use overlane_core::store::StoreError;

use super::fields::Keys;
use super::frame::BLOCK_BYTES;
use super::segment::{self, SEGMENT_PREFIX};
use super::snapshot::{self, Header, SNAPSHOT_PREFIX, SnapshotWriter};
use super::{JournalConfig, SEGMENT_BLOCKS_MIN, SEGMENTS_MIN};
use crate::folder::{Folder, StoreKind, TEMP_SUFFIX, kind_lost};
use crate::vfs::{Entry, EntryKind, Vfs, failed, read_whole};

/// What a journal was made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Made {
    pub(super) segments: usize,
    pub(super) blocks: usize,
}

impl Made {
    pub(super) fn of(config: &JournalConfig) -> Self {
        Self {
            segments: config.segments.max(SEGMENTS_MIN),
            blocks: (config.segment_bytes / BLOCK_BYTES).max(SEGMENT_BLOCKS_MIN),
        }
    }

    /// Its last line is a check: a length that changed would hide every frame.
    fn settings(self) -> String {
        let lines = format!("segments {}\nblocks {}\n", self.segments, self.blocks);
        let hash = blake3::derive_key("overlane journal settings", lines.as_bytes());
        let check = hash.iter().take(8).map(|byte| format!("{byte:02x}"));
        format!("{lines}check {}\n", check.collect::<String>())
    }

    /// Reads the settings lines of the `kind` file.
    pub(super) fn from_settings(settings: &str) -> Option<Self> {
        let mut lines = settings.lines();
        let mut next = |key: &str| {
            let value = lines.next()?.strip_prefix(key)?.strip_prefix(' ')?;
            value.parse::<usize>().ok()
        };
        let made = Self {
            segments: next("segments")?,
            blocks: next("blocks")?,
        };
        (made.settings() == settings).then_some(made)
    }
}

/// Makes segments and an empty snapshot, and writes the `kind` file last.
pub(super) fn make(folder: &mut Folder, keys: &Keys, made: Made) -> Result<(), StoreError> {
    segment::create(folder, made.segments, made.blocks)?;
    let name = snapshot::file_name(0);
    let header = Header {
        epoch: 0,
        covered: 0,
        hash: [0; 32],
    };
    let temp = folder.temp_path(&name);
    SnapshotWriter::create(folder.vfs.as_ref(), temp, keys.clone(), header, 0)?.finish()?;
    folder.rename_temp(&name)?;
    folder.flush()?;
    folder.mark_kind(StoreKind::Journal.name(), &made.settings())
}

/// A folder without a `kind` file may hold what a making that was cut short left: segments of
/// zeros and the empty snapshot. Anything else is a journal that lost its `kind` file.
pub(crate) fn refuse_used(
    vfs: &dyn Vfs,
    folder: &Path,
    entries: &[Entry],
) -> Result<(), StoreError> {
    for entry in entries {
        let EntryKind::File { bytes } = entry.kind else {
            continue;
        };
        if entry.name.ends_with(TEMP_SUFFIX) {
            continue;
        }
        let is_segment = entry.name.starts_with(SEGMENT_PREFIX);
        let covered = snapshot::covered_of(&entry.name);
        let fresh = match covered {
            Some(covered) => covered == 0,
            None if is_segment => {
                let path = folder.join(&entry.name);
                let length = usize::try_from(bytes).unwrap_or(usize::MAX);
                let read = read_whole(vfs, &path, length).map_err(failed("read", &path))?;
                read.iter().all(|byte| *byte == 0)
            }
            None => !entry.name.starts_with(SNAPSHOT_PREFIX),
        };
        if !fresh {
            return Err(kind_lost(folder, &entry.name));
        }
    }
    Ok(())
}
