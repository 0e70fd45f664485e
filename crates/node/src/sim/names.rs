//! What a simulation is told by name: its topology, its faults, what hostile nodes do, what is broken.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use overlane_core::ring::RingMutant;

/// An enumeration that is typed and shown by name.
macro_rules! named {
    ($(#[$meta:meta])* $type:ident, $unknown:ident, $what:literal {
        $($(#[$doc:meta])* $variant:ident = $name:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type {
            $($(#[$doc])* $variant,)*
        }

        impl $type {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its one name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }

        impl Named for $type {
            const EVERY: &'static [Self] = Self::ALL;
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $type {
            type Err = $unknown;

            fn from_str(text: &str) -> Result<Self, $unknown> {
                let found = Self::ALL.iter().find(|it| it.name() == text);
                found.copied().ok_or_else(|| $unknown(text.to_owned()))
            }
        }

        #[doc = concat!("No such ", $what, ".")]
        #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
        #[error("{0:?} is no {what}: give one of {all}", what = $what, all = names($type::ALL))]
        pub struct $unknown(pub String);
    };
}

named! {
    /// Who links to whom.
    Topology, UnknownTopology, "topology" {
        /// Nodes join the ring by way of nodes that they are configured with, link to whom their
        /// place needs by offers that others carry, and send to any node over several hops.
        Ring = "ring",
        /// Each node keeps links to the two after it and to one more, joins no ring, and sends
        /// to those it is linked to.
        Mesh = "mesh",
    }
}

named! {
    /// A kind of what goes wrong.
    Fault, UnknownFault, "fault" {
        /// Nodes stop in order, or are killed, and come back some time later.
        Churn = "churn",
        /// The power fails: a node stops at any effect of its store, and what was not durable is
        /// torn, reordered or lost.
        Crash = "crash",
        /// Messages are lost and sent again, so that channels stand still; many losses break a link.
        Loss = "loss",
        /// The network falls into parts, or nothing passes in one direction, for some time.
        Partition = "partition",
        /// An application, a worker or a disk does nothing for some time.
        Stall = "stall",
        /// Calls to a disk fail, and the store with them.
        Disk = "disk",
        /// A wall clock is wrong by more than the allowed skew, ahead or behind, for some time.
        Clock = "clock",
        /// Signed messages are offered again, by their origin or by another, and link control
        /// frames come twice.
        Duplicate = "duplicate",
    }
}

named! {
    /// What a hostile node does while faults come.
    Act, UnknownAct, "hostile act" {
        /// It names neighbours that it does not have, owners that own nothing, and nodes that
        /// nobody is.
        Lies = "lies",
        /// It reports messages that nobody sent as not arriving.
        Reports = "reports",
        /// It offers links by the dozen: half of them it never opens, some another node signed.
        Offers = "offers",
        /// As a hop it drops messages, sends them back, or marks them as having crossed and spent.
        Loops = "loops",
        /// It takes nothing of what it is sent for a while.
        Mute = "mute",
        /// It names delegations that it never showed.
        Delegations = "delegations",
        /// It sends frames that are none, on lanes that are not theirs, and for others.
        Garbage = "garbage",
        /// As a holder it gives receipts for mail and drops it, or tells its owner that it holds none.
        Drops = "drops",
        /// It brings mail again that it once held, to holders and to its owner.
        OldMail = "old-mail",
        /// It says that it holds mail since before it was written, or from a time that is not yet.
        BackDates = "back-dates",
        /// As the host of a group it numbers as it likes, keeps posts back, answers without end, makes up posts, brings old
        /// ones and says what nobody asked for.
        Hosts = "hosts",
    }
}

named! {
    /// A part of a simulation that is broken on purpose. A run with one must end with violations.
    Broken, UnknownBroken, "broken variant" {
        /// A crash takes back what the disk had flushed.
        ForgetfulDisk = "forgetful-disk",
        /// A batch is told to be durable before it is written.
        EarlyRelease = "early-release",
        /// A store's failure is told as a success.
        SwallowedFailure = "swallowed-failure",
        /// A node starts over what its store held one life before, so that its leases come again.
        OldLease = "old-lease",
        /// A node dispatches what its receiver window refused as a replay.
        OpenWindow = "open-window",
        /// A channel swaps two messages.
        SwappedMessages = "swapped-messages",
        /// A message is held back for a window's worth of others.
        HeldMessage = "held-message",
        /// A worker's answer goes to another frame than the one it checked.
        SwappedAnswers = "swapped-answers",
        /// The network loses a message for good.
        LostMessage = "lost-message",
        /// The places of messages are free before the application took them.
        EarlyPlace = "early-place",
        /// The credit of a refused frame does not go back.
        LostCredit = "lost-credit",
        /// A link that ended is dialled no more.
        NoRedial = "no-redial",
        /// A nearer successor is put before the old list, whose members it may skip.
        OldTail = "old-tail",
        /// A list of successors goes on past its own node.
        RoundList = "round-list",
        /// A dead first successor takes the others with it.
        NoSuccessors = "no-successors",
        /// Nobody is told who takes it for its successor.
        NoNotify = "no-notify",
        /// A dead predecessor stays.
        DeadPredecessor = "dead-predecessor",
        /// Nearer successors are not asked for.
        NoCandidates = "no-candidates",
        /// A crash takes back what the disk under a store of mail had flushed.
        ForgetfulInbox = "forgetful-inbox",
        /// A holder that leaves a chain lets go of its mail before the chain has it.
        DroppedInbox = "dropped-inbox",
        /// Holders are told to let go of mail that waits to be taken.
        EarlyRemoval = "early-removal",
        /// An application is handed a mail that waits, and takes it when it has dealt with it.
        EarlyTake = "early-take",
        /// A node that was started again does not hear what is said of groups.
        DeafKeeper = "deaf-keeper",
        /// Who is to be removed from a group stays on its roster.
        ForgottenRemoval = "forgotten-removal",
        /// Whatever a host hands on is taken for a post, whoever wrote it.
        AnyPost = "any-post",
        /// A crash takes back what the disk under a store of references had flushed.
        ForgetfulReferences = "forgetful-references",
        /// A nearer successor is taken before it was asked.
        Unasked = "unasked",
        /// Who is in no ring yet is taken for a successor, with its empty list.
        NoRing = "no-ring",
    }
}

impl Broken {
    /// What of the ring's own code is broken, if it is that.
    pub(super) const fn of_ring(self) -> Option<RingMutant> {
        Some(match self {
            Self::OldTail => RingMutant::KeepsItsOldTail,
            Self::RoundList => RingMutant::ListsRoundTheRing,
            Self::NoSuccessors => RingMutant::DropsAllSuccessors,
            Self::NoNotify => RingMutant::NotifiesNobody,
            Self::DeadPredecessor => RingMutant::KeepsADeadPredecessor,
            Self::NoCandidates => RingMutant::SeesNoCandidates,
            Self::Unasked => RingMutant::TakesCandidatesUnasked,
            Self::NoRing => RingMutant::TakesWhoIsInNoRing,
            _ => return None,
        })
    }
}

/// An enumeration of named things.
pub trait Named: Copy + Ord + fmt::Display + 'static {
    /// All of them.
    const EVERY: &'static [Self];
}

/// Some of the things of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen<T: Named>(BTreeSet<T>);

/// Which faults may come.
pub type Faults = Chosen<Fault>;

/// What hostile nodes do.
pub type Acts = Chosen<Act>;

impl<T: Named> Chosen<T> {
    /// All of them.
    pub fn all() -> Self {
        Self(T::EVERY.iter().copied().collect())
    }

    /// None.
    pub fn none() -> Self {
        Self(BTreeSet::new())
    }

    /// Whether this one is among them.
    pub fn has(&self, one: T) -> bool {
        self.0.contains(&one)
    }

    /// Each of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = T> {
        self.0.iter().copied()
    }
}

impl<T: Named> Default for Chosen<T> {
    fn default() -> Self {
        Self::none()
    }
}

impl<T: Named> FromIterator<T> for Chosen<T> {
    fn from_iter<I: IntoIterator<Item = T>>(some: I) -> Self {
        Self(some.into_iter().collect())
    }
}

impl<T: Named> fmt::Display for Chosen<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            0 => f.write_str("none"),
            all if all == T::EVERY.len() => f.write_str("all"),
            _ => {
                let names: Vec<_> = self.0.iter().map(T::to_string).collect();
                f.write_str(&names.join(","))
            }
        }
    }
}

impl<T: Named + FromStr> FromStr for Chosen<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        match text {
            "all" => Ok(Self::all()),
            "none" => Ok(Self::none()),
            some => some.split(',').map(T::from_str).collect(),
        }
    }
}

fn names<T: fmt::Display>(all: &[T]) -> String {
    let names: Vec<_> = all.iter().map(T::to_string).collect();
    names.join(", ")
}
