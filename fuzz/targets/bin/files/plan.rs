//! libFuzzer around the target `plan`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("plan", data));
