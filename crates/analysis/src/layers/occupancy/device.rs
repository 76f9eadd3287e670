//! Requests of the block devices below the store, by the kernel's own count (table `kernel`).
//!
//! A request of a device is not an iSCSI request: a store may issue several for one, none, or wait for those of others,
//! and the kernel does not tell their origin. So they are not joined by name; both are counted over the same window.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use event::{KernelEvent, KernelPoint, Op};
use serde::Serialize;
use tables::{KernelPoints, TableError};

use super::flight::{self, Flight, Scope};
use super::residence::{self, Residence, Spent};
use crate::Span;
use crate::layers::question::Question;
use crate::layers::table::passage::Pass;

/// Columns of `kernel` that are needed here.
const COLUMNS: [&str; 5] = ["t_ns", "event", "device", "op", "offset_bytes"];
/// Limit on reported devices, the busiest first.
const MOST_DEVICES: usize = 4;
/// Requests issued so long before the window still count if they completed within.
const BEFORE_NS: u64 = 10_000_000_000;

/// A block device, and how many requests it had inside.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DeviceFlight {
    /// Major and minor number.
    pub device: (u32, u32),
    /// Requests given to it and not done.
    pub flight: Flight,
    /// For how long, if any were done during the window.
    pub residence: Option<Residence>,
}

/// A step of a request, in the order of time; at equal times completions come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Step {
    t_ns: u64,
    is_issue: bool,
    device: u32,
    offset_bytes: u64,
}

/// The devices that did something of this kind; none if the kernel was not traced.
pub(crate) fn of(dir: &Path, op: Op, question: Question) -> Result<Vec<DeviceFlight>, TableError> {
    let window = question.window;
    let mut steps = Vec::new();
    tables::read_pieces::<KernelPoint>(dir, Some(&COLUMNS), |points| {
        add(&mut steps, &points, op, window);
    })?;
    // Each processor has a ring of its own: rows are not quite in the order of time.
    steps.sort_unstable();
    let scope = Scope { origin_ns: question.origin_ns, window, rtt_ns: 0, points: 0 };
    let mut devices: Vec<DeviceFlight> =
        passes(&steps).into_iter().map(|(device, passes)| look(device, &passes, scope)).collect();
    devices.retain(|device| device.flight.completed > 0);
    devices.sort_by_key(|device| std::cmp::Reverse(device.flight.completed));
    devices.truncate(MOST_DEVICES);
    Ok(devices)
}

fn add(steps: &mut Vec<Step>, points: &KernelPoints, op: Op, window: Span) {
    let within = window.start_ns.saturating_sub(BEFORE_NS)..window.end_ns;
    for row in 0..points.t_ns.len() {
        let is_issue = match points.event[row] {
            KernelEvent::BlockIssued => true,
            KernelEvent::BlockCompleted => false,
            _ => continue,
        };
        if points.op[row] == Some(op) && within.contains(&points.t_ns[row]) {
            let (t_ns, device) = (points.t_ns[row], points.device[row]);
            steps.push(Step { t_ns, is_issue, device, offset_bytes: points.offset_bytes[row] });
        }
    }
}

/// The requests of each device whose beginning and end are both known.
fn passes(steps: &[Step]) -> BTreeMap<u32, Vec<Pass>> {
    let mut open: HashMap<(u32, u64), u64> = HashMap::new();
    let mut found: BTreeMap<u32, Vec<Pass>> = BTreeMap::new();
    for Step { t_ns, is_issue, device, offset_bytes } in steps {
        if *is_issue {
            // The end of an earlier one at the same place was not seen.
            open.insert((*device, *offset_bytes), *t_ns);
        } else if let Some(issued_ns) = open.remove(&(*device, *offset_bytes)) {
            found.entry(*device).or_default().push(Pass::new([issued_ns, *t_ns, *t_ns], 0));
        }
    }
    found
}

fn look(device: u32, passes: &[Pass], scope: Scope) -> DeviceFlight {
    let mut enters: Vec<u64> = passes.iter().map(|pass| pass.enter_ns).collect();
    let mut leaves: Vec<u64> = passes.iter().map(|pass| pass.leave_ns).collect();
    let mut spent = Spent::default();
    passes.iter().for_each(|pass| spent.add(pass, scope.window));
    let flight = flight::of(&mut enters, &mut leaves, scope);
    let residence = residence::of(spent, &flight, scope.window);
    DeviceFlight { device: (device >> 20, device & 0xf_ffff), flight, residence }
}

#[cfg(test)]
mod tests {
    use event::Instant;
    use tables::Writer;

    use super::*;

    const MS: u64 = 1_000_000;
    const DISK: u32 = 254 << 20;

    fn point(t_ns: u64, event: KernelEvent, device: u32, op: Option<Op>, offset_bytes: u64) -> KernelPoint {
        let t = Instant::from_nanos(t_ns);
        KernelPoint { device, op, offset_bytes, len_bytes: 4096, ..KernelPoint::new(t, event) }
    }

    #[test]
    fn what_a_device_had_inside_is_counted_over_the_window() {
        use KernelEvent::{BlockCompleted, BlockIssued};
        let temp = tempfile::tempdir().unwrap();
        let window = Span { start_ns: 100 * MS, end_ns: 200 * MS };
        let question = Question { origin_ns: 0, window, rtt_ns: 0, points: 10, requests: 0, request: None };
        assert!(of(temp.path(), Op::Read, question).unwrap().is_empty(), "nobody traced");
        let mut table = Writer::<KernelPoint>::create(temp.path().join("kernel.parquet")).unwrap();
        let mut push = |row: KernelPoint| table.push(&row).unwrap();
        // A read every 10 ms that takes 4 ms; the processor that ends it is read before the one that began it.
        for n in 0..30 {
            push(point(n * 10 * MS + 4 * MS, BlockCompleted, DISK, Some(Op::Read), n << 12));
            push(point(n * 10 * MS, BlockIssued, DISK, Some(Op::Read), n << 12));
        }
        // Requests that are not reads, without an end or a beginning, or of another device.
        push(point(110 * MS, BlockIssued, DISK, Some(Op::Write), 7));
        push(point(190 * MS, BlockCompleted, DISK, Some(Op::Write), 7));
        push(point(120 * MS, BlockIssued, DISK, None, 0));
        push(point(130 * MS, BlockIssued, DISK, Some(Op::Read), 1));
        push(point(140 * MS, BlockCompleted, DISK, Some(Op::Read), 2));
        push(point(20 * MS, BlockIssued, DISK + 1, Some(Op::Read), 3));
        push(point(30 * MS, BlockCompleted, DISK + 1, Some(Op::Read), 3));
        table.finish().unwrap();
        let found = of(temp.path(), Op::Read, question).unwrap();
        let [disk] = found.as_slice() else { panic!("one device: {found:?}") };
        let residence = disk.residence.expect("reads were done");
        assert_eq!((disk.device, disk.flight.completed, disk.flight.max), ((254, 0), 10, 1.0));
        assert!((residence.mean_s - 4e-3).abs() < 1e-9 && residence.holds, "{residence:?}");
        assert!((disk.flight.mean - 0.4).abs() < 1e-9, "{}", disk.flight.mean);
        let writes = of(temp.path(), Op::Write, question).unwrap();
        assert!((writes[0].residence.expect("a write").mean_s - 80e-3).abs() < 1e-9);
    }
}
