//! Whether the device is asked to flush: a memory file system, or a disk that is told to
//! ignore flushes, gives rates that mean nothing.

use std::path::Path;

/// The flush requests that the device under this folder has completed; `None` where the
/// platform does not say, as for a partition.
#[cfg(target_os = "linux")]
pub(crate) fn flushes(folder: &Path) -> Option<u64> {
    use std::os::linux::fs::MetadataExt as _;
    // Field 16 of a block device's `stat` (kernel documentation, block/stat).
    const FLUSH_FIELD: usize = 15;
    let device = std::fs::metadata(folder).ok()?.st_dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let stat = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    let flushes = stat.split_whitespace().nth(FLUSH_FIELD)?.parse().ok()?;
    (flushes > 0).then_some(flushes)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn flushes(_folder: &Path) -> Option<u64> {
    None
}
