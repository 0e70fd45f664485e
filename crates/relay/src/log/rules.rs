//! Who may do what with a log, and what an envelope of it is.

use super::bounds::{PUSH_BYTES_PER_MINUTE, WORK_BYTES_PER_MINUTE};
use super::id::{EnvelopeId, LogId, address};
use super::refusal::Refusal;
use super::retention::Retention;
use overlane_core::Did;

/// What a peer may do with a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nothing; it is not told whether the log is here.
    None,
    /// Read it, and add what it wrote itself.
    Member,
    /// Read it, and add what anyone wrote who may: another holder.
    Holder,
}

/// What an envelope is, once its log's rules took it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judged {
    /// Its name, by its content.
    pub id: EnvelopeId,
    /// Who wrote it, which its content proves.
    pub author: Did,
    /// The last instant at which it is kept; [`u64::MAX`] where only the log's retention says.
    pub expires_ms: u64,
}

/// What one peer may cost in a minute, and at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Bytes hashed, or read and checked, for it.
    pub work_bytes: u64,
    /// Bytes of envelopes pushed to it.
    pub push_bytes: u64,
}

impl Default for Allowance {
    fn default() -> Self {
        Self {
            work_bytes: WORK_BYTES_PER_MINUTE,
            push_bytes: PUSH_BYTES_PER_MINUTE,
        }
    }
}

/// The rules of the logs of one node.
pub trait Rules {
    /// What `peer` may do with `log` now.
    fn access(&self, log: &LogId, peer: &Did) -> Access;

    /// How much of the log is kept, and what happens when it is full.
    fn retention(&self, log: &LogId) -> Retention;

    /// Whether an author has a share of the log of its own; all that have none have one together.
    fn has_share(&self, _log: &LogId, _author: &Did) -> bool {
        true
    }

    /// The name under which an envelope is refused, before anything of it was checked.
    fn name(&self, envelope: &[u8]) -> EnvelopeId {
        address(envelope)
    }

    /// What one peer may cost.
    fn allowance(&self) -> Allowance {
        Allowance::default()
    }

    /// Bytes that one slot may have brought into logs that make room fairly.
    fn slot_bytes(&self) -> u64 {
        u64::MAX
    }

    /// Bytes that all such logs may hold.
    fn all_bytes(&self) -> u64 {
        u64::MAX
    }

    /// Checks an envelope that `from` brought: every signature in it, and that it belongs here.
    ///
    /// # Errors
    /// The reason, which the peer is told by its code.
    fn judge(
        &mut self,
        log: &LogId,
        envelope: &[u8],
        from: &Did,
        now_ms: u64,
    ) -> Result<Judged, Refusal>;
}
