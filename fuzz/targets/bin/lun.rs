//! libFuzzer around the target `lun`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("lun", data));
