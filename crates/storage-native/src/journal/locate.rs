//! Where a journal's files hold a record, for tests that harm it there.

use std::ops::Range;

use overlane_core::store::RecordName;

use super::fields::Keys;
use super::frame;
use super::segment::SEGMENT_PREFIX;
use super::snapshot::{self, SNAPSHOT_PREFIX};

/// The bytes of every cell, or block of a snapshot, that this file has of the record.
pub(crate) fn locate(file_name: &str, bytes: &[u8], name: RecordName) -> Vec<Range<usize>> {
    if file_name.starts_with(SEGMENT_PREFIX) {
        return frame::cell_ranges(&Keys::new(), bytes, name);
    }
    if file_name.starts_with(SNAPSHOT_PREFIX) {
        return snapshot::block_range(bytes, name).into_iter().collect();
    }
    Vec::new()
}
