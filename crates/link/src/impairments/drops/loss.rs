//! Random loss: independent for each packet, in bursts, or the packets of a list.
//!
//! Bursts follow Gilbert and Elliott (E. O. Elliott, "Estimates of error rates for codes on burst-noise channels",
//! Bell System Technical Journal 42, 1963): a channel with a good and a bad state, a transition probability and a
//! loss rate for each. Gilbert's channel loses everything in the bad state and nothing in the good one.

use core::fmt;
use core::str::FromStr;

use event::{Fate, Instant};

use crate::{Dice, Gate, Packet, Share};

/// Loss model of a direction.
#[derive(Clone, PartialEq, Debug)]
pub enum LossModel {
    /// Independent loss of every packet with the same probability.
    Random(Share),
    /// Channel with a good and a bad state. It starts good.
    GilbertElliott {
        /// Probability of the transition from good to bad, for each packet.
        to_bad: Share,
        /// Probability of the transition from bad to good, for each packet.
        to_good: Share,
        /// Loss rate in the bad state.
        lost_in_bad: Share,
        /// Loss rate in the good state.
        lost_in_good: Share,
    },
    /// The packets with these numbers; the first packet of a direction is number 1.
    Numbers(Vec<(u64, u64)>),
}

/// Drops packets as a loss model decides.
#[derive(Clone, Debug)]
pub struct Loss {
    model: LossModel,
    dice: Dice,
    bad: bool,
}

/// Most ranges of a list: it is scanned for every packet.
const RANGES_MAX: usize = 1_000;

impl Loss {
    /// A line with the loss of `model`.
    pub const fn new(model: LossModel, dice: Dice) -> Loss {
        Loss { model, dice, bad: false }
    }

    fn loses(&mut self, n: u64) -> bool {
        match &self.model {
            LossModel::Random(share) => self.dice.hits(n, *share),
            LossModel::GilbertElliott { to_bad, to_good, lost_in_bad, lost_in_good } => {
                let change = if self.bad { to_good } else { to_bad };
                self.bad ^= self.dice.another(1).hits(n, *change);
                self.dice.hits(n, if self.bad { *lost_in_bad } else { *lost_in_good })
            }
            LossModel::Numbers(ranges) => ranges.iter().any(|(first, last)| (*first..=*last).contains(&n)),
        }
    }
}

impl Gate for Loss {
    fn admit(&mut self, _now: Instant, packet: &Packet) -> Result<(), Fate> {
        if self.loses(packet.number) { Err(Fate::Lost) } else { Ok(()) }
    }
}

impl LossModel {
    /// Long-run loss rate; `None` for a list.
    pub fn share(&self) -> Option<f64> {
        match self {
            LossModel::Random(share) => Some(share.fraction()),
            LossModel::GilbertElliott { to_bad, to_good, lost_in_bad, lost_in_good } => {
                let changes = to_bad.fraction() + to_good.fraction();
                let bad = if changes > 0.0 { to_bad.fraction() / changes } else { 0.0 };
                Some(bad * lost_in_bad.fraction() + (1.0 - bad) * lost_in_good.fraction())
            }
            LossModel::Numbers(_) => None,
        }
    }
}

/// Examples of the syntax, see [`LossModel::from_str`].
const WORDS: &str = "0.01%, burst:0.1%/8 (share lost, packets in a burst), elliott:0.1%/10%/50%/0% (to bad, to good, \
                     lost in bad, lost in good) or packets:100/200-210";

impl FromStr for LossModel {
    type Err = String;

    /// `0.01%` · `burst:SHARE/PACKETS` · `elliott:TO_BAD/TO_GOOD/LOST_IN_BAD/LOST_IN_GOOD` · `packets:N/FIRST-LAST/…`
    fn from_str(s: &str) -> Result<LossModel, String> {
        let wrong = || format!("'{s}' is not a loss such as {WORDS}");
        let Some((kind, rest)) = s.split_once(':') else {
            return s.parse().map(LossModel::Random).map_err(|_| wrong());
        };
        let parts: Vec<&str> = rest.split('/').collect();
        match (kind, parts.as_slice()) {
            ("burst", [share, packets]) => {
                let share: Share = share.parse().map_err(|_| wrong())?;
                let packets: f64 = packets.parse().map_err(|_| wrong())?;
                burst(share, packets).ok_or_else(wrong)
            }
            ("elliott", [to_bad, to_good, lost_in_bad, lost_in_good]) => {
                let share = |text: &str| text.parse::<Share>().map_err(|_| wrong());
                Ok(LossModel::GilbertElliott {
                    to_bad: share(to_bad)?,
                    to_good: share(to_good)?,
                    lost_in_bad: share(lost_in_bad)?,
                    lost_in_good: share(lost_in_good)?,
                })
            }
            ("packets", parts) if parts.len() <= RANGES_MAX => {
                let ranges = parts.iter().map(|part| range(part)).collect::<Option<_>>();
                ranges.map(LossModel::Numbers).ok_or_else(wrong)
            }
            ("packets", parts) => {
                Err(format!("{} ranges of packets, expected at most {RANGES_MAX}", parts.len()))
            }
            _ => Err(wrong()),
        }
    }
}

