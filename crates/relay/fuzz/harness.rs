//! What must hold of any bytes at all. The fuzz targets and the test suite run the same functions.

use overlane_core::wire::cbor::{Value, from_slice};
use overlane_relay::refs::wire::Frame;

/// Bytes are the one form of a frame, or refused.
pub(crate) fn refs_frame(bytes: &[u8]) {
    if let Ok(frame) = Frame::from_bytes(bytes) {
        assert_eq!(frame.to_bytes(), bytes);
        // A structure that miscounts its fields reads its own bytes, but they are not one item.
        assert!(from_slice::<Value>(bytes).is_ok());
    }
}
