//! Stateless chance: the fate of the n-th packet of a direction is a function of the seed and of n.
//!
//! A generator with a state would give the n-th packet another fate as soon as an earlier packet took another way.
//! Here every question has a number, and the answer is a hash of seed, question and n: the finaliser of SplitMix64
//! (Steele, Lea and Flood, OOPSLA 2014, figure 14) over a Weyl sequence.

use core::fmt;
use core::str::FromStr;

/// Random numbers of one seed and one question, by packet number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dice {
    key: u64,
}

/// A part of all packets, from none to all.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Share(f64);

/// A text that is no share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShareError {
    found: String,
}

/// The odd number next to 2^64 over the golden ratio.
const WEYL: u64 = 0x9e37_79b9_7f4a_7c15;

impl Dice {
    /// Random numbers of `seed` for `question`, independent of those of other questions.
    pub const fn new(seed: u64, question: u64) -> Dice {
        Dice { key: mix(mix(seed.wrapping_add(WEYL)) ^ mix(question.wrapping_mul(WEYL))) }
    }

    /// Random numbers of the same seed for another question.
    pub const fn another(self, question: u64) -> Dice {
        Dice::new(self.key, question)
    }

    /// Random number of packet `n`, uniform over all values.
    pub const fn roll(self, n: u64) -> u64 {
        mix(self.key.wrapping_add(n.wrapping_mul(WEYL)))
    }

    /// True for packet `n` with probability `share`.
    pub fn hits(self, n: u64, share: Share) -> bool {
        self.fraction(n) < share.0
    }

    /// Random number of packet `n`, uniform from 0 to below 1.
    pub fn fraction(self, n: u64) -> f64 {
        // A double has 53 bits of precision.
        (self.roll(n) >> 11) as f64 / (1u64 << 53) as f64
    }
}

const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Share {
    /// No packet.
    pub const NONE: Share = Share(0.0);
    /// Every packet.
    pub const ALL: Share = Share(1.0);

    /// A share of 0 to 1; `None` if it is another number.
    pub fn new(fraction: f64) -> Option<Share> {
        (0.0..=1.0).contains(&fraction).then_some(Share(fraction))
    }

    /// From 0 to 1.
    pub const fn fraction(self) -> f64 {
        self.0
    }
}

impl fmt::Display for ShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not a share of packets such as 0.01% or 5%", self.found)
    }
}

impl core::error::Error for ShareError {}

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(s: &str) -> Result<Share, ShareError> {
        let wrong = || ShareError { found: s.to_owned() };
        // A bare 1 could be one packet in a hundred or all of them.
        let number = s.trim().strip_suffix('%').ok_or_else(wrong)?;
        number.parse().ok().and_then(|percent: f64| Share::new(percent / 100.0)).ok_or_else(wrong)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nine decimals are one packet in 10^11; a share is printed as the user wrote it, without binary rounding
        // noise.
        let text = format!("{:.9}", self.0 * 100.0);
        write!(f, "{}%", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_as_likely_and_no_two_questions_agree() {
        let (one, other) = (Dice::new(7, 0), Dice::new(7, 1));
        let mut buckets = [0u32; 64];
        let mut agree = 0;
        for n in 0..640_000 {
            buckets[(one.roll(n) >> 58) as usize] += 1;
            agree += u32::from(one.roll(n) >> 63 == other.roll(n) >> 63);
        }
        // 10 000 expected in each, standard deviation 99.
        assert!(buckets.iter().all(|count| (9_500..10_500).contains(count)), "{buckets:?}");
        // 320 000 expected, standard deviation 400.
        assert!((318_000..322_000).contains(&agree), "{agree}");
    }

    #[test]
    fn the_same_seed_gives_the_same_answer_in_any_order() {
        let dice = Dice::new(42, 3);
        let forwards: Vec<u64> = (0..100).map(|n| dice.roll(n)).collect();
        let backwards: Vec<u64> = (0..100).rev().map(|n| Dice::new(42, 3).roll(n)).collect();
        assert!(forwards.iter().eq(backwards.iter().rev()));
        assert_ne!(dice.roll(0), Dice::new(43, 3).roll(0));
    }

    #[test]
    fn shares() {
        for (text, fraction) in [("0.01%", 0.0001), ("5%", 0.05), ("100%", 1.0), ("0%", 0.0)] {
            let share: Share = text.parse().expect(text);
            assert!((share.fraction() - fraction).abs() < 1e-15, "{text}");
            assert_eq!(share.to_string(), text);
        }
        for text in ["1", "101%", "-1%", "%", "NaN%", "a lot"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
        assert_eq!(
            "1".parse::<Share>().expect_err("no unit").to_string(),
            "'1' is not a share of packets such as 0.01% or 5%"
        );
    }
}
