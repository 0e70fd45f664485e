#![no_main]

#[allow(dead_code, reason = "each target runs one of the harnesses")]
#[path = "../harness.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| harness::log_frame(bytes));
