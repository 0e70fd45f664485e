//! What a frame is, decided by its first four bytes before anything is decoded.

use super::bounds::{CONTROL_FRAME_MAX_BYTES, FRAME_MAX_BYTES, MARKER_BYTES};
use crate::fault::{Coded, Fault};

/// Marker of a payload frame.
pub const PAYLOAD_MARKER: [u8; MARKER_BYTES] = *b"OvPy";

/// Marker of a link control frame.
pub const CONTROL_MARKER: [u8; MARKER_BYTES] = *b"OvLc";

/// A frame whose marker and size are right; its body is not looked at yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The body of a payload frame.
    Payload(&'a [u8]),
    /// The body of a link control frame.
    Control(&'a [u8]),
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
        match bytes.split_first_chunk() {
            Some((&PAYLOAD_MARKER, body)) => Ok(Self::Payload(body)),
            Some((&CONTROL_MARKER, _)) if size_bytes > CONTROL_FRAME_MAX_BYTES => {
                Err(FrameError::Oversized {
                    size_bytes,
                    bound_bytes: CONTROL_FRAME_MAX_BYTES,
                })
            }
            Some((&CONTROL_MARKER, body)) => Ok(Self::Control(body)),
            _ => Err(FrameError::UnknownMarker),
        }
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
    /// Neither a payload frame nor a link control frame.
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
        for other in [&b""[..], b"OvP", b"ovpy....", b"\x82\x00\x00\x00"] {
            assert_eq!(Frame::split(other), Err(FrameError::UnknownMarker));
        }
    }

    #[test]
    fn a_full_frame_is_taken_and_one_byte_more_is_refused() {
        for (marker, bound_bytes) in [
            (PAYLOAD_MARKER, FRAME_MAX_BYTES),
            (CONTROL_MARKER, CONTROL_FRAME_MAX_BYTES),
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
