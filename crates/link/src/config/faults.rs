//! Impairments of a path as options name them: each for both directions or for one.
//!
//! Commands and plans parse them with the same types, so that both accept the same values.

use core::str::FromStr;
use core::time::Duration;

use event::{BitRate, format_delay, parse_delay};

use crate::{Both, Contract, JitterModel, Line, LossModel, Outage, Own, Reordering, Share};

/// Longest extra delay: TCP takes a packet that is held back for longer as lost.
const LONGEST: Duration = Duration::from_secs(10);
/// Extra delay of a reordered packet if none is configured.
const USUAL_HOLD: Duration = Duration::from_millis(1);

/// Extra delay of a packet, up to 10 s.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Time(pub Duration);

/// When a line is down.
#[derive(Clone, PartialEq, Debug)]
pub struct Schedule(pub Vec<Outage>);

/// Rates of lines, from the first host on; none if all share one.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Rates(pub Vec<BitRate>);

/// Impairments of a path.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Faults {
    /// Policer at the entry.
    pub police: Both<Contract>,
    /// Packets that are lost.
    pub loss: Both<LossModel>,
    /// Largest jitter.
    pub jitter: Both<Time>,
    /// True if jitter may reorder packets.
    pub jitter_overtakes: bool,
    /// Share of packets that are held back, so that later ones overtake them.
    pub reorder: Both<Share>,
    /// Time for which they are held back.
    pub reorder_hold: Both<Time>,
    /// Packets that arrive twice.
    pub duplicate: Both<Share>,
    /// Period of a line that packs small frames together.
    pub merge_acks: Both<Time>,
    /// Hold time of interrupt coalescing at the receiving host.
    pub coalesce: Both<Time>,
    /// Timer tick of a receiving host that polls only then.
    pub tick: Both<Time>,
    /// When the line is down.
    pub down: Both<Schedule>,
    /// Lines that hosts of the near end have to themselves.
    pub near_rates: Rates,
}

impl Faults {
    /// Sets an impairment that takes a value, by the name of its flag of `farlun wan`.
    pub fn set(&mut self, flag: &str, text: &str) -> Result<(), String> {
        match flag {
            "police" => self.police = text.parse()?,
            "loss" => self.loss = text.parse()?,
            "jitter" => self.jitter = text.parse()?,
            "reorder" => self.reorder = text.parse()?,
            "reorder-hold" => self.reorder_hold = text.parse()?,
            "duplicate" => self.duplicate = text.parse()?,
            "merge-acks" => self.merge_acks = text.parse()?,
            "coalesce" => self.coalesce = text.parse()?,
            "tick" => self.tick = text.parse()?,
            "down" => self.down = text.parse()?,
            "near-rates" => self.near_rates = text.parse()?,
            _ => return Err(format!("a path has no '{flag}'")),
        }
        Ok(())
    }

    /// `line` with the impairments of one direction.
    pub fn on(&self, near: bool, line: &Line) -> Line {
        let time = |value: &Both<Time>| value.of(near).map(|time| time.0).filter(|time| !time.is_zero());
        let hold = self.reorder_hold.of(near).map_or(USUAL_HOLD, |hold| hold.0);
        let rates = self.near_rates.0.clone();
        Line {
            own: Own { of_sender: near && !rates.is_empty(), rates },
            police: self.police.of(near).copied(),
            loss: self.loss.of(near).cloned(),
            jitter: time(&self.jitter).map(|most| JitterModel { most, overtaking: self.jitter_overtakes }),
            reorder: self.reorder.of(near).map(|share| Reordering { share: *share, hold }),
            duplicate: self.duplicate.of(near).copied(),
            merge: time(&self.merge_acks),
            coalesce: time(&self.coalesce),
            tick: time(&self.tick),
            outages: self.down.of(near).map_or(Vec::new(), |down| down.0.clone()),
            ..line.clone()
        }
    }
}

impl FromStr for Time {
    type Err = String;

    fn from_str(s: &str) -> Result<Time, String> {
        let time = parse_delay(s).map_err(|error| error.to_string())?;
        if time > LONGEST {
            return Err(format!("'{s}' is more than {}", format_delay(LONGEST)));
        }
        Ok(Time(time))
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(s: &str) -> Result<Schedule, String> {
        s.split(',').map(str::parse).collect::<Result<_, _>>().map(Schedule)
    }
}

impl FromStr for Rates {
    type Err = String;

    fn from_str(s: &str) -> Result<Rates, String> {
        let rate = |text: &str| text.parse::<BitRate>().map_err(|error| error.to_string());
        s.split(',').map(rate).collect::<Result<_, _>>().map(Rates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;

    use event::BitRate;

    fn line() -> Line {
        Line::plain(Shape { delay: Duration::ZERO, rate: BitRate(1_000_000), queue_bytes: 10_000 })
    }

    #[test]
    fn what_is_said_of_one_direction_happens_on_that() {
        let mut faults = Faults::default();
        for (flag, text) in [
            ("police", "near:500kbit/20KB"),
            ("loss", "far:0.1%"),
            ("jitter", "near:1ms,far:0"),
            ("reorder", "near:1%"),
            ("duplicate", "0%"),
            ("merge-acks", "125us"),
            ("down", "near:1s+1ms,5s+2ms/10s,far:0+1s"),
            ("near-rates", "400kbit,600kbit"),
        ] {
            faults.set(flag, text).expect(flag);
        }
        faults.jitter_overtakes = true;
        let [near, far] = [true, false].map(|near| faults.on(near, &line()));
        assert!(near.police.is_some() && far.police.is_none());
        assert!(near.loss.is_none() && far.loss.is_some());
        assert!(near.jitter.is_some_and(|jitter| jitter.overtaking) && far.jitter.is_none());
        assert_eq!(near.reorder.map(|reorder| reorder.hold), Some(USUAL_HOLD));
        assert_eq!((near.duplicate, far.duplicate), (Some(Share::NONE), Some(Share::NONE)));
        assert_eq!((near.merge, far.merge), (far.merge, Some(Duration::from_micros(125))));
        assert_eq!((near.outages.len(), far.outages.len()), (2, 1));
        assert_eq!((near.own.of_sender, far.own.of_sender), (true, false));
        let rates = [BitRate(400_000), BitRate(600_000)];
        assert_eq!([near.own.rates, far.own.rates], [rates, rates]);
        assert_eq!(Faults::default().on(true, &line()), line());
    }

    #[test]
    fn mistakes_are_named() {
        let mut faults = Faults::default();
        for (flag, text, said) in [
            ("jitter", "11s", "'11s' is more than 10s"),
            ("tick", "near:11s", "'11s' is more than 10s"),
            ("jitter", "3", "'3' is not a time such as 8ms, 250us, 1.5s"),
            ("reorder", "1", "'1' is not a share of packets such as 0.01% or 5%"),
            ("delay", "1ms", "a path has no 'delay'"),
        ] {
            assert_eq!(faults.set(flag, text), Err(said.to_owned()), "{flag} {text}");
        }
        assert!(faults.set("down", "5s").is_err_and(|said| said.contains("is not an outage such as")));
        assert_eq!(faults, Faults::default());
    }
}
