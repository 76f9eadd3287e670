//! libFuzzer around the target `scsi_data`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("scsi_data", data));
