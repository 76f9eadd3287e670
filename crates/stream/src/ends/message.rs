//! Messages before and after a stream: the near end's hello, the far end's greeting and, last, its trailer.

use std::time::Duration;

use crate::flow::counters::EndCounters;
use crate::limits::host::HostLimits;
use crate::spec::{BLOCK_MAX_BYTES, BLOCK_MIN_BYTES, STREAMS_MAX};

/// Magic; the last byte is the version, and ends of different versions refuse each other.
const MAGIC: [u8; 7] = *b"farlun\x03";

const REVERSE: u8 = 1;
const ZERO_COPY: u8 = 2;
/// Upper limit of a flow's duration: a day.
const TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// First message of the near end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hello {
    /// True if the far end sends.
    pub(super) reverse: bool,
    /// True if it tries to send without a copy.
    pub(super) zero_copy: bool,
    /// Duration in whole milliseconds.
    pub(super) time: Duration,
    /// Identity of the run.
    pub(super) run: u64,
    /// Bytes of one read or write at the far end.
    pub(super) block_bytes: u32,
    /// Number of this stream, from 0.
    pub(super) number: u16,
    /// Streams of the run; all begin together.
    pub(super) streams: u16,
}

/// Answer of the far end once all streams of the run are there: from then on it receives or sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Greeting {
    /// Limits of its host.
    pub(super) limits: HostLimits,
}

/// Last message of the far end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Trailer {
    /// Counters of its end.
    pub(super) counters: EndCounters,
}

impl Hello {
    pub(super) const LEN: usize = 32;

    pub(super) fn emit(self) -> [u8; Hello::LEN] {
        let mut bytes = [0; Hello::LEN];
        bytes[..7].copy_from_slice(&MAGIC);
        bytes[7] = if self.reverse { REVERSE } else { 0 } | if self.zero_copy { ZERO_COPY } else { 0 };
        bytes[8..16].copy_from_slice(&(self.time.as_millis() as u64).to_be_bytes());
        bytes[16..24].copy_from_slice(&self.run.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.block_bytes.to_be_bytes());
        bytes[28..30].copy_from_slice(&self.number.to_be_bytes());
        bytes[30..].copy_from_slice(&self.streams.to_be_bytes());
        bytes
    }

    pub(super) fn parse(bytes: &[u8; Hello::LEN]) -> Option<Hello> {
        let flags = bytes[7];
        let hello = Hello {
            reverse: flags & REVERSE != 0,
            zero_copy: flags & ZERO_COPY != 0,
            time: Duration::from_millis(u64::from_be_bytes(*bytes[8..].first_chunk()?)),
            run: u64::from_be_bytes(*bytes[16..].first_chunk()?),
            block_bytes: u32::from_be_bytes(*bytes[24..].first_chunk()?),
            number: u16::from_be_bytes(*bytes[28..].first_chunk()?),
            streams: u16::from_be_bytes(*bytes[30..].first_chunk()?),
        };
        let is_known = bytes[..7] == MAGIC
            && flags & !(REVERSE | ZERO_COPY) == 0
            && hello.time <= TIME_MAX
            && (BLOCK_MIN_BYTES..=BLOCK_MAX_BYTES).contains(&hello.block_bytes)
            && hello.streams <= STREAMS_MAX
            && hello.number < hello.streams;
        is_known.then_some(hello)
    }
}

impl Greeting {
    pub(super) const LEN: usize = 8 + 8 * HostLimits::WORDS;

    pub(super) fn emit(self) -> [u8; Greeting::LEN] {
        let mut bytes = [0; Greeting::LEN];
        bytes[..7].copy_from_slice(&MAGIC);
        emit_words(&mut bytes[8..], &self.limits.words());
        bytes
    }

    pub(super) fn parse(bytes: &[u8; Greeting::LEN]) -> Option<Greeting> {
        let limits = HostLimits::from_words(parse_words(&bytes[8..])?);
        (bytes[..7] == MAGIC).then_some(Greeting { limits })
    }
}

impl Trailer {
    pub(super) const LEN: usize = 8 + 8 * EndCounters::WORDS;

    pub(super) fn emit(self) -> [u8; Trailer::LEN] {
        let mut bytes = [0; Trailer::LEN];
        bytes[..7].copy_from_slice(&MAGIC);
        emit_words(&mut bytes[8..], &self.counters.words());
        bytes
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Trailer> {
        let bytes: &[u8; Trailer::LEN] = bytes.try_into().ok()?;
        let counters = EndCounters::from_words(parse_words(&bytes[8..])?);
        (bytes[..7] == MAGIC).then_some(Trailer { counters })
    }
}

fn emit_words(bytes: &mut [u8], words: &[u64]) {
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
}

/// First words of `bytes`; `None` if there are fewer.
fn parse_words<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let mut words = [0; N];
    for (n, word) in words.iter_mut().enumerate() {
        *word = u64::from_be_bytes(*bytes.get(8 * n..)?.first_chunk()?);
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: Hello = Hello {
        reverse: true,
        zero_copy: false,
        time: Duration::from_millis(4321),
        run: 0x0123_4567_89ab_cdef,
        block_bytes: 1 << 20,
        number: 3,
        streams: 4,
    };

    #[test]
    fn survive_the_wire() {
        for hello in [HELLO, Hello { reverse: false, zero_copy: true, streams: STREAMS_MAX, ..HELLO }] {
            assert_eq!(Hello::parse(&hello.emit()), Some(hello));
        }
        let mut words = [0; HostLimits::WORDS];
        words.iter_mut().enumerate().for_each(|(n, word)| *word = 1 << (5 * n));
        let greeting = Greeting { limits: HostLimits::from_words(words) };
        assert_eq!(greeting.limits.words(), words);
        assert_eq!(Greeting::parse(&greeting.emit()), Some(greeting));
        let counters =
            EndCounters { cpu_ns: 77, memory_max_bytes: 1 << 50, zero_copy: 2, ..EndCounters::default() };
        let trailer = Trailer { counters };
        assert_eq!(Trailer::parse(&trailer.emit()), Some(trailer));
    }

    #[test]
    fn what_is_none_of_ours_is_refused() {
        assert_eq!(Hello::parse(b"GET / HTTP/1.1\r\nHost: stores\r\n\r\n"), None);
        for wrong in [
            Hello { time: TIME_MAX + Duration::from_millis(1), ..HELLO },
            Hello { block_bytes: BLOCK_MIN_BYTES - 1, ..HELLO },
            Hello { block_bytes: BLOCK_MAX_BYTES + 1, ..HELLO },
            Hello { number: 4, ..HELLO },
            Hello { number: 0, streams: 0, ..HELLO },
            Hello { streams: STREAMS_MAX + 1, ..HELLO },
        ] {
            assert_eq!(Hello::parse(&wrong.emit()), None, "{wrong:?}");
        }
        let mut older = HELLO.emit();
        older[6] = 2;
        assert_eq!(Hello::parse(&older), None);
        assert_eq!(Greeting::parse(&[0; Greeting::LEN]), None);
        assert_eq!(Trailer::parse(&[0; Trailer::LEN]), None);
        assert_eq!(Trailer::parse(&[0; Trailer::LEN - 1]), None);
    }
}
