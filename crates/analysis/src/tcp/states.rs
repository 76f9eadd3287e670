//! Congestion states of a load's connections, from the kernel's tracepoints (table `kernel`): an exact account of
//! window cuts, which `cuts` derives from samples.

use std::path::Path;

use event::{CongestionState, KernelEvent, KernelPoint};
use tables::{KernelPoints, TableError};

use crate::Span;
use crate::diagram::Hosts;

/// Columns of `kernel` that are needed here.
const COLUMNS: [&str; 5] = ["t_ns", "event", "host_number", "peer_number", "state"];

/// Number of entries into the states that cut the congestion window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct States {
    /// CWR: by the host's own device, or by marks of the path.
    pub(crate) cwr: u64,
    /// Recovery and Loss: by losses on the path, and by timeouts.
    pub(crate) recoveries: u64,
}

/// Entries of the connections between these hosts during a load; `None` if the kernel was not traced.
pub(crate) fn of(dir: &Path, between: Hosts, load: Span) -> Result<Option<States>, TableError> {
    let mut states = States::default();
    let is_there = tables::read_pieces::<KernelPoint>(dir, Some(&COLUMNS), |points| {
        states.add(&points, between, load);
    })?;
    Ok(is_there.then_some(states))
}

impl States {
    fn add(&mut self, points: &KernelPoints, between: Hosts, load: Span) {
        for row in 0..points.t_ns.len() {
            let is_ours = points.event[row] == KernelEvent::State
                && (load.start_ns..=load.end_ns).contains(&points.t_ns[row])
                && between.has(points.host_number[row], points.peer_number[row]);
            match points.state[row] {
                Some(CongestionState::Cwr) if is_ours => self.cwr += 1,
                Some(CongestionState::Recovery | CongestionState::Loss) if is_ours => self.recoveries += 1,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use event::{Host, Instant};
    use tables::Writer;

    use super::*;

    /// A change of state of the connection between two hosts.
    fn point(t_ns: u64, host_number: u32, peer_number: u32, state: CongestionState) -> KernelPoint {
        KernelPoint {
            host: Some(if host_number < 100 { Host::Near } else { Host::Far }),
            host_number,
            peer_number,
            local_port: 3260,
            remote_port: 40_000,
            state: Some(state),
            ..KernelPoint::new(Instant::from_nanos(t_ns), KernelEvent::State)
        }
    }

    #[test]
    fn only_the_loads_own_connections_count_and_only_while_it_runs() {
        use CongestionState::{Cwr, Disorder, Loss, Open, Recovery};
        let temp = tempfile::tempdir().unwrap();
        let hosts = Hosts { near: 2, far: 1 };
        let load = Span { start_ns: 10, end_ns: 90 };
        assert_eq!(of(temp.path(), hosts, load).unwrap(), None, "nobody traced");
        let mut table = Writer::<KernelPoint>::create(temp.path().join("kernel.parquet")).unwrap();
        for row in [
            point(9, 100, 0, Cwr),
            point(20, 100, 0, Cwr),
            point(21, 100, 0, Open),
            point(30, 100, 1, Cwr),
            point(31, 100, 1, Disorder),
            point(40, 0, 100, Recovery),
            point(50, 1, 100, Loss),
            // Those of competitors.
            point(60, 101, 2, Cwr),
            point(61, 2, 101, Loss),
            point(91, 100, 0, Loss),
            KernelPoint { event: KernelEvent::Received, ..point(70, 100, 0, Cwr) },
        ] {
            table.push(&row).unwrap();
        }
        table.finish().unwrap();
        assert_eq!(of(temp.path(), hosts, load).unwrap(), Some(States { cwr: 2, recoveries: 2 }));
    }
}
