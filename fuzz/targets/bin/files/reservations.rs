//! libFuzzer around the target `reservations`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("reservations", data));