/// Gilbert's channel with the given loss rate and mean burst length.
fn burst(share: Share, packets: f64) -> Option<LossModel> {
    let lost = share.fraction();
    if !(packets >= 1.0 && lost < 1.0) {
        return None;
    }
    let to_good = 1.0 / packets;
    Some(LossModel::GilbertElliott {
        // In the long run as many packets find it turning bad as turning good.
        to_bad: Share::new(to_good * lost / (1.0 - lost))?,
        to_good: Share::new(to_good)?,
        lost_in_bad: Share::ALL,
        lost_in_good: Share::NONE,
    })
}

fn range(part: &str) -> Option<(u64, u64)> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (1 <= first && first <= last).then_some((first, last))
}

impl fmt::Display for LossModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LossModel::Random(share) => share.fmt(f),
            LossModel::GilbertElliott { to_bad, to_good, lost_in_bad, lost_in_good } => {
                write!(f, "elliott:{to_bad}/{to_good}/{lost_in_bad}/{lost_in_good}")
            }
            LossModel::Numbers(ranges) => {
                let shown = |(first, last): &(u64, u64)| match first == last {
                    true => first.to_string(),
                    false => format!("{first}-{last}"),
                };
                write!(f, "packets:{}", ranges.iter().map(shown).collect::<Vec<_>>().join("/"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Handle;

    fn lost(text: &str, seed: u64, packets: u64) -> Vec<u64> {
        let mut loss = Loss::new(text.parse().expect(text), Dice::new(seed, 0));
        let plain = Packet::new(Handle(0), Instant::ZERO, 1_500, 1_538, 1);
        let mut is_lost = |number| loss.admit(Instant::ZERO, &Packet { number, ..plain }) == Err(Fate::Lost);
        (1..=packets).filter(|number| is_lost(*number)).collect()
    }

    #[test]
    fn random_loss_lies_inside_the_binomial_interval() {
        // 99 % of seeds must; of 200, more than 8 outside happen once in 10 000 times. The seeds are fixed.
        let (packets, share) = (100_000u64, 0.001);
        let expected = packets as f64 * share;
        let half_width = 2.576 * (expected * (1.0 - share)).sqrt();
        let outside = (0..200)
            .filter(|seed| (lost("0.1%", *seed, packets).len() as f64 - expected).abs() > half_width)
            .count();
        assert!(outside <= 8, "{outside} of 200");
    }

    #[test]
    fn bursts_have_their_share_and_their_length() {
        let packets = 4_000_000;
        let lost = lost("burst:0.5%/8", 1, packets);
        let bursts = 1 + lost.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
        let (share, length) = (lost.len() as f64 / packets as f64, lost.len() as f64 / bursts as f64);
        // 2 500 bursts expected: both figures within four standard deviations.
        assert!((0.0044..0.0056).contains(&share), "{share}");
        assert!((7.4..8.6).contains(&length), "{length}");
    }

    #[test]
    fn a_bad_line_may_lose_some_and_a_good_one_too() {
        let model: LossModel = "elliott:1%/9%/50%/1%".parse().expect("a model");
        let share = model.share().expect("a share");
        assert!((share - 0.059).abs() < 1e-9, "a tenth of the time bad: {share}");
        let seen = lost("elliott:1%/9%/50%/1%", 3, 1_000_000).len() as f64 / 1e6;
        assert!((seen - share).abs() < 0.004, "{seen}");
    }

    #[test]
    fn a_list_loses_its_packets_and_no_others() {
        assert_eq!(lost("packets:1/5-7/1000", 9, 999), [1, 5, 6, 7]);
    }

    #[test]
    fn one_seed_one_fate() {
        for text in ["1%", "burst:1%/4", "elliott:1%/9%/50%/1%"] {
            assert_eq!(lost(text, 5, 10_000), lost(text, 5, 10_000));
            assert_ne!(lost(text, 5, 10_000), lost(text, 6, 10_000));
        }
    }

    #[test]
    fn models_are_written_as_they_are_read() {
        for text in ["0.01%", "elliott:0.1%/10%/50%/0%", "packets:100/200-210"] {
            assert_eq!(text.parse::<LossModel>().expect(text).to_string(), text);
        }
        for text in
            ["1", "burst:1%", "burst:1%/0.5", "burst:100%/2", "packets:0", "packets:7-5", "packets:", "x:1"]
        {
            assert!(text.parse::<LossModel>().is_err(), "{text}");
        }
    }
}
