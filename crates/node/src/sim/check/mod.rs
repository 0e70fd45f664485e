//! The checkers: each owns one law and judges it by what can be seen from outside a node.
//!
//! They share nothing with the code they judge: bytes on the wire, what an application was handed,
//! what a node answered its user. A violation is kept with its instant; the run goes on.

mod bounds;
mod delivery;
mod groups;
mod honest;
mod mail;
mod once;
mod order;
mod refs;
mod ring;
mod route;
mod sequence;

use std::collections::{BTreeMap, HashMap, HashSet};

use foldhash::fast::FixedState;
use overlane_core::transaction::RelayFields;
use overlane_core::{Class, Did, StreamKey, TransactionDigest};

use crate::peer::Refusal;

pub(super) use bounds::{of_groups, of_node, of_rounds, of_session};
pub(super) use groups::{GroupWatch, Read};
pub(super) use mail::{Kept, Looked, Mails, Start, Stored};
pub(super) use refs::{Shared, SharedWatch};
pub(super) use ring::{Member, is_ideal, lets_another_join, of_ring};

/// Where something is looked up by its name, and nothing depends on an order.
type Map<K, V> = HashMap<K, V, FixedState>;
type Set<K> = HashSet<K, FixedState>;

/// Violations that are kept in words; all are counted.
pub const VIOLATIONS_KEPT_MAX: usize = 32;

/// A law that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The law.
    pub law: &'static str,
    /// When, in simulated milliseconds.
    pub at_ms: u64,
    /// What was seen.
    pub words: String,
}

/// A signed message, as its bytes say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Signed {
    pub(super) stream: StreamKey,
    pub(super) sequence: u64,
    pub(super) digest: TransactionDigest,
}

/// What is seen from outside.
#[derive(Debug)]
pub(super) enum Seen<'a> {
    /// A node put a message on a link: one of its own, or one that it passes on.
    OnTheWire {
        signed: Signed,
        link: usize,
        node: usize,
        relay: RelayFields,
    },
    /// Somebody is about to offer a message again.
    OfferedAgain(TransactionDigest),
    /// A node answered its application that a message is signed, and in its lane or to be held.
    Receipt(Signed),
    /// A node handed a message to its application.
    Dispatched { node: usize, signed: Signed },
    /// A node refused a frame. `wrong_clock` says whether its clock, or the clock of who signed
    /// or carried it, was wrong by more than the allowed skew; `earlier_life` whether the node was
    /// started before, and may have asked or sent then what it does not know now; `gave_up` how many
    /// requests of its ring had no answer so far, or one too many.
    Refused {
        node: usize,
        peer: Did,
        class: Class,
        refusal: &'a Refusal,
        wrong_clock: bool,
        store_failed: bool,
        earlier_life: bool,
        gave_up: usize,
    },
    /// A link was ended because its peer broke the link protocol, or the payload protocol.
    PeerBlamed { node: usize, words: &'a str },
    /// A node signed evidence that an origin signed twice.
    Evidence { node: usize },
}

/// One law's checker.
trait Checker {
    /// The law's name.
    fn law(&self) -> &'static str;

    /// Judges what was seen.
    ///
    /// # Errors
    /// What broke the law, in words.
    fn see(&mut self, at_ms: u64, seen: &Seen<'_>) -> Result<(), String>;

    /// Judges at the end of a run that had healed and rested.
    ///
    /// # Errors
    /// What broke the law, in words.
    fn end(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// All checkers, and what they found.
pub(super) struct Checks {
    checkers: Vec<Box<dyn Checker>>,
    pub(super) violations: u64,
    pub(super) kept: Vec<Violation>,
    by_law: BTreeMap<&'static str, u64>,
    healed_ms: Option<u64>,
    delivery: delivery::Delivery,
    /// Where nodes hold mail for each other.
    pub(super) mail: Option<Mails>,
    /// What applications know of references.
    pub(super) references: SharedWatch,
}

impl Checks {
    /// `routes`: whether nodes pass messages on for others; `mail`: whether they hold mail; `keepers`: whether
    /// they say something of mail or groups.
    pub(super) fn new(routes: bool, mail: bool, keepers: bool) -> Self {
        Self {
            checkers: vec![
                Box::new(once::Once::default()),
                Box::new(order::Order::default()),
                Box::new(honest::Honest::new(routes, keepers)),
                Box::new(sequence::Sequence::default()),
                Box::new(route::Routes::default()),
            ],
            violations: 0,
            kept: Vec::new(),
            by_law: BTreeMap::new(),
            healed_ms: None,
            delivery: delivery::Delivery::default(),
            mail: mail.then(Mails::default),
            references: SharedWatch::default(),
        }
    }

    pub(super) fn see(&mut self, at_ms: u64, seen: &Seen<'_>) {
        let mut found = Vec::new();
        for checker in &mut self.checkers {
            if let Err(words) = checker.see(at_ms, seen) {
                found.push((checker.law(), words));
            }
        }
        if let Err(words) = self.delivery.see(at_ms, seen) {
            found.push((self.delivery.law(), words));
        }
        if let Some(mail) = &mut self.mail {
            mail.see(seen);
        }
        for (law, words) in found {
            self.broke(law, at_ms, words);
        }
    }

    /// From now on nothing goes wrong: what is signed must arrive.
    pub(super) fn healed(&mut self, at_ms: u64) {
        self.healed_ms.get_or_insert(at_ms);
        self.delivery.healed(at_ms);
    }

    /// A sender was told that the way of this message was congested; whether it was due to arrive.
    pub(super) fn congested(&mut self, digest: TransactionDigest) -> bool {
        self.delivery.told(digest)
    }

    /// Messages signed after the healing that were not dispatched.
    pub(super) fn undelivered(&self) -> usize {
        self.delivery.undelivered()
    }

    /// The run is over.
    pub(super) fn end(&mut self, at_ms: u64) {
        let mut found = Vec::new();
        for checker in &mut self.checkers {
            if let Err(words) = checker.end() {
                found.push((checker.law(), words));
            }
        }
        if let Err(words) = self.delivery.end() {
            found.push((self.delivery.law(), words));
        }
        found.extend(self.mail.as_ref().and_then(|mail| mail.end().err()));
        for (law, words) in found {
            self.broke(law, at_ms, words);
        }
    }

    /// A law did not hold.
    pub(super) fn broke(&mut self, law: &'static str, at_ms: u64, words: String) {
        self.violations += 1;
        *self.by_law.entry(law).or_default() += 1;
        if self.kept.len() < VIOLATIONS_KEPT_MAX {
            self.kept.push(Violation { law, at_ms, words });
        }
    }

    /// Violations by law.
    pub(super) fn by_law(&self) -> &BTreeMap<&'static str, u64> {
        &self.by_law
    }
}

impl std::fmt::Debug for Checks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checks")
            .field("violations", &self.kept)
            .finish_non_exhaustive()
    }
}
