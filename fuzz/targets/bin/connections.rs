//! libFuzzer around the target `connections`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("connections", data));
