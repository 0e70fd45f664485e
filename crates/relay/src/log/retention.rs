//! How much of a log is kept.

/// What makes room in a full log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The oldest envelope goes: of whoever has most, for an author that has less than its fair share of
    /// the log, its bound divided by the number of authors; of its own, for one that has it.
    Oldest,
    /// Whoever has most gives way to whoever has least, by the slot that brought it and then by the
    /// author. Where all have as much, nothing new comes in. For logs of few entries.
    Fair,
}

/// The bounds of one log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Envelopes.
    pub entries: u64,
    /// Bytes of envelopes.
    pub bytes: u64,
    /// How long an envelope is kept since it came, in milliseconds.
    pub age_ms: u64,
    /// What makes room.
    pub full: Full,
}

impl Retention {
    /// What a group's log has unless its host decides otherwise: a million envelopes, 4 GiB, 90 days.
    pub const GROUP: Self = Self {
        entries: 1_048_576,
        bytes: 4 << 30,
        age_ms: 90 * 24 * 3_600 * 1_000,
        full: Full::Oldest,
    };
}
