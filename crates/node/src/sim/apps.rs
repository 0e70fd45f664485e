//! Applications of one's own on simulated nodes: what a program does with its node, under every fault there is.

use overlane_core::Did;
use overlane_core::identity::Verified;
use overlane_core::transaction::{Data, Message, Namespace, Payload};
use overlane_core::wire::cbor::to_vec;

use super::world::World;

/// The namespace of what applications say to each other in a simulation.
pub const APPLICATIONS_NAMESPACE: &str = "application";

/// What one node's application does. It outlives the crashes of its node, as if everything it knows were
/// durable at once: what a simulation asks of it is to bear messages that are lost, late, and sent again.
pub trait Application {
    /// Its node is up, and it may send.
    fn handle_time(&mut self, _outbox: &mut Outbox) {}

    /// A message of another node's application was handed to this one: admitted, durably, and once.
    fn handle_message(&mut self, from: Did, body: &[u8], outbox: &mut Outbox);
}

/// What an application sends when it is asked, and what it knows of where it is.
#[derive(Debug)]
pub struct Outbox {
    own: Did,
    nodes: Vec<Did>,
    now_ms: u64,
    sends: Vec<(Did, Vec<u8>)>,
}

impl Outbox {
    /// This application's node.
    pub const fn own(&self) -> Did {
        self.own
    }

    /// All nodes of the simulation, this one too, in the order of their numbers.
    pub fn nodes(&self) -> &[Did] {
        &self.nodes
    }

    /// The simulation's time, in milliseconds since it began.
    pub const fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Sends a message to another node's application. Whether it leaves, and arrives, is as on any network.
    pub fn send(&mut self, to: Did, body: impl Into<Vec<u8>>) {
        self.sends.push((to, body.into()));
    }
}

/// The applications of a simulation, one a node, by its number; none unless it was given some.
#[derive(Default)]
pub(super) struct Applications<'t>(Vec<Box<dyn Application + 't>>);

impl std::fmt::Debug for Applications<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Applications").field(&self.0.len()).finish()
    }
}

impl<'t> World<'t> {
    /// Gives every node an application.
    pub(super) fn give_applications(
        &mut self,
        mut make: impl FnMut(Did) -> Box<dyn Application + 't>,
    ) {
        let nodes = self.nodes.iter();
        self.applications = Applications(nodes.map(|node| make(node.did)).collect());
    }

    /// The node's application may send.
    pub(super) fn application_time(&mut self, node: usize) {
        if self.nodes.get(node).is_some_and(|it| it.running.is_some()) {
            self.ask_application(node, |application, outbox| application.handle_time(outbox));
        }
    }

    /// The node's application is handed a message, if it is one of an application.
    pub(super) fn application_hears(&mut self, node: usize, payload: &Verified<Payload>) {
        let message = payload.message();
        if let Message::Application { namespace, body } = message
            && namespace.as_str() == APPLICATIONS_NAMESPACE
        {
            let from = payload.origin();
            self.ask_application(node, |application, outbox| {
                application.handle_message(from, body, outbox);
            });
        }
    }

    fn ask_application(
        &mut self,
        node: usize,
        ask: impl FnOnce(&mut dyn Application, &mut Outbox),
    ) {
        if self.applications.0.is_empty() {
            return;
        }
        let nodes: Vec<Did> = self.nodes.iter().map(|it| it.did).collect();
        let (Some(&own), Some(application)) = (nodes.get(node), self.applications.0.get_mut(node))
        else {
            return;
        };
        let mut outbox = Outbox {
            own,
            nodes,
            now_ms: self.now_ms,
            sends: Vec::new(),
        };
        ask(application.as_mut(), &mut outbox);
        for (to, body) in outbox.sends {
            let Ok(namespace) = Namespace::new(APPLICATIONS_NAMESPACE) else {
                return;
            };
            let body = body.as_slice();
            if let Ok(data) = Data::parse(to_vec(&Message::Application { namespace, body })) {
                self.send_data(node, to, data);
            }
        }
    }
}
