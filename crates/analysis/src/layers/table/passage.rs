//! Passage of requests through a layer: time of entry and of exit of each.

/// Passage of one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::layers) struct Pass {
    pub(in crate::layers) enter_ns: u64,
    /// If it is not known when it left, the last time that is known of it.
    pub(in crate::layers) leave_ns: u64,
    /// True if the time of exit is known.
    pub(in crate::layers) has_left: bool,
    /// Number of its connection.
    pub(in crate::layers) place: u16,
}

/// All requests that entered a layer.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::layers) struct Passage {
    pub(in crate::layers) passes: Vec<Pass>,
    /// Sampling of these times: one request in N.
    pub(in crate::layers) one_in: f64,
    /// True if every recorded request has them.
    pub(in crate::layers) is_whole: bool,
    /// For a layer between two hosts: requests of the window with a row of only one, which are left out.
    pub(in crate::layers) alone: u64,
}

impl Pass {
    /// From the times of entering, of leaving (0: not known), and the last that is known of the request.
    pub(in crate::layers) fn new([enter_ns, leave_ns, last_ns]: [u64; 3], place: u16) -> Pass {
        let has_left = leave_ns > 0;
        // A write is taken up before its immediate data has left: it is not on the way for less than no time.
        let leave_ns = if has_left { leave_ns } else { last_ns }.max(enter_ns);
        Pass { enter_ns, leave_ns, has_left, place }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_gone_at_its_last_time_and_nothing_leaves_before_it_came() {
        let pass = |times| {
            let Pass { enter_ns, leave_ns, has_left, .. } = Pass::new(times, 0);
            (enter_ns, leave_ns, has_left)
        };
        assert_eq!(pass([10, 30, 40]), (10, 30, true));
        assert_eq!(pass([10, 0, 40]), (10, 40, false));
        assert_eq!(pass([10, 0, 10]), (10, 10, false));
        assert_eq!(pass([10, 7, 40]), (10, 10, true));
    }
}
