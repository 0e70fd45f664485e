//! What a frame is, decided by its first four bytes before anything is decoded.

use super::bounds::{BATCH_MAX_BYTES, CONTROL_FRAME_MAX_BYTES, FRAME_MAX_BYTES, MARKER_BYTES};
use crate::fault::{Coded, Fault};

/// Marker of a payload frame.
pub const PAYLOAD_MARKER: [u8; MARKER_BYTES] = *b"OvPy";

/// Marker of a link control frame.
pub const CONTROL_MARKER: [u8; MARKER_BYTES] = *b"OvLc";

/// Marker of a batch of payload frames.
pub const BATCH_MARKER: [u8; MARKER_BYTES] = *b"OvBt";

/// A frame whose marker and size are right; its body is not looked at yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The body of a payload frame.
    Payload(&'a [u8]),
    /// The body of a link control frame.
    Control(&'a [u8]),
    /// The body of a batch of payload frames, which exists only between the two ends of a link.
    Batch(&'a [u8]),
}

impl<'a> Frame<'a> {
    /// Splits a frame from its marker.
    ///
    /// # Errors
    /// A frame over its size bound, or without a known marker.
    pub fn split(bytes: &'a [u8]) -> Result<Self, FrameError> {
        let size_bytes = bytes.len();
        if size_bytes > FRAME_MAX_BYTES {
            return Err(FrameError::Oversized {
                size_bytes,
                bound_bytes: FRAME_MAX_BYTES,
            });
        }
        let (frame, bound_bytes) = match bytes.split_first_chunk() {
            Some((&PAYLOAD_MARKER, body)) => (Self::Payload(body), FRAME_MAX_BYTES),
            Some((&CONTROL_MARKER, body)) => (Self::Control(body), CONTROL_FRAME_MAX_BYTES),
            Some((&BATCH_MARKER, body)) => (Self::Batch(body), BATCH_MAX_BYTES),
            _ => return Err(FrameError::UnknownMarker),
        };
        if size_bytes > bound_bytes {
            return Err(FrameError::Oversized {
                size_bytes,
                bound_bytes,
            });
        }
        Ok(frame)
    }
}

/// Bytes that are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Larger than the bound on its kind.
    #[error("a frame of {size_bytes} bytes; at most {bound_bytes} are taken")]
    Oversized {
        /// The frame's size, its marker included.
        size_bytes: usize,
        /// The bound on its kind.
        bound_bytes: usize,
    },
    /// No frame of this protocol.
    #[error("the frame begins with no known marker")]
    UnknownMarker,
}

impl Coded for FrameError {
    fn code(&self) -> &'static str {
        match self {
            Self::Oversized { .. } => "frame/oversized",
            Self::UnknownMarker => "frame/unknown_marker",
        }
    }

    fn fault(&self) -> Fault {
        Fault::PeerMisbehaved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_decide_and_nothing_else_passes() {
        assert_eq!(Frame::split(b"OvPyrest"), Ok(Frame::Payload(b"rest")));
        assert_eq!(Frame::split(b"OvLc"), Ok(Frame::Control(b"")));
        assert_eq!(Frame::split(b"OvBt"), Ok(Frame::Batch(b"")));
        for other in [&b""[..], b"OvP", b"ovpy....", b"\x82\x00\x00\x00"] {
            assert_eq!(Frame::split(other), Err(FrameError::UnknownMarker));
        }
    }

    #[test]
    fn a_full_frame_is_taken_and_one_byte_more_is_refused() {
        for (marker, bound_bytes) in [
            (PAYLOAD_MARKER, FRAME_MAX_BYTES),
            (CONTROL_MARKER, CONTROL_FRAME_MAX_BYTES),
            (BATCH_MARKER, BATCH_MAX_BYTES),
        ] {
            let mut bytes = marker.to_vec();
            bytes.resize(bound_bytes, 0);
            assert!(Frame::split(&bytes).is_ok());
            bytes.push(0);
            let size_bytes = bound_bytes + 1;
            let error = FrameError::Oversized {
                size_bytes,
                bound_bytes,
            };
            assert_eq!(Frame::split(&bytes), Err(error));
        }
    }
}
