//! Words of a command line: gathered, quoted for a shell, and values written so that nothing of them is lost.

use std::time::Duration;

use event::{BitRate, Bytes};

/// A command line that grows.
pub(super) struct Words(pub(super) Vec<String>);

impl Words {
    pub(super) fn new(program: &str) -> Words {
        Words(vec![program.to_owned()])
    }

    pub(super) fn push<const N: usize>(&mut self, words: [&str; N]) {
        self.0.extend(words.map(str::to_owned));
    }
}

/// Words as a POSIX shell takes them.
pub fn quoted(words: &[String]) -> String {
    words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}

pub(super) fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

pub(super) fn exact_bytes(bytes: u64) -> String {
    match Bytes(bytes).to_string() {
        short if Bytes::parse(&short) == Ok(bytes) => short,
        _ => bytes.to_string(),
    }
}

pub(super) fn exact_rate(rate: BitRate) -> String {
    match rate.to_string() {
        short if short.parse() == Ok(rate) => short,
        _ => format!("{}bit", rate.0),
    }
}

pub(super) fn exact_time(time: Duration) -> String {
    match event::format_delay(time) {
        short if event::parse_delay(&short) == Ok(time) => short,
        _ => format!("{}ns", time.as_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_a_shell() {
        for (word, shell) in
            [("a-b", "a-b"), ("", "''"), ("two words", "'two words'"), ("it's", r"'it'\''s'"), ("$x", "'$x'")]
        {
            assert_eq!(quote(word), shell);
        }
    }

    #[test]
    fn values_lose_nothing() {
        assert_eq!(exact_time(Duration::from_micros(8_125)), "8125000ns");
        assert_eq!(exact_time(Duration::from_millis(1_500)), "1.5s");
        assert_eq!(exact_bytes(12_345_678), "12345678");
        assert_eq!(exact_bytes(4096), "4KiB");
        assert_eq!(exact_rate(BitRate(123_456_789)), "123456789bit");
    }
}
