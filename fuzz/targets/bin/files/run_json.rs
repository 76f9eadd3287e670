//! libFuzzer around the target `run_json`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("run_json", data));
