//! Last log line on each store: a repeated line would fill the log.

use std::collections::HashMap;
use std::time::Duration;

use event::Instant;

/// Time until the same line is logged again.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Last line on each LUN, and its time.
#[derive(Debug, Default)]
pub(crate) struct Told {
    last: HashMap<u16, (String, Instant)>,
}

impl Told {
    /// Returns true if `text` is to be logged for LUN `number`; it then counts as logged.
    pub(crate) fn is_new(&mut self, number: u16, text: &str, now: Instant) -> bool {
        let is_old = self.last.get(&number).is_some_and(|(last, at)| last == text && now < *at + AGAIN_AFTER);
        if !is_old {
            self.last.insert(number, (text.to_owned(), now));
        }
        !is_old
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_once_a_minute() {
        let mut told = Told::default();
        let at = |s: u64| Instant::from_nanos(0) + Duration::from_secs(s);
        assert!(told.is_new(0, "lost", at(0)) && !told.is_new(0, "lost", at(59)));
        assert!(told.is_new(1, "lost", at(59)), "another LUN");
        assert!(told.is_new(0, "cut", at(59)) && told.is_new(0, "lost", at(59)), "something else");
        assert!(told.is_new(0, "lost", at(119)));
    }
}
