//! A log anyone may read and write, whose envelopes name their author in the clear: what is measured
//! is the log and its store, and no signature.

use overlane_core::Did;
use overlane_relay::log::{Access, EnvelopeId, Judged, LogId, Peer, Refusal, Retention, Rules};

pub(crate) const LOG: LogId = LogId([7; 32]);

#[derive(Debug)]
pub(crate) struct Open;

impl Rules for Open {
    fn access(&self, _: &LogId, _: &Did) -> Access {
        Access::Holder
    }

    fn retention(&self, _: &LogId) -> Retention {
        Retention {
            entries: u64::MAX,
            bytes: u64::MAX,
            ..Retention::GROUP
        }
    }

    fn judge(&mut self, _: &LogId, envelope: &[u8], _: &Did, _: u64) -> Result<Judged, Refusal> {
        Ok(Judged {
            id: id_of(envelope),
            author: peer().account,
            expires_ms: u64::MAX,
        })
    }
}

pub(crate) fn peer() -> Peer {
    Peer {
        account: Did([1; 20]),
        slot: 0,
    }
}

pub(crate) fn id_of(envelope: &[u8]) -> EnvelopeId {
    overlane_recon::Id(*blake3::hash(envelope).as_bytes())
}

/// The envelope of this number: as random as sealed bytes are.
pub(crate) fn envelope(number: u64, bytes: usize) -> Vec<u8> {
    let mut envelope = vec![0; bytes];
    let mut source = blake3::Hasher::new();
    source.update(&number.to_be_bytes());
    source.finalize_xof().fill(&mut envelope);
    envelope
}
