//! The receiver's window: what one stream remembers of what it admitted.
//!
//! Law (window): a sequence is admitted at most once, and one that the window can no longer
//! speak for is refused. The window is the highest admitted sequence and the digests admitted in
//! the [`WINDOW_SLOTS`] sequences that end there; [`Window::classify`] is a function of these
//! alone. Source: seed 1, "Receiver state machine".

use crate::ids::TransactionDigest;

/// Slots of a window: how far below the highest admitted sequence a late one may arrive.
pub const WINDOW_SLOTS: usize = 32;

const SLOTS: u64 = WINDOW_SLOTS as u64;
const NO_DIGEST: TransactionDigest = TransactionDigest([0; 32]);

const _: () = assert!(WINDOW_SLOTS == u32::BITS as usize, "one bit a slot");

/// What a window says of one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is retained of the stream; this transaction is its baseline.
    First,
    /// The sequence is above every admitted one. A gap is no evidence of omission.
    Advance {
        /// How many sequences were passed over.
        gap: u64,
    },
    /// The sequence fills an empty slot inside the window.
    Late,
    /// The very transaction was admitted before.
    Replay,
    /// Another transaction was admitted under this sequence: its origin signed both.
    Fork {
        /// The admitted one.
        accepted: TransactionDigest,
        /// This one.
        offered: TransactionDigest,
    },
    /// The sequence is below the window.
    Stale {
        /// The lowest sequence the window still speaks for.
        lowest: u64,
    },
}

impl Verdict {
    /// Whether the window admits what it judged so.
    pub const fn admits(self) -> bool {
        matches!(self, Self::First | Self::Advance { .. } | Self::Late)
    }

    /// The verdict's one name, in logs, metrics and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Advance { .. } => "advance",
            Self::Late => "late",
            Self::Replay => "replay",
            Self::Fork { .. } => "fork",
            Self::Stale { .. } => "stale",
        }
    }
}

/// The digests admitted in the last [`WINDOW_SLOTS`] sequences of one stream.
///
/// A sequence keeps its place (`sequence mod 32`) while the window moves, so a move costs what
/// it passes over and no more.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Window {
    high: u64,
    /// Bit `age` is set when the sequence `high - age` was admitted. Bit 0 always is.
    occupied: u32,
    /// By place. [`NO_DIGEST`] where no sequence of the window was admitted, so that equal
    /// windows are equal values.
    digests: [TransactionDigest; WINDOW_SLOTS],
}

/// What [`Window::from_parts`] refuses: parts that no sequence of admissions leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWindow {
    /// The highest sequence is not among the admitted ones.
    #[error("the highest sequence is not admitted")]
    HighNotAdmitted,
    /// An admitted slot lies below sequence zero.
    #[error("a slot below sequence zero is admitted")]
    BelowZero,
    /// The digests are not as many as the admitted slots.
    #[error("{digests} digests for {slots} admitted slots")]
    DigestCount {
        /// How many digests there are.
        digests: usize,
        /// How many slots are admitted.
        slots: usize,
    },
}

impl Window {
    /// The window of a stream whose baseline is this transaction.
    pub fn first(sequence: u64, digest: TransactionDigest) -> Self {
        let mut window = Self {
            high: sequence,
            occupied: 1,
            digests: [NO_DIGEST; WINDOW_SLOTS],
        };
        window.put(sequence, digest);
        window
    }

    /// Judges a transaction and changes nothing.
    pub fn classify(&self, sequence: u64, digest: TransactionDigest) -> Verdict {
        if let Some(above) = sequence.checked_sub(self.high).filter(|above| *above > 0) {
            return Verdict::Advance { gap: above - 1 };
        }
        let age = self.high - sequence;
        if age >= SLOTS {
            let lowest = self.lowest();
            return Verdict::Stale { lowest };
        }
        match self.at(sequence) {
            None => Verdict::Late,
            Some(accepted) if accepted == digest => Verdict::Replay,
            Some(accepted) => Verdict::Fork {
                accepted,
                offered: digest,
            },
        }
    }

