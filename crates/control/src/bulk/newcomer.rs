//! A sender in bulk that has less than its part of a line as yet, and whose rate still grows.
//!
//! The queue on its way is that of those who have more than their part, who give way as it grows. So neither is that queue a
//! reason to slow down, nor is what arrives the line. They may learn of it late: so for some rounds one that grows no more keeps
//! to what it has, and after those it has a slower line of its own.

/// Who has less than one in so many of its part has little.
const LITTLE: u64 = 8;
/// Who has so many percent of it has it.
const PART_PERCENT: u64 = 90;
/// A rate grows that is so many percent of what it was, within so many rounds.
const GROWN_PERCENT: u64 = 125;
const ROUNDS: u32 = 4;
/// Rounds in all after which nobody gives way any more.
const HELD_ROUNDS: u32 = 16;

/// How fast a newcomer goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pace {
    /// As its window grows: it has little.
    Window,
    /// A little faster than what arrives.
    Careful,
    /// No slower than what arrives.
    Held,
}

/// See the file's beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Newcomer {
    pace: Option<Pace>,
    /// What it had when it last had grown, in bytes per second, and rounds since.
    grown_bytes_per_s: u64,
    rounds: u32,
}

impl Newcomer {
    /// Takes what arrives, and its part, as far as it has one.
    pub(crate) fn observe(&mut self, arrives_bytes_per_s: u64, part_bytes_per_s: Option<u64>) {
        let before = self.pace;
        self.pace = match part_bytes_per_s {
            Some(part) if arrives_bytes_per_s < part / LITTLE => Some(Pace::Window),
            Some(part) if arrives_bytes_per_s < part / 100 * PART_PERCENT => Some(Pace::Careful),
            _ => None,
        };
        let is_first = self.pace.is_some() && before.is_none();
        if is_first || arrives_bytes_per_s > self.grown_bytes_per_s / 100 * GROWN_PERCENT {
            (self.grown_bytes_per_s, self.rounds) = (arrives_bytes_per_s, 0);
        }
    }

    /// A round trip is over.
    pub(crate) fn round(&mut self) {
        self.rounds = self.rounds.saturating_add(1);
    }

    /// How fast it goes on, if it is one.
    pub(crate) fn pace(&self) -> Option<Pace> {
        let pace = self.pace?;
        match self.rounds {
            ..ROUNDS => Some(pace),
            ROUNDS..HELD_ROUNDS => Some(Pace::Held),
            HELD_ROUNDS.. => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its pace in each round, given what arrives and its part.
    fn paces(rounds: &[(u64, Option<u64>)]) -> Vec<Option<Pace>> {
        let mut newcomer = Newcomer::default();
        let mut pace = |&(arrives, part)| {
            newcomer.observe(arrives, part);
            let pace = newcomer.pace();
            newcomer.round();
            pace
        };
        rounds.iter().map(&mut pace).collect()
    }

    #[test]
    fn it_is_one_while_it_grows_until_it_has_its_part() {
        let part = Some(8_000);
        let rates = [500, 999, 1_000, 4_000, 7_100, 7_200, 7_300];
        let expected = [Some(Pace::Window), Some(Pace::Window)]
            .into_iter()
            .chain([Some(Pace::Careful); 3])
            .chain([None; 2])
            .collect::<Vec<_>>();
        assert_eq!(paces(&rates.map(|rate| (rate, part))), expected);
        assert_eq!(paces(&[(500, None); 2]), [None; 2], "nobody says that it has a part");
    }

    #[test]
    fn one_that_grows_no_more_is_held_for_a_while_and_is_none_until_its_part_is_told_anew() {
        let (part, window) = (Some(8_000), Some(Pace::Window));
        let mut rounds = vec![(500, part); 18];
        let (grows, held, over) = ([window; 4], [Some(Pace::Held); 12], [None; 2]);
        assert_eq!(paces(&rounds), [&grows[..], &held, &over].concat());
        rounds.extend([(630, part), (630, None), (500, part)]);
        assert_eq!(paces(&rounds)[18..], [window, None, window]);
    }
}
