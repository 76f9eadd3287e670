//! libFuzzer around the target `capture`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("capture", data));