    /// Judges a transaction, and admits it if the verdict does.
    pub fn observe(&mut self, sequence: u64, digest: TransactionDigest) -> Verdict {
        let verdict = self.classify(sequence, digest);
        match verdict {
            Verdict::Advance { gap } => self.advance(gap, sequence, digest),
            Verdict::Late => {
                self.occupied |= self.bit(sequence);
                self.put(sequence, digest);
            }
            Verdict::First | Verdict::Replay | Verdict::Fork { .. } | Verdict::Stale { .. } => {}
        }
        verdict
    }

    /// The highest admitted sequence.
    pub const fn high(&self) -> u64 {
        self.high
    }

    /// The lowest sequence the window speaks for.
    pub const fn lowest(&self) -> u64 {
        self.high.saturating_sub(SLOTS - 1)
    }

    /// What was admitted under this sequence, while the window speaks for it.
    pub fn at(&self, sequence: u64) -> Option<TransactionDigest> {
        (self.occupied & self.bit(sequence) != 0)
            .then(|| self.digests.get(place(sequence)).copied())
            .flatten()
    }

    /// The admitted sequences with their digests, highest first.
    pub fn admitted(&self) -> impl Iterator<Item = (u64, TransactionDigest)> + '_ {
        (0..SLOTS)
            .map_while(|age| self.high.checked_sub(age))
            .filter_map(|sequence| self.at(sequence).map(|digest| (sequence, digest)))
    }

    /// Bit `age` says whether the sequence `high - age` was admitted.
    pub const fn occupied(&self) -> u32 {
        self.occupied
    }

    /// The window with these parts; `digests` belong to the set bits of `occupied`, the highest
    /// sequence first.
    ///
    /// # Errors
    /// [`InvalidWindow`] for parts that no admissions lead to.
    pub fn from_parts(
        high: u64,
        occupied: u32,
        digests: &[TransactionDigest],
    ) -> Result<Self, InvalidWindow> {
        let ages = (0..SLOTS).filter(|age| occupied >> age & 1 == 1);
        if occupied & 1 == 0 {
            return Err(InvalidWindow::HighNotAdmitted);
        }
        let slots = usize::try_from(occupied.count_ones()).unwrap_or(WINDOW_SLOTS);
        if slots != digests.len() {
            return Err(InvalidWindow::DigestCount {
                digests: digests.len(),
                slots,
            });
        }
        let mut window = Self {
            high,
            occupied,
            digests: [NO_DIGEST; WINDOW_SLOTS],
        };
        for (age, digest) in ages.zip(digests) {
            let sequence = high.checked_sub(age).ok_or(InvalidWindow::BelowZero)?;
            window.put(sequence, *digest);
        }
        Ok(window)
    }

    fn advance(&mut self, gap: u64, sequence: u64, digest: TransactionDigest) {
        for passed in 0..gap.min(SLOTS) {
            self.put(sequence - 1 - passed, NO_DIGEST);
        }
        self.occupied = u32::try_from(gap.saturating_add(1))
            .ok()
            .and_then(|moved| self.occupied.checked_shl(moved))
            .unwrap_or(0)
            | 1;
        self.high = sequence;
        self.put(sequence, digest);
    }

    /// The sequence's bit, or none where the window does not speak for it.
    fn bit(&self, sequence: u64) -> u32 {
        self.high
            .checked_sub(sequence)
            .and_then(|age| u32::try_from(age).ok())
            .and_then(|age| 1u32.checked_shl(age))
            .unwrap_or(0)
    }

    fn put(&mut self, sequence: u64, digest: TransactionDigest) {
        if let Some(slot) = self.digests.get_mut(place(sequence)) {
            *slot = digest;
        }
    }
}

/// Judges a transaction of a stream of which a window may be retained, and admits it if the
/// verdict does.
pub fn observe(window: &mut Option<Window>, sequence: u64, digest: TransactionDigest) -> Verdict {
    match window {
        Some(window) => window.observe(sequence, digest),
        None => {
            *window = Some(Window::first(sequence, digest));
            Verdict::First
        }
    }
}

const fn place(sequence: u64) -> usize {
    (sequence % SLOTS) as usize
}
