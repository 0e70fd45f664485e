//! Deliberately broken rules. A checker that does not find each of them is itself broken. Only a
//! build with the feature `mutants` can choose one.

/// One rule, broken.
#[cfg_attr(
    not(feature = "mutants"),
    expect(unreachable_pub, reason = "public where the tables can be broken")
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutant {
    /// The acknowledgement beside a DROP is the one of when the frame leaves, not of when the drop
    /// was decided.
    LateStamp,
    /// A drop that has seen exactly the newest mention is ignored.
    StrictlyLater,
    /// A mention of what the peer has a name for already is not recorded.
    NoBump,
    /// A REVOKE counts as a mention.
    RevokeMentions,
    /// A dropped name is forgotten at once.
    NoTombstones,
    /// The acknowledgement of a soft REVOKE removes the name.
    SoftDeletes,
    /// A hard REVOKE removes the name before it is acknowledged.
    HardForgets,
    /// Ids are used again after they were freed.
    ReuseIds,
    /// A REVOKE that crosses a DROP is forgotten (the seed as it is written).
    TombstoneForgets,
    /// A revoked object is introduced without a word of it.
    SilentIntroduction,
    /// Messages overtake those that come back through a resolution.
    NoHold,
    /// What a frame says is acknowledged when it arrives.
    AckOnReceipt,
    /// A promise's name is forgotten before its RESOLVE is acknowledged.
    RetireAtOnce,
    /// An acknowledgement alone is believed although frames before it are missing.
    AckAcrossGap,
    /// The first part of a split answer acknowledges.
    FirstPartAcks,
    /// A repeated mention of a promise is not recorded.
    NoPromiseBump,
    /// A promise is dropped while messages that the peer sent to it may be on their way.
    DropInFlight,
    /// Others are told an outcome while earlier messages may still come back.
    ToldEarly,
    /// Outcomes that mention each other keep each other.
    NoMarkPass,
    /// A frame that arrives again is counted again.
    DuplicatesCount,
}

/// A set of [`Mutant`]s.
#[cfg(feature = "mutants")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Mutants(u32);

#[cfg(feature = "mutants")]
impl Mutants {
    pub(super) fn of(mutants: &[Mutant]) -> Self {
        Self(mutants.iter().fold(0, |set, &one| set | 1 << one as u32))
    }

    pub(super) fn contains(self, mutant: Mutant) -> bool {
        self.0 & 1 << mutant as u32 != 0
    }
}
