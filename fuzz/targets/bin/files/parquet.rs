//! libFuzzer around the target `parquet`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("parquet", data));
