//! A delegatee with the delegation it signs under.

use super::delegatee::{Delegatee, Signature};
use super::delegation::Delegation;
use super::verified::Verified;
use crate::ids::{Did, NetworkId};
use std::sync::Arc;

/// What signs transactions, hops and offers: a delegatee and a verified delegation to it.
#[derive(Debug, Clone)]
pub struct Signer {
    delegatee: Delegatee,
    delegation: Arc<Verified<Delegation>>,
}

/// A delegation to another key than the delegatee's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the delegation is to another key; issue one to this delegatee")]
pub struct OtherDelegatee;

impl Signer {
    /// Signs with `delegatee` under `delegation`.
    ///
    /// # Errors
    /// The delegation is to another key.
    pub fn new(
        delegatee: Delegatee,
        delegation: Verified<Delegation>,
    ) -> Result<Self, OtherDelegatee> {
        if delegation.delegatee() != &delegatee.key() {
            return Err(OtherDelegatee);
        }
        let delegation = Arc::new(delegation);
        Ok(Self {
            delegatee,
            delegation,
        })
    }

    /// The account signed for.
    pub fn did(&self) -> Did {
        self.delegation.did()
    }

    /// The network signed for.
    pub fn network(&self) -> NetworkId {
        self.delegation.network()
    }

    /// The delegation signed under.
    pub fn delegation(&self) -> &Arc<Verified<Delegation>> {
        &self.delegation
    }

    pub(crate) fn sign(&self, transcript: &[u8; 32]) -> Signature {
        self.delegatee.sign(transcript)
    }
}
