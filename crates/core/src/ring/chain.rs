//! The nodes behind a place: who keeps what waits for a node that is away.
//!
//! The **chain** of a place are the first nodes after it, the node at the place itself left out. So it is the
//! same while that node is there and while it is away, and never does the lookup depend on that node's
//! answer. The place's predecessor is asked for its successors, and the last of them for who comes behind.

use super::bounds::SUCCESSORS_KEPT;
use super::error::{RingError, RingRefusal};
use super::lookup::{Aim, Lookup};
use super::machine::Ring;
use super::members::Members;
use super::message::{RequestId, RingMessage};
use super::place::Distance;
use super::requests::{Purpose, RingAnswer};
use crate::ids::Did;

/// Nodes that an answer names: those of the chain, and as many behind, which held until those came.
pub const CHAIN_NAMED: usize = 2 * SUCCESSORS_KEPT;

/// A chain whose last member is asked who comes behind it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Behind {
    /// The user's request.
    user: RequestId,
    place: Did,
    found: Vec<Did>,
    /// The place's predecessor, the last of a ring of few.
    before: Did,
}

impl Ring {
    /// Asks for the first nodes after `place`, without the node at it, nearest first; at most
    /// [`CHAIN_NAMED`]. The answer is [`RingAnswer::Chain`].
    ///
    /// # Errors
    /// [`RingError::TooManyRequests`].
    pub fn chain(&mut self, place: Did, now_ms: u64) -> Result<RequestId, RingError> {
        let id = self.draw()?;
        match self.found(self.own, id, place) {
            RingMessage::Nearer { node, .. } if place != self.own => {
                let lookup = Lookup {
                    aim: Aim::Chain(id),
                    place,
                    steps: 0,
                    contact: node,
                };
                self.step(node, lookup, now_ms);
            }
            _ => {
                let owners = self.members.successors().to_vec();
                self.chain_found((id, place), self.own, &owners, now_ms);
            }
        }
        Ok(id)
    }

    /// The successors of the place's predecessor `before`, which may begin with the node at the place.
    pub(super) fn chain_found(
        &mut self,
        (user, place): (RequestId, Did),
        before: Did,
        owners: &[Did],
        now_ms: u64,
    ) {
        let found: Vec<Did> = owners.iter().copied().filter(|&it| it != place).collect();
        let behind = Behind {
            user,
            place,
            found,
            before,
        };
        match behind.found.last().copied() {
            Some(last) if last != self.own => {
                let id = self.requests.draw();
                let message = RingMessage::Ask { id };
                self.ask(id, last, Purpose::Behind(behind), message, now_ms);
            }
            Some(_) => {
                let rest = self.members.successors().to_vec();
                self.behind_found(behind, &rest);
            }
            None => self.behind_found(behind, &[]),
        }
    }

    /// Who comes behind the last that was found, as that one says.
    pub(super) fn behind_found(&mut self, behind: Behind, rest: &[Did]) {
        let Behind {
            user,
            place,
            found: mut chain,
            before,
        } = behind;
        // Once round the ring, the place itself comes again, and whoever is known.
        let mut reach = chain.last().map(|&last| Distance::between(place, last));
        for &node in rest.iter().chain([&before]) {
            let at = Distance::between(place, node);
            if node == place || reach.is_some_and(|reach| at <= reach) {
                continue;
            }
            chain.push(node);
            reach = Some(at);
        }
        chain.truncate(CHAIN_NAMED);
        self.done(user, Ok(RingAnswer::Chain(chain)));
    }

    /// An answer of who was asked what comes behind it.
    pub(super) fn take_behind(
        &mut self,
        from: Did,
        behind: Behind,
        rest: &[Did],
    ) -> Result<(), RingRefusal> {
        if !Members::is_ordered(from, rest) {
            return Err(RingRefusal::Disordered { from });
        }
        self.behind_found(behind, rest);
        Ok(())
    }

    /// The last that was found does not answer: what was found is all that is known.
    pub(super) fn behind_is_silent(&mut self, behind: Behind) {
        let Behind { user, found, .. } = behind;
        self.done(user, Ok(RingAnswer::Chain(found)));
    }

    /// A lookup of a chain leads nowhere.
    pub(super) fn chain_is_lost(&mut self, user: RequestId, to: Did) {
        let waited_ms = 0;
        self.done(user, Err(RingError::NoAnswer { to, waited_ms }));
    }
}
