//! Many nodes of the production code in one thread, on a virtual clock, network and disk.
//!
//! A simulation drives [`Peer`](crate::peer::Peer)s, the sessions of
//! [`core::lane`](overlane_core::lane) on every link, the registry that decides which link stands,
//! signed offers and answers, and the journal of every node's records, all of them the code that a
//! daemon runs. Simulated are the clock, the paths between nodes, the disk under the journal, the
//! workers and the applications. One seed decides everything: the same [`SimConfig`] gives the same
//! run, down to the hash over all that happened ([`Report::trace`]).
//!
//! A run has two phases. While faults come and go (`weather`), **safety** must hold: at most once,
//! order per class, no sequence signed twice, nothing honest refused, no table over its bound.
//! Then everything heals, and **liveness** must: every link comes back, and what is sent from then on
//! arrives. Each law has a checker of its own (`check`) that knows only what can be seen from
//! outside; for each there are [`Broken`] variants that it must catch.
//!
//! Source: protocol decision 0 (values and state machines), failure stories 1, 2, 3, 10, 14 and 16.

mod apps;
mod channel;
mod check;
mod clock;
mod config;
mod courier;
mod dial;
mod drive;
mod forged;
mod groups;
mod holders;
mod hostile;
mod hosts;
mod link;
mod lives;
mod load;
mod mail;
mod mailbox;
mod names;
mod net;
mod node;
mod people;
mod queue;
mod refs;
mod report;
mod ring;
mod store;
mod trace;
mod weather;
mod world;

pub use apps::{APPLICATIONS_NAMESPACE, Application, Outbox};
pub use check::{VIOLATIONS_KEPT_MAX, Violation};
pub use config::{
    ConfigError, GROUPS_MAX, HOSTILE_ONE_IN, MAILS_PER_MINUTE_MAX, MESSAGES_PER_MINUTE_MAX,
    MINUTES_MAX, NODES_MAX, REFERENCES_PER_MINUTE_MAX, SimConfig,
};
pub use names::{
    Act, Acts, Broken, Chosen, Fault, Faults, Named, Topology, UnknownAct, UnknownBroken,
    UnknownFault, UnknownTopology,
};
pub use report::{Counts, GroupCounts, MailCounts, Minute, Phase, ReferenceCounts, Report};

use overlane_core::identity::remembering;
use overlane_core::ring::with_mutant;
use trace::Trace;
use world::World;

/// A simulation that is to be run.
///
/// ```
/// use overlane_node::sim::{Sim, SimConfig};
///
/// let config = SimConfig { nodes: 3, minutes: 1, seed: 7, ..SimConfig::default() };
/// let report = Sim::new(config).unwrap().run(|_| ());
/// assert_eq!(report.violations, 0, "{:?}", report.first);
/// ```
#[derive(Debug)]
pub struct Sim<'t> {
    world: World<'t>,
}

impl<'t> Sim<'t> {
    /// A simulation of this configuration.
    ///
    /// # Errors
    /// [`ConfigError`]: it cannot be run.
    pub fn new(config: SimConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let world = World::new(config, Trace::new(None));
        Ok(Self { world })
    }

    /// The same, and `tracer` is told of everything that happens, a line each.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn traced(config: SimConfig, tracer: impl FnMut(&str) + 't) -> Result<Self, ConfigError> {
        config.check()?;
        let world = World::new(config, Trace::new(Some(Box::new(tracer))));
        Ok(Self { world })
    }

    /// The same, with an application on every node: `make` makes the one of each, by its node's Did.
    #[must_use]
    pub fn with_applications(
        mut self,
        make: impl FnMut(overlane_core::Did) -> Box<dyn Application + 't>,
    ) -> Self {
        self.world.give_applications(make);
        self
    }

    /// Runs it to its end; `minute` is told of each simulated minute.
    pub fn run(mut self, mut minute: impl FnMut(&Minute)) -> Report {
        let broken = self.world.config.broken.and_then(Broken::of_ring);
        let mut run = || self.world.run(&mut |world| minute(&world.minute()));
        // What a hop checked, the next one checks again: once is enough here.
        let _ = remembering(|| match broken {
            Some(mutant) => with_mutant(mutant, run),
            None => run(),
        });
        self.world.report()
    }
}
