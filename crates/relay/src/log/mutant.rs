//! Deliberately broken rules. A suite that does not find each of them is itself broken. Only a build
//! with the feature `mutants` can choose one.

/// One rule, broken.
#[cfg_attr(
    not(feature = "mutants"),
    expect(unreachable_pub, reason = "public where the logs can be broken")
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutant {
    /// An envelope is acknowledged when it arrives.
    AckAtOnce,
    /// The answer leaves before its pushes.
    AnswerFirst,
    /// Who lost its access is pushed what it asked for before.
    ServeTheRemoved,
    /// A question is answered although the last answer was not taken.
    AnswerTheUnread,
    /// A member may bring what another wrote.
    AnyAuthor,
    /// Whoever wrote the oldest envelope makes room.
    OldestOfAnyone,
    /// A plan is answered with the envelopes themselves.
    PushThePlanned,
    /// What waits for the number of a host that is asked no more is let go of.
    LoseTheWaiting,
    /// Whoever wrote something has a share of the log of its own.
    OneShareEach,
    /// Any number of a host's is taken.
    AnyNumber,
    /// A holder that leaves takes a reconciliation that ran before for one of all that it holds.
    HandOnWhatWasNotAsked,
    /// What waits is read from the store whenever it is counted.
    CountTheStored,
    /// What a log has more than is kept of it stays until something comes.
    TrimNothing,
    /// The store is read anew for each envelope that makes room.
    ReadForEach,
    /// Every name of a log is read for each question in the space that its holders share.
    LoadTheShared,
}
