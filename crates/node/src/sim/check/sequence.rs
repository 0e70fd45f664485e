//! Law **no sequence twice**: no two messages are ever signed under one sequence of a stream, over
//! all lives of the node that signs.

use overlane_core::{StreamKey, TransactionDigest};

use super::{Checker, Map, Seen, Signed};

#[derive(Default)]
pub(super) struct Sequence {
    used: Map<StreamKey, Map<u64, TransactionDigest>>,
}

impl Checker for Sequence {
    fn law(&self) -> &'static str {
        "no sequence twice"
    }

    fn see(&mut self, _: u64, seen: &Seen<'_>) -> Result<(), String> {
        let (Seen::OnTheWire { signed, .. } | Seen::Receipt(signed)) = seen else {
            return Ok(());
        };
        let Signed {
            stream,
            sequence,
            digest,
        } = *signed;
        let of_stream = self.used.entry(stream).or_default();
        let used = of_stream.entry(sequence).or_insert(digest);
        if *used != digest {
            return Err(format!(
                "sequence {sequence} of {stream} was signed for two messages"
            ));
        }
        Ok(())
    }
}
