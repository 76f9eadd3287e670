//! Accuracy of the rate: a wire that is always busy, from departure to departure.

use std::thread;
use std::time::Duration;

use event::{BitRate, Fate, format_delay};
use net::clock;
use tables::Packets;

use super::Effort;
use super::check::Checks;
use super::rig::{Rig, socket_failed};
use crate::{Side, Spec, WanError};

/// A rate and the packets to fill it with.
#[derive(Clone, Copy)]
pub(super) struct Filled {
    pub(super) rate: BitRate,
    mtu_bytes: u32,
    ip_bytes: u32,
}

const PORT: u16 = 9;
const HEADER_BYTES: u32 = 28;
/// Shortest measurement: this time or this number of packets, the longer one.
const TIME: Duration = Duration::from_secs(1);
const PACKETS: u64 = 1_000;
/// Offered load in percent of the rate, and the interval in which it is sent.
const OFFERED_PERCENT: u64 = 130;
const STEP: Duration = Duration::from_millis(1);
/// In the beginning the wire takes packets faster than the sender can make them.
const RAMP: Duration = Duration::from_millis(100);
const QUEUE: Duration = Duration::from_millis(200);
const ERROR_MAX_PERCENT: f64 = 0.5;

/// From 1 Mb/s to 5 Gb/s; small packets where a thousand large ones would take all day.
pub(super) fn rates(effort: Effort) -> Vec<Filled> {
    let filled =
        |mbit: u64, mtu_bytes, ip_bytes| Filled { rate: BitRate(mbit * 1_000_000), mtu_bytes, ip_bytes };
    match effort {
        Effort::Full => {
            vec![
                filled(1, 1500, 262),
                filled(30, 1500, 1500),
                filled(1_000, 1500, 1500),
                filled(5_000, 9000, 9000),
            ]
        }
        Effort::Quick => vec![filled(30, 1500, 1500), filled(1_000, 1500, 1500)],
    }
}

pub(super) fn measure(filled: Filled, checks: &mut Checks) -> Result<(), WanError> {
    let Filled { rate, mtu_bytes, ip_bytes } = filled;
    let wire_bytes = u64::from(ip_bytes + link::FRAMING_BYTES);
    let time = TIME.max(rate.time_for(wire_bytes * PACKETS));
    // A queue that is never empty, though this thread has to wait for a processor like any other.
    let queue_bytes = rate.bytes_in(QUEUE).max(20 * wire_bytes);
    let spec = Spec::new(Duration::from_millis(1), rate, Some(queue_bytes), mtu_bytes);
    checks.on(&spec, &format!("datagrams of {ip_bytes} bytes at {OFFERED_PERCENT} % of it"));
    let rig = Rig::new(&spec)?;
    let (sender, _receiver) = (rig.datagrams(Side::Near, PORT)?, rig.datagrams(Side::Far, PORT)?);
    let datagram = vec![0xa5; (ip_bytes - HEADER_BYTES) as usize];
    let offered = BitRate(rate.0 / 100 * OFFERED_PERCENT);
    let begun = clock::now();
    let mut sent_bytes = 0;
    loop {
        let elapsed = clock::now().since(begun);
        // A little longer than is measured, for the ends that are cut off.
        if elapsed > RAMP + time + time / 10 {
            break;
        }
        // Never a burst of more than the queue holds, however late this thread was.
        let due_bytes = offered.bytes_in(elapsed) + queue_bytes / 2;
        sent_bytes = sent_bytes.max(due_bytes.saturating_sub(queue_bytes));
        while sent_bytes < due_bytes {
            sender.send(&datagram).map_err(socket_failed)?;
            sent_bytes += wire_bytes;
        }
        thread::sleep(STEP);
    }
    thread::sleep(5 * STEP);
    let seen = rig.finish()?;
    let name = format!("rate error at {rate}");
    let valid = checks.accept(&name, &seen);
    let found = rate_of(&seen.packets, wire_bytes, time);
    if let Err(why) = &found {
        checks.refuse(&name, why);
    }
    let error = found.ok().map(|found| (found / rate.0 as f64 - 1.0).abs() * 100.0).filter(|_| valid);
    checks.at_most(&name, error, ERROR_MAX_PERCENT, "%");
    Ok(())
}

/// Bits on the wire in each second of `time`, or a little more; why there are none if the wire was idle in between.
fn rate_of(packets: &Packets, wire_bytes: u64, time: Duration) -> Result<f64, String> {
    let of_ours = |row: &usize| u64::from(packets.ip_bytes[*row] + link::FRAMING_BYTES) == wire_bytes;
    let delivered = |row: &usize| packets.fate[*row] == Fate::Delivered;
    let mut rows: Vec<usize> = (0..packets.fate.len()).filter(of_ours).filter(delivered).collect();
    if let Some(first) = rows.first().map(|row| packets.egress_t_ns[*row]) {
        rows.retain(|row| packets.egress_t_ns[*row] >= first + RAMP.as_nanos() as u64);
    }
    let short = || format!("{} packets arrived, expected more than {}", rows.len(), format_delay(time));
    let start_ns = packets.egress_t_ns[*rows.first().ok_or_else(short)?];
    let over = |row: &usize| packets.egress_t_ns[*row] >= start_ns + time.as_nanos() as u64;
    let end = rows.iter().position(over).filter(|end| *end > 0).ok_or_else(short)?;
    // Between the first and the last departure lie as many packets as there are after the first.
    let scheduled = |at: usize| packets.scheduled_t_ns[rows[at]];
    let gaps_ns: Vec<u64> = (1..=end).map(|at| scheduled(at) - scheduled(at - 1)).collect();
    let (longest_ns, shortest_ns) = (gaps_ns.iter().max(), gaps_ns.iter().min());
    if let (Some(longest), Some(shortest)) = (longest_ns, shortest_ns)
        && *longest > shortest + 1
    {
        let idle = format_delay(Duration::from_nanos(longest - shortest));
        return Err(format!("the wire had nothing to send for {idle}, expected a sender that keeps up"));
    }
    let elapsed_ns = packets.egress_t_ns[rows[end]] - start_ns;
    Ok((end as u64 * wire_bytes * 8) as f64 / (elapsed_ns as f64 / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(gaps_ns: &[u64]) -> Packets {
        let mut packets = Packets::default();
        let mut at = 1_000_000;
        // The first packet lies before the ramp.
        for gap in [0, RAMP.as_nanos() as u64].iter().chain(gaps_ns) {
            at += gap;
            packets.ingress_t_ns.push(0);
            packets.scheduled_t_ns.push(at);
            packets.egress_t_ns.push(at + 7);
            packets.fate.push(Fate::Delivered);
            packets.ip_bytes.push(1500);
        }
        packets
    }

    #[test]
    fn the_rate_is_that_of_departures() {
        let gap_ns = 12_304;
        let even = vec![gap_ns; 200];
        let found = rate_of(&packets(&even), 1538, Duration::from_millis(1)).expect("a rate");
        assert!((found - 1e9).abs() < 1.0, "{found}");
        let mut idle = even.clone();
        idle[40] = 5 * gap_ns;
        let why = |gaps_ns: &[u64], wire_bytes, ms| {
            rate_of(&packets(gaps_ns), wire_bytes, Duration::from_millis(ms)).expect_err("no rate")
        };
        assert!(why(&idle, 1538, 1).starts_with("the wire had nothing to send for 49.22us"));
        assert_eq!(why(&even, 1538, 1_000), "201 packets arrived, expected more than 1s");
        assert_eq!(why(&even, 99, 1), "0 packets arrived, expected more than 1ms");
    }
}
