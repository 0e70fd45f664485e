//! How much one link may cost. Both ends say their own limits before any frame, and each direction
//! keeps to the lower: what is over a limit is then never an honest peer's.
//!
//! Law (bounded): no table of a link grows past its limit, and what breaks one ends that link's
//! epoch alone, before anything is released.

use super::wire::{OPS_PER_FRAME_MAX, RESOLUTIONS_PER_OP_MAX};
use overlane_core::wire::cbor::{CborError, Decode, Encode, Reader, Writer};

/// The limits of one link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Objects that the other end may hold of ours.
    pub exports: u32,
    /// Objects that we hold of the other end's.
    pub imports: u32,
    /// Promises with a name on the link, for each end that introduced them.
    pub promises: u32,
    /// Frames that the peer has not acknowledged, after which the application must wait. What an
    /// incoming frame asks for may take as many again.
    pub unacked_frames: u32,
    /// Messages that wait for one promise.
    pub queued_messages: u32,
    /// References that the peer may introduce in a second.
    pub introductions_per_s: u32,
    /// Frames of the peer that are processed in a second, however short they are.
    pub frames_per_s: u32,
    /// Messages to what the peer knows is revoked or data, and the like, before the epoch ends.
    pub soft_violations: u32,
    /// How long an acknowledgement waits for a frame to ride on, in milliseconds.
    pub ack_delay_ms: u64,
    /// How long a frame stays unacknowledged before the peer is asked where it is, in milliseconds.
    pub probe_ms: u64,
    /// How long a frame may stay unacknowledged while connected, in milliseconds.
    pub ack_deadline_ms: u64,
    /// Whether frames say their number. Without, both ends count, and what carries the frames must
    /// lose none.
    pub explicit_seq: bool,
}

impl Default for Limits {
    /// The limits of a node that was not told otherwise.
    fn default() -> Self {
        Self {
            exports: 4_096,
            imports: 4_096,
            promises: 1_024,
            unacked_frames: 256,
            queued_messages: 256,
            introductions_per_s: 4_096,
            frames_per_s: 16_384,
            soft_violations: 16,
            ack_delay_ms: 50,
            probe_ms: 5_000,
            ack_deadline_ms: 60_000,
            explicit_seq: true,
        }
    }
}

impl Limits {
    /// What holds on a link whose ends have these limits, seen from the end of `self`.
    #[must_use]
    pub fn with(self, peer: Self) -> Self {
        Self {
            exports: self.exports.min(peer.imports),
            imports: self.imports.min(peer.exports),
            promises: self.promises.min(peer.promises),
            unacked_frames: self.unacked_frames.min(peer.unacked_frames).max(1),
            ..self
        }
    }

    /// The most frames in the outbox.
    pub fn outbox_frames(self) -> usize {
        (self.unacked_frames as usize).saturating_mul(2)
    }

    /// The most rows that wait for an acknowledgement: no operation adds more than one for each
    /// reference it names.
    pub fn pending_rows(self) -> usize {
        self.outbox_frames()
            .saturating_mul(OPS_PER_FRAME_MAX * RESOLUTIONS_PER_OP_MAX)
    }
}

impl Encode for Limits {
    fn encode(&self, writer: &mut Writer) {
        writer
            .array(4)
            .value(&self.exports)
            .value(&self.imports)
            .value(&self.promises)
            .value(&self.unacked_frames);
    }
}

/// What the other end says; what is left out concerns the end that said it alone.
impl<'a> Decode<'a> for Limits {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(4)?;
        Ok(Self {
            exports: reader.value()?,
            imports: reader.value()?,
            promises: reader.value()?,
            unacked_frames: reader.value()?,
            ..Self::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use overlane_core::wire::cbor::{from_slice, to_vec};

    #[test]
    fn law_both_ends_keep_to_the_same_limits() {
        let generous = Limits::default();
        let careful = Limits {
            exports: 7,
            imports: 9,
            promises: 3,
            unacked_frames: 0,
            soft_violations: 1,
            ..Limits::default()
        };
        let said: Limits = from_slice(&to_vec(&careful)).unwrap();
        let (here, there) = (generous.with(said), careful.with(generous));
        assert_eq!((here.exports, here.imports), (9, 7));
        assert_eq!((there.exports, there.imports), (7, 9));
        assert_eq!((here.promises, there.promises), (3, 3));
        // A window of nothing would be no link.
        assert_eq!((here.unacked_frames, there.unacked_frames), (1, 1));
        // What one end puts up with is its own affair.
        assert_eq!(here.soft_violations, generous.soft_violations);
    }
}
