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
/// One that goes on is measured piece by piece.
const TRAIN_MAX_TIME: Duration = Duration::from_millis(50);

/// A train being watched.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Train {
    /// The last look.
    last: Option<Look>,
    /// The first and the last look with packets arriving before it and after it.
    inside: Option<(Look, Look)>,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    at: Instant,
    delivered_packets: u32,
}

impl Train {
    /// Takes a look; the rate of a train that has ended, in bytes per second.
    pub(crate) fn observe(&mut self, seen: &Observation) -> Option<u64> {
        let delivered_packets = seen.delivered_packets;
        let look = Look { at: seen.now, delivered_packets };
        let last = self.last.replace(look);
        let is_moving = last.is_some_and(|last| delivered_packets != last.delivered_packets);
        let is_inside = is_moving && seen.unacked_packets > 0;
        if is_inside {
            let (begin, _) = *self.inside.get_or_insert((look, look));
            self.inside = Some((begin, look));
            if seen.now.since(begin.at) < TRAIN_MAX_TIME {
                return None;
            }
        }
        let (begin, end) = self.inside.take()?;
        let (time, packets) =
            (end.at.since(begin.at), end.delivered_packets.wrapping_sub(begin.delivered_packets));
        if time < TRAIN_MIN_TIME || packets < TRAIN_MIN_PACKETS {
            return None;
        }
        let bytes = u128::from(packets) * u128::from(seen.mss_bytes) * 1_000_000_000;
        u64::try_from(bytes / time.as_nanos()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::QUIET;

    /// Looks every two milliseconds at a burst of which 100 packets arrive each millisecond, from the fifth on.
    fn rate(packets: u32) -> Option<u64> {
        let mut train = Train::default();
        (0..60).find_map(|step| {
            let now = Instant::ZERO + Duration::from_millis(2) * step;
            let delivered_packets = ((2 * step).saturating_sub(5) * 100).min(packets);
            let unacked_packets = packets - delivered_packets;
            train.observe(&Observation { now, delivered_packets, unacked_packets, ..QUIET })
        })
    }

    #[test]
    fn a_train_has_a_rate_and_a_few_packets_have_none() {
        assert_eq!(rate(1000), Some(144_800_000));
        assert_eq!(rate(250), None, "one look is inside");
        assert_eq!(rate(0), None);
    }
}
