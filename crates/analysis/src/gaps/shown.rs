//! Data of a train's figures: gaps against time, a zoom into them, histograms. Thinned after all computation, so that
//! all taps are thinned alike.

use serde::Serialize;

use super::histogram::Histogram;
use super::packet::Drawing;
use super::train::Train;
use crate::Sample;

/// Length of the zoom, as in the study of long fat networks.
const ZOOM_NS: u64 = 4_000_000;

/// Data of the figures of one kind of packets at one tap: seconds since the load began, unless noted, and the gap in
/// seconds.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Shown {
    /// Some gaps of the whole load, from its beginning; of a run's tables.
    pub whole: Vec<Sample>,
    /// Every n-th gap of the stretch.
    pub points: Vec<Sample>,
    /// Every gap of a few milliseconds in its middle, by seconds since their beginning: the same packets are elsewhere in time
    /// at the other end of the path.
    pub zoom: Vec<Sample>,
    /// Histogram of the gaps.
    pub linear: Histogram,
    /// Histogram of the gaps with logarithmic classes.
    pub logarithmic: Histogram,
}

impl Shown {
    /// `gaps` are the train's, in order of length.
    pub(super) fn of(train: &Train, gaps: &[(u64, u32)], drawing: Drawing) -> Shown {
        let Drawing { origin_ns, points } = drawing;
        if points == 0 {
            return Shown::default();
        }
        let at = |t_ns: u64| (t_ns as f64 - origin_ns as f64) / 1e9;
        let gap = |pair: &[super::train::Event]| {
            ((pair[1].t_ns - pair[0].t_ns) / u64::from(pair[1].segments)) as f64 / 1e9
        };
        let sample = |pair: &[super::train::Event]| (at(pair[1].t_ns), gap(pair));
        let events = &train.events;
        // A prime step falls in with no period of the gaps.
        let step = match events.len() / points {
            0 => 1,
            step => (step..).find(|n| (2..*n).all(|d| !n.is_multiple_of(d))).unwrap_or(step),
        };
        let middle = events.len() / 2;
        let begin_ns = events.get(middle).map_or(0, |event| event.t_ns);
        let in_zoom = |pair: &[super::train::Event]| ((pair[1].t_ns - begin_ns) as f64 / 1e9, gap(pair));
        let end_ns = begin_ns.saturating_add(ZOOM_NS);
        let zoomed = events[middle..].iter().take_while(|event| event.t_ns < end_ns).count().min(points);
        let packets: u64 = gaps.iter().map(|(_, segments)| u64::from(*segments)).sum();
        let mut below = 0;
        let p99 = gaps.iter().find(|(_, segments)| {
            below += u64::from(*segments);
            below as f64 >= packets as f64 * 0.99
        });
        Shown {
            whole: Vec::new(),
            points: events.windows(2).step_by(step).map(sample).collect(),
            zoom: events[middle..middle + zoomed].windows(2).map(in_zoom).collect(),
            linear: Histogram::linear(gaps, p99.map_or(1.0, |(gap_ns, _)| *gap_ns as f64)),
            logarithmic: Histogram::logarithmic(gaps),
        }
    }
}
