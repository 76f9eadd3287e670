//! Gaps of a whole load for figures, thinned while packets pass, since their number is unknown. Nothing is computed
//! from them: figures in numbers are of the window, where all gaps are kept.

use super::packet::Drawing;
use crate::Sample;

/// Points of the whole load, as a multiple of those of the window: a ramp is long.
const TIMES: usize = 3;

/// Gaps of one kind of packets at one tap.
#[derive(Debug)]
pub(super) struct Whole {
    drawing: Drawing,
    /// Data that leave with one stamp are one super-packet.
    as_sent: bool,
    /// The last event: its time, the gap in front of it, the packets that share it.
    last: Option<(u64, u64, u32)>,
    /// Gaps so far.
    count: u64,
    /// Selects the kept gaps: those whose hashed number has none of these bits.
    mask: u64,
    kept: Vec<(u64, Sample)>,
}

impl Whole {
    pub(super) fn new(drawing: Drawing, as_sent: bool) -> Whole {
        Whole { drawing, as_sent, last: None, count: 0, mask: 0, kept: Vec::new() }
    }

    /// Adds a packet, or a super-packet of several; a late one makes no gap.
    pub(super) fn pass(&mut self, t_ns: u64, segments: u32) {
        if self.drawing.points == 0 {
            return;
        }
        match &mut self.last {
            Some((last_ns, _, packets)) if self.as_sent && *last_ns == t_ns => {
                *packets = packets.saturating_add(segments);
            }
            Some((last_ns, _, _)) if t_ns < *last_ns => {}
            last => {
                let gap_ns = last.map(|(last_ns, _, _)| t_ns - last_ns);
                self.put();
                self.last = Some((t_ns, gap_ns.unwrap_or(0), segments.max(1)));
            }
        }
    }

    /// The points in order.
    pub(super) fn finish(mut self) -> Vec<Sample> {
        self.put();
        self.kept.into_iter().map(|(_, sample)| sample).collect()
    }

    fn put(&mut self) {
        let Some((t_ns, gap_ns, packets)) = self.last.take() else { return };
        self.count += 1;
        // The first has none. Evenly chosen ones would fall in with periods of the gaps.
        let mixed = self.count.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        if self.count == 1 || mixed & self.mask != 0 {
            return;
        }
        let at_s = (t_ns as f64 - self.drawing.origin_ns as f64) / 1e9;
        self.kept.push((mixed, (at_s, (gap_ns / u64::from(packets)) as f64 / 1e9)));
        while self.kept.len() > self.drawing.points * TIMES {
            self.mask = self.mask << 1 | 1;
            self.kept.retain(|(mixed, _)| mixed & self.mask == 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWING: Drawing = Drawing { origin_ns: 1_000, points: 100 };

    #[test]
    fn what_is_kept_is_spread_over_all_of_it() {
        let mut whole = Whole::new(DRAWING, false);
        // Gaps of 10 and 30 ns in turn: either must be among them, wherever one looks.
        let mut t_ns = 1_000;
        for n in 0..100_000_u64 {
            whole.pass(t_ns, 1);
            t_ns += if n % 2 == 0 { 10 } else { 30 };
        }
        let points = whole.finish();
        assert!((100..=300).contains(&points.len()), "{}", points.len());
        assert!(points.is_sorted_by(|a, b| a.0 < b.0));
        for quarter in 0..4 {
            let (from, to) = (f64::from(quarter) * 5e-4, f64::from(quarter + 1) * 5e-4);
            let here: Vec<f64> =
                points.iter().filter(|(t, _)| (from..to).contains(t)).map(|(_, gap)| *gap).collect();
            let short = here.iter().filter(|gap| **gap == 10e-9).count() as f64 / here.len() as f64;
            assert!(here.len() > 15 && (0.25..0.75).contains(&short), "{quarter}: {} {short}", here.len());
        }
    }

    #[test]
    fn a_super_packet_shares_its_gap_and_late_ones_have_none() {
        let passed = [(2_000, 1), (2_000, 1), (6_000, 1), (6_000, 3), (5_000, 1), (7_000, 1)];
        let gaps = |as_sent: bool| {
            let mut whole = Whole::new(DRAWING, as_sent);
            passed.iter().for_each(|(t_ns, segments)| whole.pass(*t_ns, *segments));
            whole.finish().iter().map(|(_, gap_s)| (gap_s * 1e9).round() as u64).collect::<Vec<_>>()
        };
        assert_eq!(gaps(true), [1_000, 1_000]);
        assert_eq!(gaps(false), [0, 4_000, 0, 1_000]);
        let mut nothing = Whole::new(Drawing::default(), false);
        nothing.pass(1, 1);
        assert_eq!(nothing.finish(), []);
    }
}
