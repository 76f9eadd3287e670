//! Values written without loss, for command lines and for later comparison.

use std::time::Duration;

use event::{BitRate, Bytes};

pub(crate) fn bytes(bytes: u64) -> String {
    match Bytes(bytes).to_string() {
        short if Bytes::parse(&short) == Ok(bytes) => short,
        _ => bytes.to_string(),
    }
}

pub(crate) fn rate(rate: BitRate) -> String {
    match rate.to_string() {
        short if short.parse() == Ok(rate) => short,
        _ => format!("{}bit", rate.0),
    }
}

pub(crate) fn time(time: Duration) -> String {
    match event::format_delay(time) {
        short if event::parse_delay(&short) == Ok(time) => short,
        _ => format!("{}ns", time.as_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lose_nothing() {
        assert_eq!(time(Duration::from_micros(8_125)), "8125000ns");
        assert_eq!(time(Duration::from_millis(1_500)), "1.5s");
        assert_eq!(bytes(12_345_678), "12345678");
        assert_eq!(bytes(4096), "4KiB");
        assert_eq!(rate(BitRate(123_456_789)), "123456789bit");
    }
}
