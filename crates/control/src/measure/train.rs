//! How fast the packets of a burst arrive, from counts of what has arrived taken a few milliseconds apart.
//!
//! The kernel's delivery rate of a lone burst is that of the burst over a whole round trip and its own length. Here only
//! the time counts during which packets arrive one after the other: as fast as they were sent, or as fast as the line
//! carries them.

use core::time::Duration;

use event::Instant;

use crate::policy::Observation;

/// Shorter trains say nothing: acknowledgements come in bunches.
const TRAIN_MIN_TIME: Duration = Duration::from_millis(2);
const TRAIN_MIN_PACKETS: u32 = 48;
/// One that goes on is measured piece by piece, each of them as long as it takes to say something.
const TRAIN_MAX_TIME: Duration = Duration::from_millis(50);

/// A train being watched.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Train {
    /// The last look.
    last: Option<Look>,
    /// What packets arrived before and after.
    inside: Option<Inside>,
}

#[derive(Clone, Copy, Debug)]
struct Inside {
    begin: Look,
    /// The last look but one, and the last.
    before: Look,
    end: Look,
    longest_gap: Duration,
}

/// A train that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Measured {
    pub(crate) bytes_per_s: u64,
    /// The longest time between two looks at it: nobody knows whether packets arrived all the while.
    pub(crate) longest_gap: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    at: Instant,
    delivered_packets: u32,
}

impl Train {
    /// Takes a look; a train that has ended.
    pub(crate) fn observe(&mut self, seen: &Observation) -> Option<Measured> {
        let delivered_packets = seen.delivered_packets;
        let look = Look { at: seen.now, delivered_packets };
        let last = self.last.replace(look);
        let is_moving = last.is_some_and(|last| delivered_packets != last.delivered_packets);
        let is_inside = is_moving && seen.unacked_packets > 0;
        if is_inside {
            let begun = Inside { begin: look, before: look, end: look, longest_gap: Duration::ZERO };
            let inside = self.inside.get_or_insert(begun);
            inside.longest_gap = inside.longest_gap.max(look.at.since(inside.end.at));
            (inside.before, inside.end) = (inside.end, look);
            let packets = delivered_packets.wrapping_sub(inside.begin.delivered_packets);
            if seen.now.since(inside.begin.at) < TRAIN_MAX_TIME || packets < TRAIN_MIN_PACKETS {
                return None;
            }
        }
        let Inside { begin, before, end, longest_gap } = self.inside.take()?;
        // Where nothing has arrived after it the last piece may have had its end earlier.
        let end = if is_moving { end } else { before };
        let (time, packets) =
            (end.at.since(begin.at), end.delivered_packets.wrapping_sub(begin.delivered_packets));
        if time < TRAIN_MIN_TIME || packets < TRAIN_MIN_PACKETS {
            return None;
        }
        let bytes = u128::from(packets) * u128::from(seen.mss_bytes) * 1_000_000_000;
        let bytes_per_s = u64::try_from(bytes / time.as_nanos()).ok()?;
        Some(Measured { bytes_per_s, longest_gap })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::QUIET;

    /// Looks every two milliseconds at a burst of which 100 packets arrive each millisecond, from the fifth on.
    fn rate(packets: u32) -> Option<u64> {
        let mut train = Train::default();
        let measured = (0..60).find_map(|step| {
            let now = Instant::ZERO + Duration::from_millis(2) * step;
            let delivered_packets = ((2 * step).saturating_sub(5) * 100).min(packets);
            let unacked_packets = packets - delivered_packets;
            train.observe(&Observation { now, delivered_packets, unacked_packets, ..QUIET })
        });
        measured.map(|measured| measured.bytes_per_s)
    }

    /// The train seen by such looks: when, how many packets have arrived, how many are under way.
    fn measure(looks: &[(u64, u32, u32)]) -> Option<Measured> {
        let mut train = Train::default();
        looks.iter().find_map(|&(ms, delivered_packets, unacked_packets)| {
            let now = Instant::ZERO + Duration::from_millis(ms);
            train.observe(&Observation { now, delivered_packets, unacked_packets, ..QUIET })
        })
    }

    #[test]
    fn a_pause_is_not_part_of_a_train_and_long_gaps_are_told() {
        // A hundred packets a millisecond; the last of what was sent arrives in the middle of a piece.
        let looks = [(0, 0, 900), (2, 100, 800), (4, 300, 600), (9, 800, 100), (11, 830, 70), (13, 830, 70)];
        let expected = Measured { bytes_per_s: 144_800_000, longest_gap: Duration::from_millis(5) };
        assert_eq!(measure(&looks), Some(expected));
    }

    #[test]
    fn a_slow_line_takes_longer_for_a_train() {
        // A packet every two milliseconds, looked at every eight.
        let looks: Vec<(u64, u32, u32)> =
            (0..40).map(|n| (8 * n, 4 * n as u32, 500 - 4 * n as u32)).collect();
        let measured = measure(&looks).expect("a train");
        assert_eq!((measured.bytes_per_s, measured.longest_gap), (724_000, Duration::from_millis(8)));
    }

    #[test]
    fn a_train_has_a_rate_and_a_few_packets_have_none() {
        assert_eq!(rate(1000), Some(144_800_000));
        assert_eq!(rate(250), None, "one look is inside");
        assert_eq!(rate(0), None);
    }
}
