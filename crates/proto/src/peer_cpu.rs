//! CPU time of a farlun target, requested by a farlun initiator: a text request with one private key (RFC 7143 section
//! 13.22), sent only when the login showed a farlun peer.

use wire::iscsi::text::{TextWriter, pairs};

const KEY: &str = "X-io.farlun.cpu_ns";

/// The request text.
pub fn request() -> Vec<u8> {
    one(KEY, "?")
}

/// Returns true for the request text.
pub fn is_request(text: &[u8]) -> bool {
    value(text) == Some("?")
}

/// The answer text.
pub fn answer(cpu_ns: u64) -> Vec<u8> {
    one(KEY, &cpu_ns.to_string())
}

/// CPU time in nanoseconds from an answer; `None` if the answer holds none.
pub fn read_answer(text: &[u8]) -> Option<u64> {
    value(text)?.parse().ok()
}

fn one(key: &str, value: &str) -> Vec<u8> {
    let mut text = Vec::new();
    TextWriter::new(&mut text).push(key, value);
    text
}

fn value(text: &[u8]) -> Option<&str> {
    let pair = pairs(text).next()?.ok()?;
    (pair.0 == KEY).then_some(pair.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_and_answer() {
        assert!(is_request(&request()) && !is_request(&answer(7)) && !is_request(b"SendTargets=All\0"));
        assert_eq!(read_answer(&answer(123)), Some(123));
        assert_eq!(read_answer(b"X-io.farlun.cpu_ns=NotUnderstood\0"), None);
    }
}
