//! Scheduled outages of a line: packets that arrive while it is down are lost.
//!
//! Packets already on the line are still delivered: only the entry is closed, as when a route is withdrawn.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use event::{Fate, Instant, format_delay, parse_delay};

use crate::{Gate, Packet};

/// An outage, once or periodic, relative to the start of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outage {
    /// Start of the first outage.
    pub start: Duration,
    /// Length of an outage.
    pub length: Duration,
    /// Period from start to start; `None` for a single outage.
    pub every: Option<Duration>,
}

/// Drops packets during outages.
#[derive(Clone, Debug)]
pub struct Outages {
    list: Vec<Outage>,
    begun: Option<Instant>,
}

impl Outages {
    /// A line that is up until [`Gate::begin`].
    pub const fn new(list: Vec<Outage>) -> Outages {
        Outages { list, begun: None }
    }
}

impl Outage {
    /// True if the line is down `at` this time after the start of a run.
    pub fn covers(&self, at: Duration) -> bool {
        let Some(since) = at.checked_sub(self.start) else { return false };
        let within = match self.every {
            Some(every) => Duration::from_nanos((since.as_nanos() % every.as_nanos()) as u64),
            None => since,
        };
        within < self.length
    }
}

impl Gate for Outages {
    fn admit(&mut self, now: Instant, _packet: &Packet) -> Result<(), Fate> {
        let at = self.begun.map(|begun| now.since(begun));
        let down = at.is_some_and(|at| self.list.iter().any(|outage| outage.covers(at)));
        if down { Err(Fate::LineDown) } else { Ok(()) }
    }

    fn begin(&mut self, now: Instant) {
        self.begun.get_or_insert(now);
    }
}

impl FromStr for Outage {
    type Err = String;

    /// `START+LENGTH`, or `START+LENGTH/EVERY`
    fn from_str(s: &str) -> Result<Outage, String> {
        let read = || {
            let (start, rest) = s.split_once('+')?;
            let (length, every) = match rest.split_once('/') {
                Some((length, every)) => (length, Some(parse_delay(every).ok()?)),
                None => (rest, None),
            };
            let outage = Outage { start: parse_delay(start).ok()?, length: parse_delay(length).ok()?, every };
            outage.every.is_none_or(|every| every > outage.length).then_some(outage)
        };
        read().ok_or_else(|| {
            format!(
                "'{s}' is not an outage such as 10s+200ms (at 10 s for 200 ms) or 10s+200ms/30s (every 30 s)"
            )
        })
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", format_delay(self.start), format_delay(self.length))?;
        match self.every {
            Some(every) => write!(f, "/{}", format_delay(every)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Handle;

    #[test]
    fn the_line_is_down_when_the_schedule_says() {
        let list = ["10s+200ms", "1s+5ms/2s"].map(|text| text.parse().expect(text));
        let mut outages = Outages::new(list.to_vec());
        let begun = Instant::from_nanos(77);
        let packet = Packet::new(Handle(0), begun, 1_500, 1_538, 1);
        let mut up = |ms: u64| outages.admit(begun + Duration::from_millis(ms), &packet).is_ok();
        assert!(up(1_000), "it has not begun");
        outages.begin(begun);
        let mut up = |ms: u64| outages.admit(begun + Duration::from_millis(ms), &packet).is_ok();
        for (ms, expected) in [
            (0, true),
            (999, true),
            (1_000, false),
            (1_004, false),
            (1_005, true),
            (3_001, false),
            (10_000, false),
        ] {
            assert_eq!(up(ms), expected, "{ms} ms");
        }
        assert!(!up(10_199) && up(10_200));
    }

    #[test]
    fn outages_are_written_as_they_are_read() {
        for text in ["10s+200ms", "1s+5ms/2s", "0+1s"] {
            assert_eq!(text.parse::<Outage>().expect(text).to_string(), text);
        }
        for text in ["10s", "10+1s", "1s+2s/1s", "1s+2s/2s", "+", ""] {
            assert!(text.parse::<Outage>().is_err(), "{text}");
        }
    }
}
