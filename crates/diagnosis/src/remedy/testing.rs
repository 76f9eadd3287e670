//! A load for the tests of remedies: 64 KiB requests at 5 MB/s over 100 ms and a line of 117.7 MB/s.

use crate::facts::{Facts, PathFacts};
use crate::performance::Performance;

pub(super) fn facts() -> Facts {
    Facts {
        request_bytes: 65_536.0,
        current: Performance { bytes_per_s: 5e6, latency_s: 0.1 },
        path: PathFacts { rtt_s: Some(0.1), line_bytes_per_s: Some(117.7e6), ..PathFacts::default() },
        ..Facts::default()
    }
}
