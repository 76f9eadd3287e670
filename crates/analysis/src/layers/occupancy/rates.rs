//! Requests per second into and out of a layer over time, counted in steps of one length, so that the drawing of a
//! million requests is as small as that of a thousand.
//!
//! Requests of a long path come in bursts, a round trip apart. So a step is a number of whole round trips; otherwise
//! some steps would have one burst more than others.

/// Requests per second, step by step.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rates {
    /// Start of the first step, seconds since the load began.
    pub start_s: f64,
    /// Length of a step.
    pub step_s: f64,
    /// Requests into the layer.
    pub issued: Vec<f64>,
    /// Requests out of the layer.
    pub completed: Vec<f64>,
}

/// Counts them.
pub(in crate::layers) struct Steps {
    start_ns: u64,
    step_ns: u64,
    /// Requests into and out of the layer, of each step.
    counts: Vec<[u64; 2]>,
}

impl Steps {
    /// For requests from `start_ns` to `end_ns`, in so many steps at most. Without a round trip, 0, a step is as short as
    /// that.
    pub(in crate::layers) fn new(start_ns: u64, end_ns: u64, rtt_ns: u64, steps: usize) -> Steps {
        let length_ns = end_ns.saturating_sub(start_ns);
        let least_ns = length_ns.div_ceil(steps.max(1) as u64).max(1);
        let step_ns = least_ns.checked_next_multiple_of(rtt_ns.max(1)).unwrap_or(least_ns);
        let steps = steps.min(usize::try_from(length_ns.div_ceil(step_ns).max(1)).unwrap_or(steps));
        Steps { start_ns, step_ns, counts: vec![[0; 2]; steps] }
    }

    /// Counts requests that entered and left at one moment.
    pub(in crate::layers) fn add(&mut self, t_ns: u64, came: usize, went: usize) {
        let step = usize::try_from(t_ns.saturating_sub(self.start_ns) / self.step_ns).unwrap_or(usize::MAX);
        // The last step has its own end too.
        let last = self.counts.len().saturating_sub(1);
        if let Some([issued, completed]) = self.counts.get_mut(step.min(last)) {
            *issued += came as u64;
            *completed += went as u64;
        }
    }

    /// The rates; `origin_ns` is the zero of their times.
    pub(in crate::layers) fn finish(self, origin_ns: u64) -> Rates {
        if self.counts.is_empty() {
            return Rates::default();
        }
        let step_s = self.step_ns as f64 / 1e9;
        let of = |which: usize| self.counts.iter().map(|counts| counts[which] as f64 / step_s).collect();
        let start_s = self.start_ns.saturating_sub(origin_ns) as f64 / 1e9;
        Rates { start_s, step_s, issued: of(0), completed: of(1) }
    }
}

impl Rates {
    /// For a layer of which one request in so many has times.
    pub(in crate::layers) fn scale(&mut self, one_in: f64) {
        self.issued.iter_mut().chain(&mut self.completed).for_each(|rate| *rate *= one_in);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_in_one_step() {
        // From 1 s to 2 s in steps of 100 ms, with the changes at the end of the last one.
        let at = |ms: u64| ms * 1_000_000;
        let mut steps = Steps::new(at(1_000), at(2_000), 0, 10);
        for ms in (1_000..2_000).step_by(4) {
            steps.add(at(ms), 1, 0);
        }
        steps.add(at(2_000), 0, 7);
        let mut rates = steps.finish(at(400));
        assert_eq!((rates.start_s, rates.step_s), (0.6, 0.1));
        assert_eq!(rates.issued, [250.0; 10]);
        assert_eq!(rates.completed[..9], [0.0; 9]);
        assert!((rates.completed[9] - 70.0).abs() < 1e-9, "{rates:?}");
        rates.scale(8.0);
        assert_eq!(rates.issued, [2_000.0; 10]);
    }

    #[test]
    fn bursts_a_round_trip_apart_are_as_many_in_every_step() {
        let at = |ms: u64| ms * 1_000_000;
        let mut steps = Steps::new(0, at(3_200), at(32), 60);
        (0..100).for_each(|burst| steps.add(at(burst * 32 + 1), 64, 64));
        let rates = steps.finish(0);
        assert_eq!((rates.step_s, rates.issued), (0.064, vec![2_000.0; 50]));
        // A load that was over within a round trip.
        assert_eq!(Steps::new(0, 7, at(32), 60).finish(0).issued.len(), 1);
    }

    #[test]
    fn what_is_not_drawn_has_no_steps_and_a_moment_has_all_of_them() {
        let mut none = Steps::new(5, 9, 0, 0);
        none.add(7, 1, 1);
        assert_eq!(none.finish(0), Rates::default());
        let mut moment = Steps::new(5, 5, 0, 3);
        moment.add(5, 2, 2);
        let rates = moment.finish(5);
        assert_eq!((rates.issued.len(), (rates.issued[0] * rates.step_s).round()), (1, 2.0));
    }
}
