//! One request through all layers: the stages from one hand-over to the next.
//!
//! Stages are the times between the hand-overs in chronological order, so they add up exactly to the latency. Times of
//! the other host are shifted by its clock's offset first. Hand-overs that are not on the way of the answer (a late
//! acknowledgement) may lie after the last stage and are left out.

use event::RequestId;

use crate::layers::stamp::Stamp;

/// A request and every time that is known of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Request {
    /// Id of the request.
    pub id: RequestId,
    /// `read`, `write` or another.
    pub op: &'static str,
    /// First byte on the LUN.
    pub offset_bytes: u64,
    /// Bytes of data.
    pub len_bytes: u32,
    /// Time at which the caller issued it, on the near host's clock.
    pub called_ns: u64,
    /// From issue to completion.
    pub latency_s: f64,
    /// Stages in chronological order. Their lengths sum to the latency.
    pub stages: Vec<Stage>,
}

/// The time between two hand-overs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stage {
    /// The hand-over it begins with.
    pub from: Stamp,
    /// The hand-over it ends with.
    pub to: Stamp,
    /// Start, seconds since the caller issued the request.
    pub start_s: f64,
    /// Length in seconds.
    pub length_s: f64,
}

/// The stages of a request between its call and its completion; empty if either is unknown.
pub(in crate::layers) fn stages(times: &[(Stamp, u64)]) -> Vec<Stage> {
    let at = |stamp: Stamp| times.iter().find(|(s, t)| *s == stamp && *t > 0).map(|(_, t)| *t);
    let (Some(called), Some(completed)) = (at(Stamp::Called), at(Stamp::Completed)) else {
        return Vec::new();
    };
    let between = |t: u64| (called..=completed).contains(&t);
    let mut order: Vec<(u64, Stamp)> =
        times.iter().filter(|(_, t)| between(*t)).map(|(stamp, t)| (*t, *stamp)).collect();
    // At one moment the order of the path decides; the call is first and the completion last.
    order.sort_unstable();
    let second = |t: u64| (t - called) as f64 / 1e9;
    let stage = |pair: &[(u64, Stamp)]| Stage {
        from: pair[0].1,
        to: pair[1].1,
        start_s: second(pair[0].0),
        length_s: (pair[1].0 - pair[0].0) as f64 / 1e9,
    };
    order.windows(2).map(stage).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_sum_to_the_latency() {
        let times = [
            (Stamp::Called, 1_000),
            (Stamp::Scsi, 1_000),
            (Stamp::Granted, 1_400),
            (Stamp::Received, 9_000),
            (Stamp::StoreBegin, 0),
            (Stamp::Sent, 9_900),
            (Stamp::DataFirst, 9_500),
            (Stamp::FarTcpAcked, 30_000),
            (Stamp::Completed, 17_000),
        ];
        let stages = stages(&times);
        let sum: f64 = stages.iter().map(|s| s.length_s).sum();
        assert!((sum - 16e-6).abs() < 1e-15, "{sum}");
        assert_eq!((stages[0].from, stages[0].to), (Stamp::Called, Stamp::Scsi));
        assert_eq!(stages.last().map(|s| s.to), Some(Stamp::Completed));
        assert!(stages.iter().all(|s| s.to != Stamp::FarTcpAcked && s.to != Stamp::StoreBegin));
        assert!(stages.windows(2).all(|pair| pair[0].to == pair[1].from));
    }

    #[test]
    fn a_request_that_did_not_end_has_none() {
        assert_eq!(stages(&[(Stamp::Called, 5), (Stamp::Completed, 0)]), []);
        assert_eq!(stages(&[(Stamp::Completed, 5)]), []);
    }
}
