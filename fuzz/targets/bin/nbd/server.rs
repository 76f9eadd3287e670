//! libFuzzer around the target `nbd_server`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("nbd_server", data));
