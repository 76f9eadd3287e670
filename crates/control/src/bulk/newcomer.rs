//! A sender in bulk that has less than its part of a line as yet.
//!
//! The queue on its way is that of those who have more than their part, who give way as it grows. So while its rate grows neither
//! is that queue a reason to slow down, nor is what arrives the line. They may learn of it late: so for some rounds one that
//! grows no more keeps to what it has, and after those it has a slower line of its own, until it has grown all the same.

/// Who has less than so many percent of its part is one: that is not who is let grow to twice what it has (`sharing/parts.rs`),
/// unless its rate falls.
const BEGINS_PERCENT: u64 = 40;
/// And it may have lost that again who once had so many.
const HAD_PERCENT: u64 = 60;
/// Who has less than so many has little.
const LITTLE_PERCENT: u64 = 12;
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
    /// It had less than that when it last had a part.
    had_less: bool,
    /// What it had when it last had grown, in bytes per second, and rounds as a newcomer since.
    grown_bytes_per_s: u64,
    rounds: u32,
}

impl Newcomer {
    /// Takes what arrives, and its part, as far as it has one.
    pub(crate) fn observe(&mut self, arrives_bytes_per_s: u64, part_bytes_per_s: Option<u64>) {
        let has_less =
            |percent| part_bytes_per_s.is_some_and(|part| arrives_bytes_per_s < part / 100 * percent);
        let is_less = has_less(BEGINS_PERCENT);
        let is_one = has_less(if self.pace.is_some() { PART_PERCENT } else { BEGINS_PERCENT });
        let pace = if has_less(LITTLE_PERCENT) { Pace::Window } else { Pace::Careful };
        self.pace = is_one.then_some(pace);
        if arrives_bytes_per_s > self.grown_bytes_per_s / 100 * GROWN_PERCENT {
            (self.grown_bytes_per_s, self.rounds) = (arrives_bytes_per_s, 0);
        }
        // Who has lost what it had, or whose part has become so much more, grows from there.
        if is_less && !self.had_less {
            (self.grown_bytes_per_s, self.rounds) = (arrives_bytes_per_s, 0);
        }
        if part_bytes_per_s.is_some() {
            self.had_less = is_less || self.had_less && has_less(HAD_PERCENT);
        }
    }

    /// A round trip in which it could go on so is over.
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
            if pace.is_some() {
                newcomer.round();
            }
            pace
        };
        rounds.iter().map(&mut pace).collect()
    }

    const PART: Option<u64> = Some(8_000);
    const WINDOW: Option<Pace> = Some(Pace::Window);
    const CAREFUL: Option<Pace> = Some(Pace::Careful);

    #[test]
    fn it_is_one_while_it_grows_until_it_has_its_part() {
        let rates = [500, 900, 1_000, 4_000, 7_100, 7_200, 7_100];
        let expected = [WINDOW, WINDOW, CAREFUL, CAREFUL, CAREFUL, None, None];
        assert_eq!(paces(&rates.map(|rate| (rate, PART))), expected);
        assert_eq!(paces(&[(500, None); 2]), [None; 2], "nobody says that it has a part");
    }

    #[test]
    fn who_may_grow_to_twice_what_it_has_is_none() {
        assert_eq!(paces(&[(8_000, None), (8_000, Some(16_000))]), [None; 2]);
    }

    #[test]
    fn one_that_grows_no_more_is_held_for_a_while_and_is_none_until_it_grows() {
        let slow = (500, PART);
        let held = [&[WINDOW; 4][..], &[Some(Pace::Held); 12], &[None; 2]].concat();
        assert_eq!(paces(&[slow; 18]), held);
        let again = [&[slow; 18][..], &[(500, None), slow, (400, PART), slow, (630, PART)]].concat();
        assert_eq!(paces(&again)[18..], [None, None, None, None, WINDOW]);
    }

    #[test]
    fn one_that_lost_what_it_had_or_whose_part_is_more_is_one_again() {
        let has_most = [&[(500, PART)][..], &[(7_000, PART); 18]].concat();
        assert_eq!(paces(&has_most)[18], None, "it has long been given way to");
        let then = |round| paces(&[&has_most[..], &[round]].concat())[19];
        assert_eq!(then((900, PART)), WINDOW);
        assert_eq!(then((7_000, Some(20_000))), CAREFUL);
        assert_eq!(then((3_300, PART)), None, "that is less, but not much less");
    }
}
