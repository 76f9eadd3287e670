//! libFuzzer around the target `nbd_client`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("nbd_client", data));
