//! Law **at most once**: no application is handed the same message twice, over all lives of its
//! node, and none is handed a message that nobody signed.

use overlane_core::TransactionDigest;

use super::{Checker, Seen, Set};

#[derive(Default)]
pub(super) struct Once {
    signed: Set<TransactionDigest>,
    dispatched: Set<(usize, TransactionDigest)>,
}

impl Checker for Once {
    fn law(&self) -> &'static str {
        "at most once"
    }

    fn see(&mut self, _: u64, seen: &Seen<'_>) -> Result<(), String> {
        match *seen {
            // What is held where it was signed is on no wire before it is fetched.
            Seen::OnTheWire { signed, .. } | Seen::Receipt(signed) => {
                self.signed.insert(signed.digest);
                Ok(())
            }
            Seen::Dispatched { node, signed } => {
                let (stream, sequence) = (signed.stream, signed.sequence);
                if !self.signed.contains(&signed.digest) {
                    return Err(format!(
                        "node {node} was handed sequence {sequence} of {stream}, which nobody sent"
                    ));
                }
                if !self.dispatched.insert((node, signed.digest)) {
                    return Err(format!(
                        "node {node} was handed sequence {sequence} of {stream} twice"
                    ));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
