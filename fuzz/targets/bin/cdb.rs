//! libFuzzer around the target `cdb`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("cdb", data));
