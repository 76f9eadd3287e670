//! libFuzzer around the target `framing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("framing", data));
