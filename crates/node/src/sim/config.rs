//! What a simulation is run with: its size, its seed, its faults, what is broken on purpose.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Nodes that one simulation drives at most.
pub const NODES_MAX: usize = 4_096;

/// Simulated minutes of one run at most: a week.
pub const MINUTES_MAX: u64 = 7 * 24 * 60;

/// Messages that one node's application sends in a simulated minute at most.
pub const MESSAGES_PER_MINUTE_MAX: u64 = 60_000;

/// What a simulation is run with. The same configuration gives the same run, to the byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimConfig {
    /// How many nodes, from 2 to [`NODES_MAX`].
    pub nodes: usize,
    /// How long faults may come, in simulated minutes, up to [`MINUTES_MAX`]. What heals and the
    /// test that everything was healed come after.
    pub minutes: u64,
    /// What everything is drawn from.
    pub seed: u64,
    /// What goes wrong.
    pub faults: Faults,
    /// Messages that each node's application sends in a simulated minute, on average.
    pub messages_per_minute: u64,
    /// What is broken on purpose, for the checkers to notice.
    pub broken: Option<Broken>,
}

impl Default for SimConfig {
    fn default() -> Self {
        Self {
            nodes: 16,
            minutes: 10,
            seed: 1,
            faults: Faults::all(),
            messages_per_minute: 30,
            broken: None,
        }
    }
}

/// A configuration that cannot be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Too few nodes, or too many.
    #[error("{nodes} nodes: give 2 to {NODES_MAX}")]
    Nodes {
        /// What was asked for.
        nodes: usize,
    },
    /// No time, or too long.
    #[error("{minutes} minutes: give 1 to {MINUTES_MAX}")]
    Minutes {
        /// What was asked for.
        minutes: u64,
    },
    /// More messages than may be.
    #[error("{messages} messages a minute: give at most {MESSAGES_PER_MINUTE_MAX}")]
    Messages {
        /// What was asked for.
        messages: u64,
    },
}

impl SimConfig {
    /// Whether it can be run.
    ///
    /// # Errors
    /// The first thing that is out of its bounds.
    pub fn check(&self) -> Result<(), ConfigError> {
        let (nodes, minutes, messages) = (self.nodes, self.minutes, self.messages_per_minute);
        if !(2..=NODES_MAX).contains(&nodes) {
            return Err(ConfigError::Nodes { nodes });
        }
        if !(1..=MINUTES_MAX).contains(&minutes) {
            return Err(ConfigError::Minutes { minutes });
        }
        if messages > MESSAGES_PER_MINUTE_MAX {
            return Err(ConfigError::Messages { messages });
        }
        Ok(())
    }

    /// The command that runs it again.
    pub fn command(&self) -> String {
        let Self {
            nodes,
            minutes,
            seed,
            faults,
            messages_per_minute,
            broken,
        } = self;
        let mut command = format!(
            "overlane sim --nodes {nodes} --minutes {minutes} --seed {seed} --faults {faults} \
             --messages {messages_per_minute}"
        );
        if let Some(broken) = broken {
            command += &format!(" --broken {broken}");
        }
        command
    }
}

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
    }
}

/// Which faults may come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Faults(BTreeSet<Fault>);

impl Faults {
    /// All of them.
    pub fn all() -> Self {
        Self(Fault::ALL.iter().copied().collect())
    }

    /// None.
    pub fn none() -> Self {
        Self::default()
    }

    /// Whether this one may.
    pub fn has(&self, fault: Fault) -> bool {
        self.0.contains(&fault)
    }

    /// Each of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Fault> {
        self.0.iter().copied()
    }
}

impl FromIterator<Fault> for Faults {
    fn from_iter<I: IntoIterator<Item = Fault>>(faults: I) -> Self {
        Self(faults.into_iter().collect())
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            0 => f.write_str("none"),
            all if all == Fault::ALL.len() => f.write_str("all"),
            _ => f.write_str(&self.iter().map(Fault::name).collect::<Vec<_>>().join(",")),
        }
    }
}

impl FromStr for Faults {
    type Err = UnknownFault;

    fn from_str(text: &str) -> Result<Self, UnknownFault> {
        match text {
            "all" => Ok(Self::all()),
            "none" => Ok(Self::none()),
            some => some.split(',').map(Fault::from_str).collect(),
        }
    }
}

fn names<T: fmt::Display>(all: &[T]) -> String {
    let names: Vec<_> = all.iter().map(T::to_string).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_typed_as_they_are_shown() {
        for faults in [Faults::all(), Faults::none(), "loss,churn".parse().unwrap()] {
            assert_eq!(faults.to_string().parse(), Ok(faults));
        }
        let some: Faults = "partition,churn,loss".parse().unwrap();
        assert_eq!(some.to_string(), "churn,loss,partition");
        let unknown = "churn,rain".parse::<Faults>().unwrap_err();
        assert!(
            unknown
                .to_string()
                .starts_with("\"rain\" is no fault: give one of churn, ")
        );
    }

    #[test]
    fn what_cannot_be_run_is_refused_with_its_bounds() {
        let with = |change: fn(&mut SimConfig)| {
            let mut config = SimConfig::default();
            change(&mut config);
            config.check()
        };
        assert_eq!(with(|_| ()), Ok(()));
        assert_eq!(
            with(|it| it.nodes = 1),
            Err(ConfigError::Nodes { nodes: 1 })
        );
        assert!(with(|it| it.nodes = NODES_MAX + 1).is_err());
        assert!(with(|it| it.minutes = 0).is_err());
        assert!(with(|it| it.minutes = MINUTES_MAX + 1).is_err());
        assert!(with(|it| it.messages_per_minute = MESSAGES_PER_MINUTE_MAX + 1).is_err());
    }
}
