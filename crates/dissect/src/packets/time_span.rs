//! Time span of a capture, or of one of its interfaces, without single stamps that are wrong.
//!
//! A stamp far from all others is believed as soon as another packet stands beside it, or follows it: a pause is as long as
//! it is. A packet of TCP is believed alone, because its connection has its time as well.

use super::window::LATE_MAX_NS;

/// Packets at the beginning of a capture among which is the earliest.
const BEGINNING_PACKETS: u64 = 16_384;

/// First and last stamp in ns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimeSpan {
    believed: Option<(u64, u64)>,
    /// Stamp far from those before, and true if it is that of a TCP packet.
    lone: Option<(u64, bool)>,
    /// The one before, as long as none is believed.
    lone_before: Option<u64>,
    /// Lowest and highest stamp, believed or not.
    all: Option<(u64, u64)>,
    packets: u64,
}

impl TimeSpan {
    /// Takes the stamp of the next packet.
    pub(crate) fn take(&mut self, t_ns: u64, is_tcp: bool) {
        self.packets += 1;
        self.all = Some(self.all.map_or((t_ns, t_ns), |(first, last)| (first.min(t_ns), last.max(t_ns))));
        let lone = self.lone.take();
        let Some((first_ns, last_ns)) = self.believed else {
            let lone_ns = lone.map(|(lone_ns, _)| lone_ns);
            let mut both = [lone_ns, self.lone_before].into_iter().flatten();
            self.believed = match both.find(|lone_ns| lone_ns.abs_diff(t_ns) <= LATE_MAX_NS) {
                Some(lone_ns) => Some((lone_ns.min(t_ns), lone_ns.max(t_ns))),
                None if is_tcp => Some((t_ns, t_ns)),
                None => None,
            };
            if self.believed.is_none() {
                (self.lone, self.lone_before) = (Some((t_ns, is_tcp)), lone_ns);
            }
            return;
        };
        // A packet at the same time or later confirms a jump forwards.
        let confirmed = lone.filter(|(lone_ns, _)| t_ns.saturating_add(LATE_MAX_NS) >= *lone_ns);
        let last_ns = confirmed.map_or(last_ns, |(lone_ns, _)| lone_ns.max(last_ns));
        if t_ns > last_ns.saturating_add(LATE_MAX_NS) {
            self.lone = Some((t_ns, is_tcp));
            self.believed = Some((first_ns, last_ns));
            return;
        }
        let is_early = self.packets <= BEGINNING_PACKETS && t_ns.saturating_add(LATE_MAX_NS) >= first_ns;
        let first_ns = if is_early { first_ns.min(t_ns) } else { first_ns };
        self.believed = Some((first_ns, last_ns.max(t_ns)));
    }

    /// First stamp in ns; 0 without a packet.
    pub(crate) fn first_ns(&self) -> u64 {
        self.believed.or(self.all).map_or(0, |(first_ns, _)| first_ns)
    }

    /// Last stamp in ns; 0 without a packet.
    pub(crate) fn last_ns(&self) -> u64 {
        let Some((_, last_ns)) = self.believed else { return self.all.map_or(0, |(_, last_ns)| last_ns) };
        match self.lone {
            Some((lone_ns, true)) => lone_ns.max(last_ns),
            _ => last_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const BEGIN: u64 = 1_800_000_000 * S;

    /// First and last stamp of packets that are not TCP, in ns after `BEGIN`.
    #[track_caller]
    fn check(stamps: &[u64], expected: [u64; 2]) {
        let mut span = TimeSpan::default();
        stamps.iter().for_each(|t_ns| span.take(*t_ns, false));
        assert_eq!([span.first_ns(), span.last_ns()], expected.map(|t_ns| BEGIN + t_ns), "{stamps:?}");
    }

    #[test]
    fn one_wrong_stamp_moves_neither_end() {
        let usual = [0, 1, 2, 3].map(|s| BEGIN + s * S);
        check(&usual, [0, 3 * S]);
        for wrong in [0, BEGIN - 86_400 * S, BEGIN + 86_400 * S, u64::MAX] {
            for place in 0..=usual.len() {
                let mut stamps = usual.to_vec();
                stamps.insert(place, wrong);
                check(&stamps, [0, 3 * S]);
            }
        }
    }

    #[test]
    fn a_pause_is_as_long_as_it_is() {
        check(&[BEGIN, BEGIN + S, BEGIN + 3_600 * S, BEGIN + 3_601 * S], [0, 3_601 * S]);
        check(&[BEGIN, BEGIN + S, BEGIN + 3_600 * S, BEGIN + 7_200 * S, BEGIN + 9_000 * S], [0, 7_200 * S]);
        check(&[BEGIN, BEGIN + 60 * S, BEGIN + 120 * S], [0, 120 * S]);
    }

    #[test]
    fn a_packet_of_tcp_is_believed_alone() {
        let mut span = TimeSpan::default();
        [0, 5, 90].iter().for_each(|s| span.take(BEGIN + s * S, true));
        assert_eq!([span.first_ns(), span.last_ns()], [BEGIN, BEGIN + 90 * S]);
    }

    #[test]
    fn the_earliest_packet_may_stand_late() {
        check(&[BEGIN + S, BEGIN + 2 * S, BEGIN, BEGIN + S], [0, 2 * S]);
        assert_eq!([TimeSpan::default().first_ns(), TimeSpan::default().last_ns()], [0, 0]);
    }
}
