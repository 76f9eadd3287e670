//! libFuzzer around the target `login_text`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("login_text", data));
