//! Throughput of one TCP stream at 10 ms, with every packet in the table.

use std::thread;
use std::time::Duration;

use event::BitRate;
use net::clock;

use super::Effort;
use super::check::Checks;
use super::rig::{CONGESTION, Rig};
use crate::{Side, Spec, WanError};

/// A kind of path and the throughput that it must reach.
pub(super) struct Kind {
    pub(super) name: &'static str,
    mtu_bytes: u32,
    segment: bool,
    /// Rate of the wire: above the required throughput, and low enough that the table is written in time.
    rate: BitRate,
    least_gbit: f64,
}

pub(super) const KINDS: [Kind; 3] = [
    Kind {
        name: "super-packets, MTU 1500",
        mtu_bytes: 1500,
        segment: false,
        rate: BitRate(30_000_000_000),
        least_gbit: 12.0,
    },
    Kind {
        name: "single packets, MTU 1500",
        mtu_bytes: 1500,
        segment: true,
        rate: BitRate(3_000_000_000),
        least_gbit: 2.0,
    },
    Kind {
        name: "single packets, MTU 9000",
        mtu_bytes: 9000,
        segment: true,
        rate: BitRate(10_000_000_000),
        least_gbit: 4.0,
    },
];

const DELAY: Duration = Duration::from_millis(5);
const RAMP: Duration = Duration::from_millis(500);

pub(super) fn measure(kind: &Kind, effort: Effort, checks: &mut Checks) -> Result<(), WanError> {
    let time = Duration::from_secs(if effort == Effort::Full { 4 } else { 1 });
    let mut spec = Spec::new(DELAY, kind.rate, None, kind.mtu_bytes);
    spec.segment = kind.segment;
    checks.on(&spec, &format!("one {CONGESTION} stream"));
    let rig = Rig::new(&spec)?;
    let stream = rig.stream(Side::Near, None)?;
    thread::sleep(RAMP);
    let (begun, before) = (clock::now(), stream.received_bytes());
    thread::sleep(time);
    let (elapsed, bytes) = (clock::now().since(begun), stream.received_bytes() - before);
    drop(stream);
    let seen = rig.finish()?;
    let gbit = bytes as f64 * 8.0 / elapsed.as_secs_f64() / 1e9;
    let name = format!("capacity, {}", kind.name);
    let valid = checks.accept(&name, &seen);
    checks.at_least(&name, Some(gbit).filter(|_| valid), kind.least_gbit, "Gb/s");
    Ok(())
}
