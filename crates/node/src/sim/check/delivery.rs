//! Law **delivery after healing**: once nothing goes wrong any more, what a node answered its
//! application to be signed and in a lane is handed to the application it is for; or its sender is told that the
//! way was congested, and sends it again.

use std::collections::{BTreeMap, BTreeSet};

use overlane_core::TransactionDigest;

use super::{Checker, Seen, Signed};

#[derive(Default)]
pub(super) struct Delivery {
    healed_ms: Option<u64>,
    due: BTreeMap<TransactionDigest, Signed>,
    /// Handed over before the answer that they are signed.
    early: BTreeSet<TransactionDigest>,
}

impl Delivery {
    pub(super) fn healed(&mut self, at_ms: u64) {
        self.healed_ms.get_or_insert(at_ms);
    }

    /// The sender of this message was told that it does not arrive, for a reason that passes; whether it was due.
    pub(super) fn told(&mut self, digest: TransactionDigest) -> bool {
        self.due.remove(&digest).is_some()
    }

    pub(super) fn undelivered(&self) -> usize {
        self.due.len()
    }
}

impl Checker for Delivery {
    fn law(&self) -> &'static str {
        "delivery after healing"
    }

    fn see(&mut self, at_ms: u64, seen: &Seen<'_>) -> Result<(), String> {
        if self.healed_ms.is_none_or(|healed_ms| at_ms < healed_ms) {
            return Ok(());
        }
        match *seen {
            Seen::Receipt(signed) if !self.early.remove(&signed.digest) => {
                self.due.insert(signed.digest, signed);
            }
            Seen::Dispatched { signed, .. } if self.due.remove(&signed.digest).is_none() => {
                self.early.insert(signed.digest);
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        let Some((_, first)) = self.due.first_key_value() else {
            return Ok(());
        };
        let (count, stream, sequence) = (self.due.len(), first.stream, first.sequence);
        Err(format!(
            "{count} messages that were sent after everything had healed never arrived, one of \
             them sequence {sequence} of {stream}"
        ))
    }
}
