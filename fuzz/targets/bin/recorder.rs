//! libFuzzer around the target `recorder`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("recorder", data));
