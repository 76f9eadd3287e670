//! Log lines on stores: a repeated line would fill the log, and so would lines that each name another access.

use std::collections::HashMap;
use std::time::Duration;

use event::Instant;

/// Time until the same line is logged again.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Lines on one LUN in a period, and its length.
const LINES_MAX: u32 = 5;
const PERIOD: Duration = Duration::from_secs(10);

/// Lines on each LUN.
#[derive(Debug, Default)]
pub(crate) struct Told {
    luns: HashMap<u16, Lines>,
}

/// Lines on one LUN: the last one with its time, and the number in the current period.
#[derive(Debug)]
struct Lines {
    text: String,
    at: Instant,
    since: Instant,
    count: u32,
    left_out: u64,
}

impl Told {
    /// The line to log for `text` on LUN `number`, if any; it names the number of other lines that were left out.
    pub(crate) fn line(&mut self, number: u16, text: String, now: Instant) -> Option<String> {
        let fresh = || Lines { text: String::new(), at: now, since: now, count: 0, left_out: 0 };
        let lines = self.luns.entry(number).or_insert_with(fresh);
        if lines.text == text && now < lines.at + AGAIN_AFTER {
            return None;
        }
        if now >= lines.since + PERIOD {
            (lines.since, lines.count) = (now, 0);
        }
        if lines.count >= LINES_MAX {
            lines.left_out += 1;
            return None;
        }
        lines.count += 1;
        let line = match std::mem::take(&mut lines.left_out) {
            0 => text.clone(),
            left_out => format!("{text} (before it, {left_out} lines on this LUN are left out)"),
        };
        (lines.text, lines.at) = (text, now);
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Instant {
        Instant::from_nanos(0) + Duration::from_secs(s)
    }

    #[test]
    fn the_same_is_said_once_a_minute() {
        let mut told = Told::default();
        let mut is_new = |number, text: &str, now| told.line(number, text.to_owned(), now).is_some();
        assert!(is_new(0, "lost", at(0)) && !is_new(0, "lost", at(59)));
        assert!(is_new(1, "lost", at(59)), "another LUN");
        assert!(is_new(0, "cut", at(59)) && is_new(0, "lost", at(59)), "something else");
        assert!(is_new(0, "lost", at(119)));
    }

    /// A store may name the place of each access that fails.
    #[test]
    fn lines_that_differ_are_limited_as_well() {
        let mut told = Told::default();
        let mut line = |number, access: u32, now| told.line(number, format!("access {access}"), now);
        assert_eq!((0..1000).filter_map(|access| line(0, access, at(1))).count(), 5);
        assert_eq!(line(1, 1000, at(1)).as_deref(), Some("access 1000"), "another LUN");
        let late = line(0, 1000, at(11));
        assert_eq!(late.as_deref(), Some("access 1000 (before it, 995 lines on this LUN are left out)"));
        assert_eq!(line(0, 1001, at(11)).as_deref(), Some("access 1001"));
    }
}
