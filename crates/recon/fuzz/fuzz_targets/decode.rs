//! Any bytes decode or are refused, and what decodes has one encoding.
#![no_main]

use libfuzzer_sys::fuzz_target;
use overlane_recon::Message;
use overlane_recon::frames::Frame;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = Message::decode(bytes) {
        assert_eq!(message.encode(), bytes);
    }
    if let Ok(frame) = Frame::decode(bytes) {
        assert_eq!(frame.encode(), bytes);
    }
});
