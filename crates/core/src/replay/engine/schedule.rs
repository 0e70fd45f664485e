//! When to look at a stream again for retirement.
//!
//! A stream waits first for the steady clock (it is *ripe* once the process has run long enough
//! since it used the stream), then for the wall clock (its spent instant). Using a stream does not
//! move it here: it is looked at when its old turn comes, and put back where it belongs then. So
//! an admission costs the schedule nothing, and no stream is looked at twice for one reason.

use std::collections::BTreeSet;

use crate::ids::StreamKey;
use crate::replay::clock::Now;
use crate::replay::spent::RIPE_MS;

/// From when on a stream is ripe that was loaded or used at this instant, by the steady clock.
pub(super) fn ripe_ms(used_ms: u64) -> u64 {
    if mutant!(TrustsTheWallClock) {
        return 0;
    }
    used_ms.saturating_add(RIPE_MS)
}

/// A stream that is still there: its two instants now.
pub(super) struct Due {
    /// From when on it is ripe, by the steady clock.
    pub(super) ripe_ms: u64,
    /// After which it is spent, by the wall clock.
    pub(super) spent_ms: u64,
}

/// Every stream of one table, each at an instant not after its true one.
#[derive(Debug, Clone, Default, Hash)]
pub(super) struct Schedule {
    unripe: BTreeSet<(u64, StreamKey)>,
    ripe: BTreeSet<(u64, StreamKey)>,
}

impl Schedule {
    /// A stream that is ripe at `ripe_ms`, not before.
    pub(super) fn schedule(&mut self, ripe_ms: u64, stream: StreamKey) {
        self.unripe.insert((ripe_ms, stream));
    }

    /// The next stream that is ripe and spent; it leaves the schedule. `due` tells where a stream
    /// stands now, or that it is gone.
    pub(super) fn pop(
        &mut self,
        now: Now,
        due: impl Fn(&StreamKey) -> Option<Due>,
    ) -> Option<StreamKey> {
        while let Some(stream) = take_until(&mut self.unripe, now.steady_ms) {
            self.place(stream, now, due(&stream));
        }
        let spent_until_ms = now.wall_ms.checked_sub(1)?;
        while let Some(stream) = take_until(&mut self.ripe, spent_until_ms) {
            let due = due(&stream);
            match &due {
                Some(at) if at.ripe_ms <= now.steady_ms && at.spent_ms <= spent_until_ms => {
                    return Some(stream);
                }
                _ => self.place(stream, now, due),
            }
        }
        None
    }

    fn place(&mut self, stream: StreamKey, now: Now, due: Option<Due>) {
        match due {
            Some(at) if at.ripe_ms > now.steady_ms => {
                self.unripe.insert((at.ripe_ms, stream));
            }
            Some(at) => {
                self.ripe.insert((at.spent_ms, stream));
            }
            None => {}
        }
    }
}

fn take_until(set: &mut BTreeSet<(u64, StreamKey)>, instant_ms: u64) -> Option<StreamKey> {
    let first = *set.first().filter(|(at_ms, _)| *at_ms <= instant_ms)?;
    set.remove(&first);
    Some(first.1)
}
