//! Policy of the program that embeds a node: whom it links to, what it admits, what it holds for others, beside
//! what the protocol's laws let through.
//!
//! A policy only takes away: a hook is asked about what has passed every check that costs no store, and can
//! refuse it; nothing is let through that would be refused without it. A refusal changes no window and uses no
//! sequence: the very transaction may come again and be admitted then. A hook that panics refuses what it was
//! asked about, and the node lives on.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use overlane_core::{Class, Coded, Did, Fault};

/// What a hook says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Nothing against it.
    Allow,
    /// Not here.
    Refuse,
}

/// A link that may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connecting {
    /// Who is at its other end, by a verified signature; where this node dials an account, whom it wants.
    pub peer: Did,
    /// Whether this node dials.
    pub dialled: bool,
}

/// A message that may be admitted: verified, for this node, and not the node's own matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arriving<'a> {
    /// Who signed it.
    pub origin: Did,
    /// The neighbour or holder that brought it.
    pub from: Did,
    /// Its class.
    pub class: Class,
    /// Its sequence in its stream.
    pub sequence: u64,
    /// Its data, in bytes, sealed or not.
    pub bytes: usize,
    /// Its namespace, where it is an application's message that came unsealed. Of a sealed one it is
    /// known once it is admitted and opened.
    pub namespace: Option<&'a str>,
    /// Whether it is sealed.
    pub is_sealed: bool,
}

/// Mail that may be held for somebody who is away. What its sender brings is not verified yet; what another holder
/// hands on is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holding {
    /// Whom it is for, as it says.
    pub owner: Did,
    /// Who brought it: its sender, or another holder of the same inbox.
    pub by: Did,
    /// Its frame, in bytes.
    pub bytes: usize,
}

/// Hooks of the program that embeds a node. Each allows unless it is written otherwise.
///
/// They are called from the node's own task, from handshakes and from the thread of mail, one message or offer at a time: they
/// answer from what they have in memory, and wait for nothing. Whatever they refuse is counted under its code, with what else
/// is refused.
pub trait Policy: Send + Sync + 'static {
    /// Before a link is made, dialled or taken. Refused as `policy/refused_link`.
    fn before_connect(&self, _link: &Connecting) -> Decision {
        Decision::Allow
    }

    /// Before a message is staged for admission. Refused as `policy/refused_message`. The messages of the ring, of mail,
    /// references, groups and receipts are the node's own, and are not asked about; of a large message the
    /// whole is. Mail of this node's that is refused stays with its holders until its end.
    fn before_admit(&self, _message: &Arriving<'_>) -> Decision {
        Decision::Allow
    }

    /// Before mail is held for somebody else, whether its sender brings it or another holder of the same inbox hands
    /// it on. Refused as `policy/refused_mail`; what is handed on stays with those who hold it then, and is
    /// asked about again when they offer it again.
    fn before_hold(&self, _mail: &Holding) -> Decision {
        Decision::Allow
    }
}

/// A hook's refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyRefusal {
    /// No link.
    #[error("the policy of this node allows no link with {peer}")]
    Link {
        /// With whom.
        peer: Did,
    },
    /// Not admitted.
    #[error("the policy of this node does not admit this message of {origin}")]
    Message {
        /// Whose message.
        origin: Did,
    },
    /// Not held.
    #[error("the policy of this node does not hold this mail for {owner}")]
    Mail {
        /// Whom it is for.
        owner: Did,
    },
    /// The hook panicked.
    #[error("a policy hook of this node panicked, and so refuses")]
    Broken,
}

impl Coded for PolicyRefusal {
    fn code(&self) -> &'static str {
        match self {
            Self::Link { .. } => "policy/refused_link",
            Self::Message { .. } => "policy/refused_message",
            Self::Mail { .. } => "policy/refused_mail",
            Self::Broken => "policy/broken",
        }
    }

    fn fault(&self) -> Fault {
        Fault::RefusedByBound
    }
}

/// The policy of a node, or none.
#[derive(Clone, Default)]
pub(crate) struct Policies(Option<Arc<dyn Policy>>);

impl Policies {
    pub(crate) fn of(policy: impl Policy) -> Self {
        Self(Some(Arc::new(policy)))
    }

    pub(crate) fn connect(&self, link: &Connecting) -> Result<(), PolicyRefusal> {
        let refused = PolicyRefusal::Link { peer: link.peer };
        self.ask(refused, |policy| policy.before_connect(link))
    }

    pub(crate) fn admit(&self, message: &Arriving<'_>) -> Result<(), PolicyRefusal> {
        let origin = message.origin;
        let refused = PolicyRefusal::Message { origin };
        self.ask(refused, |policy| policy.before_admit(message))
    }

    pub(crate) fn hold(&self, mail: &Holding) -> Result<(), PolicyRefusal> {
        let refused = PolicyRefusal::Mail { owner: mail.owner };
        self.ask(refused, |policy| policy.before_hold(mail))
    }

    fn ask(
        &self,
        refused: PolicyRefusal,
        hook: impl FnOnce(&dyn Policy) -> Decision,
    ) -> Result<(), PolicyRefusal> {
        let Some(policy) = &self.0 else {
            return Ok(());
        };
        // Whatever a hook leaves half done is its own.
        match catch_unwind(AssertUnwindSafe(|| hook(policy.as_ref()))) {
            Ok(Decision::Allow) => Ok(()),
            Ok(Decision::Refuse) => Err(refused),
            Err(_) => {
                tracing::error!(%refused, "a policy hook panicked, and so refuses");
                Err(PolicyRefusal::Broken)
            }
        }
    }
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Policies").field(&self.0.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;
    impl Policy for Nothing {}

    struct Breaks;
    impl Policy for Breaks {
        fn before_hold(&self, _mail: &Holding) -> Decision {
            panic!("a hook that breaks")
        }

        fn before_connect(&self, _link: &Connecting) -> Decision {
            Decision::Refuse
        }
    }

    #[test]
    fn a_hook_allows_unless_it_says_otherwise_and_one_that_panics_refuses() {
        let peer = Did([7; 20]);
        let link = Connecting {
            peer,
            dialled: true,
        };
        let mail = Holding {
            owner: peer,
            by: peer,
            bytes: 1,
        };
        for policies in [Policies::default(), Policies::of(Nothing)] {
            assert_eq!(policies.connect(&link), Ok(()));
            assert_eq!(policies.hold(&mail), Ok(()));
        }
        let policies = Policies::of(Breaks);
        assert_eq!(policies.connect(&link), Err(PolicyRefusal::Link { peer }));
        assert_eq!(policies.hold(&mail), Err(PolicyRefusal::Broken));
        assert_eq!(policies.hold(&mail).unwrap_err().code(), "policy/broken");
    }
}
