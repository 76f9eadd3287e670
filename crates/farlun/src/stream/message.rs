//! The few bytes before and after a stream.

use std::time::Duration;

use super::account::Account;

const MAGIC: [u8; 7] = *b"farlun\x02";

/// What the near end says first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hello {
    /// The far end sends.
    pub(super) reverse: bool,
    /// For how long; whole milliseconds.
    pub(super) time: Duration,
}

/// What the far end says last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Trailer {
    /// Bytes that came, or whose arrival was acknowledged.
    pub(super) bytes: u64,
    /// Its end.
    pub(super) account: Account,
}

impl Hello {
    pub(super) const LEN: usize = 16;

    pub(super) fn emit(self) -> [u8; Hello::LEN] {
        let mut bytes = [0; Hello::LEN];
        bytes[..7].copy_from_slice(&MAGIC);
        bytes[7] = self.reverse.into();
        bytes[8..].copy_from_slice(&(self.time.as_millis() as u64).to_be_bytes());
        bytes
    }

    pub(super) fn parse(bytes: &[u8; Hello::LEN]) -> Option<Hello> {
        let (start, time) = bytes.split_first_chunk::<8>()?;
        let (magic, reverse) = start.split_first_chunk::<7>()?;
        let time = Duration::from_millis(u64::from_be_bytes(*time.first_chunk()?));
        let known = *magic == MAGIC && reverse[0] <= 1 && time <= Duration::from_secs(24 * 3600);
        known.then_some(Hello { reverse: reverse[0] == 1, time })
    }
}

impl Trailer {
    pub(super) const LEN: usize = 16 + 8 * Account::WORDS;

    pub(super) fn emit(self) -> [u8; Trailer::LEN] {
        let mut bytes = [0; Trailer::LEN];
        bytes[..7].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.bytes.to_be_bytes());
        for (place, word) in bytes[16..].chunks_exact_mut(8).zip(self.account.words()) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Trailer> {
        let bytes: &[u8; Trailer::LEN] = bytes.try_into().ok()?;
        let number = |at: usize| Some(u64::from_be_bytes(*bytes[at..].first_chunk()?));
        let mut words = [0; Account::WORDS];
        for (n, word) in words.iter_mut().enumerate() {
            *word = number(16 + 8 * n)?;
        }
        let trailer = Trailer { bytes: number(8)?, account: Account::from_words(words) };
        (bytes[..7] == MAGIC).then_some(trailer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survive_the_wire() {
        let hello = Hello { reverse: true, time: Duration::from_millis(4321) };
        assert_eq!(Hello::parse(&hello.emit()), Some(hello));
        let account = Account { cpu_ns: 77, memory_pressure_bytes: 1 << 50, ..Account::default() };
        let trailer = Trailer { bytes: 1 << 40, account };
        assert_eq!(Trailer::parse(&trailer.emit()), Some(trailer));
        assert_eq!(Hello::parse(b"GET / HTTP/1.1\r\n"), None);
        assert_eq!(Trailer::parse(&[0; Trailer::LEN - 1]), None);
    }
}
