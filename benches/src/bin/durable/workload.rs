//! Admissions as the replay engine would stage them.

use std::sync::Arc;

use overlane_core::store::{Change, Effect, Image, RecordName, Step};
use overlane_core::wire::cbor::Writer;

/// How many streams the admissions are spread over.
pub(crate) const STREAMS: u64 = 16_384;

const SLOTS: usize = 32;
/// Odd, so that stepping by it visits every stream.
const STRIDE: u64 = 6_007;
const PRELOAD_BATCH: u64 = 4_096;

type Digest = [u8; 32];

/// A full receiver window and what belongs to it.
#[derive(Debug, Clone)]
struct Stream {
    name: RecordName,
    version: u64,
    high: u64,
    window: [Digest; SLOTS],
}

/// A stream after one admission.
#[derive(Debug)]
struct Admitted {
    stream: Stream,
}

/// The streams, and which one is next.
pub(crate) struct Workload {
    streams: Vec<Stream>,
    turn: u64,
}

impl Workload {
    pub(crate) fn new() -> Self {
        let stream = |index: u64| Stream {
            name: RecordName::of(&index.to_be_bytes()),
            version: 1,
            high: 1 << 40,
            window: std::array::from_fn(|slot| digest(index, slot as u64)),
        };
        Self {
            streams: (0..STREAMS).map(stream).collect(),
            turn: 0,
        }
    }

    /// Every stream's record, in batches.
    pub(crate) fn preload(&self) -> Vec<Vec<Change>> {
        let change = |stream: &Stream| Change {
            name: stream.name,
            effect: Effect::Write(Arc::new(Admitted {
                stream: stream.clone(),
            })),
        };
        let batches = self.streams.chunks(PRELOAD_BATCH as usize);
        batches
            .map(|streams| streams.iter().map(change).collect())
            .collect()
    }

    /// One admission on each of the next `count` streams.
    pub(crate) fn next_batch(&mut self, count: usize) -> Vec<Change> {
        (0..count).filter_map(|_| self.admit()).collect()
    }

    fn admit(&mut self) -> Option<Change> {
        self.turn += 1;
        let index = self.turn.wrapping_mul(STRIDE) % STREAMS;
        let stream = self.streams.get_mut(index as usize)?;
        stream.high += 1;
        stream.version += 1;
        let slot = (stream.high % SLOTS as u64) as usize;
        *stream.window.get_mut(slot)? = digest(index, stream.high);
        Some(Change {
            name: stream.name,
            effect: Effect::Write(Arc::new(Admitted {
                stream: stream.clone(),
            })),
        })
    }

    pub(crate) fn record_bytes() -> usize {
        let workload = Self::new();
        let stream = workload.streams.first().cloned();
        stream.map_or(0, |stream| Admitted { stream }.whole().len())
    }
}

impl Image for Admitted {
    fn whole(&self) -> Vec<u8> {
        let Stream {
            name,
            version,
            high,
            window,
        } = &self.stream;
        let mut writer = Writer::new();
        writer.array(6).uint(0).bytes(&name.0).uint(*version);
        writer.uint(*high).array(window.len());
        for digest in window {
            writer.bytes(digest);
        }
        writer.uint(1_700_000_000_000);
        writer.into_bytes()
    }

    fn version(&self) -> u64 {
        self.stream.version
    }

    fn delta_into(&self, into: &mut Vec<u8>) -> Option<Step> {
        let Stream {
            version,
            high,
            window,
            ..
        } = &self.stream;
        let slot = (high % SLOTS as u64) as usize;
        let from = version.checked_sub(1).filter(|from| *from > 0)?;
        let mut writer = Writer::append(std::mem::take(into));
        writer.array(2).uint(from).array(1).array(5).uint(0);
        writer.uint(*high).bytes(window.get(slot)?);
        writer.uint(1_700_000_000_000).boolean(false);
        *into = writer.into_bytes();
        Some(Step { from, to: *version })
    }
}

/// Bytes that no compression shortens, cheap to make.
fn digest(stream: u64, sequence: u64) -> Digest {
    let mut state = stream.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ sequence;
    let mut digest = [0; 32];
    for chunk in digest.chunks_mut(8) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        chunk.copy_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes());
    }
    digest
}
