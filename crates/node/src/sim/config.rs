//! What a simulation is run with: its size, its seed, its faults, what is broken on purpose.

use super::names::{Acts, Broken, Faults, Topology};

/// Nodes that one simulation drives at most.
pub const NODES_MAX: usize = 4_096;

/// Simulated minutes of one run at most: a week.
pub const MINUTES_MAX: u64 = 7 * 24 * 60;

/// Messages that one node's application sends in a simulated minute at most.
pub const MESSAGES_PER_MINUTE_MAX: u64 = 60_000;

/// Mails that one node's application sends in a simulated minute at most.
pub const MAILS_PER_MINUTE_MAX: u64 = 600;

/// Groups of one simulation at most.
pub const GROUPS_MAX: usize = 64;

/// What one node's application does with references in a simulated minute at most.
pub const REFERENCES_PER_MINUTE_MAX: u64 = 600;

/// One node in so many is hostile, where any are.
pub const HOSTILE_ONE_IN: usize = 8;

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
    /// Who links to whom.
    pub topology: Topology,
    /// What goes wrong.
    pub faults: Faults,
    /// What hostile nodes do: one node in [`HOSTILE_ONE_IN`], if they do anything. While faults come
    /// they break the protocol; then they are as any other.
    pub hostile: Acts,
    /// Messages that each node's application sends in a simulated minute, on average.
    pub messages_per_minute: u64,
    /// Mails that each node's application sends in a simulated minute, on average, to nodes that are away
    /// where any are. With none, nodes have no store of mail; and they hold it for each other on a ring
    /// alone.
    pub mails_per_minute: u64,
    /// Groups, on a ring of four nodes or more. With none, nodes have no store of groups.
    pub groups: usize,
    /// How often each node's application shares, fetches, calls, lets go of or takes back a reference in a simulated
    /// minute, on average, on a ring. With none, nodes have no store of references.
    pub references_per_minute: u64,
    /// What is broken on purpose, for the checkers to notice.
    pub broken: Option<Broken>,
}

impl Default for SimConfig {
    fn default() -> Self {
        Self {
            nodes: 16,
            minutes: 10,
            seed: 1,
            topology: Topology::Ring,
            faults: Faults::all(),
            hostile: Acts::none(),
            messages_per_minute: 30,
            mails_per_minute: 2,
            groups: 2,
            references_per_minute: 1,
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
    /// More mails than may be.
    #[error("{mails} mails a minute: give at most {MAILS_PER_MINUTE_MAX}")]
    Mails {
        /// What was asked for.
        mails: u64,
    },
    /// More groups than may be.
    #[error("{groups} groups: give at most {GROUPS_MAX}")]
    Groups {
        /// What was asked for.
        groups: usize,
    },
    /// More to do with references than may be.
    #[error("{references} references a minute: give at most {REFERENCES_PER_MINUTE_MAX}")]
    References {
        /// What was asked for.
        references: u64,
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
        let mails = self.mails_per_minute;
        if mails > MAILS_PER_MINUTE_MAX {
            return Err(ConfigError::Mails { mails });
        }
        let groups = self.groups;
        if groups > GROUPS_MAX {
            return Err(ConfigError::Groups { groups });
        }
        let references = self.references_per_minute;
        if references > REFERENCES_PER_MINUTE_MAX {
            return Err(ConfigError::References { references });
        }
        Ok(())
    }

    /// Whether nodes hold mail for each other.
    pub fn has_mail(&self) -> bool {
        self.mails_per_minute > 0 && self.topology == Topology::Ring
    }

    /// Whether nodes keep groups.
    pub fn has_groups(&self) -> bool {
        self.groups > 0 && self.topology == Topology::Ring
    }

    /// Whether nodes share references.
    pub fn has_references(&self) -> bool {
        self.references_per_minute > 0 && self.topology == Topology::Ring
    }

    /// Whether nodes say something to each other from time to time that no application sent.
    pub(super) fn has_keepers(&self) -> bool {
        self.has_mail() || self.has_groups() || self.has_references()
    }

    /// The command that runs it again.
    pub fn command(&self) -> String {
        let Self {
            nodes,
            minutes,
            seed,
            topology,
            faults,
            hostile,
            messages_per_minute,
            mails_per_minute,
            groups,
            references_per_minute,
            broken,
        } = self;
        let mut command = format!(
            "overlane sim --nodes {nodes} --minutes {minutes} --seed {seed} --faults {faults} \
             --messages {messages_per_minute} --mails {mails_per_minute} \
             --groups {groups} --references {references_per_minute}"
        );
        if *topology != Topology::Ring {
            command += &format!(" --topology {topology}");
        }
        if *hostile != Acts::none() {
            command += &format!(" --hostile {hostile}");
        }
        if let Some(broken) = broken {
            command += &format!(" --broken {broken}");
        }
        command
    }
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
        assert!(with(|it| it.mails_per_minute = MAILS_PER_MINUTE_MAX + 1).is_err());
        assert!(with(|it| it.groups = GROUPS_MAX + 1).is_err());
        assert!(with(|it| it.references_per_minute = REFERENCES_PER_MINUTE_MAX + 1).is_err());
    }
}
