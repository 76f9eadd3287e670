//! libFuzzer around the target `serving`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("serving", data));
