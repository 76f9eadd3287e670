//! Delay added by the emulation, while a stream fills nine tenths of the line.
//!
//! Probes are datagrams in both directions: the kernel stamps each when the sending device takes it and when the
//! receiving host does. The path's table has the model's delay of each; the difference is the error.

use std::thread;
use std::time::Duration;

use event::{BitRate, Direction, Fate};
use net::clock;
use net::stamps::{Stamp, StampedSocket};
use tables::Packets;

use super::Effort;
use super::check::Checks;
use super::rig::{CONGESTION, Rig, socket_failed};
use crate::{Side, Spec, WanError};

const DELAY: Duration = Duration::from_millis(8);
const RATE: BitRate = BitRate(1_000_000_000);
const PORT: u16 = 7;
/// A length that no TCP packet of a stream has: odd, and longer than an acknowledgement.
const PROBE_BYTES: usize = 73;
const PROBE_IP_BYTES: u32 = PROBE_BYTES as u32 + 28;
const INTERVAL: Duration = Duration::from_millis(1);
/// The stream's start is not counted; afterwards the last probes have time to arrive.
const RAMP: Duration = Duration::from_millis(500);
const TAIL: Duration = Duration::from_millis(50);
/// A machine that loses more stamps than this share is not measured.
const STAMPED_MIN: f64 = 0.9;

/// Socket of one end with its stamps, by the number of the probe.
struct Prober {
    socket: StampedSocket,
    sent: Vec<Option<Stamp>>,
    received: Vec<Option<Stamp>>,
}

pub(super) fn measure(effort: Effort, checks: &mut Checks) -> Result<(), WanError> {
    let time = Duration::from_secs(if effort == Effort::Full { 10 } else { 2 });
    let spec = Spec::new(DELAY, RATE, None, 1500);
    checks.on(
        &spec,
        &format!("one {CONGESTION} stream at nine tenths of it, a probe each way every millisecond"),
    );
    let rig = Rig::new(&spec)?;
    let (mut near, mut far) = (Prober::new(&rig, Side::Near)?, Prober::new(&rig, Side::Far)?);
    let stream = rig.stream(Side::Far, Some(RATE.0 / 8 * 9 / 10))?;
    thread::sleep(RAMP);
    let begun = clock::now();
    while clock::now().since(begun) < time {
        for end in [&mut near, &mut far] {
            end.send().and_then(|()| end.look()).map_err(socket_failed)?;
        }
        thread::sleep(INTERVAL);
    }
    thread::sleep(TAIL);
    for end in [&mut near, &mut far] {
        end.look().map_err(socket_failed)?;
    }
    drop(stream);
    let seen = rig.finish()?;
    let mut valid = checks.accept("delay", &seen);
    let errors = [(&near, &far, Direction::NearToFar), (&far, &near, Direction::FarToNear)]
        .map(|(from, to, direction)| errors_ns(from, to, &seen.packets, direction));
    let mut errors_ns: Vec<u64> = errors.iter().flatten().flatten().copied().collect();
    let expected = near.sent.len() + far.sent.len();
    if (errors_ns.len() as f64) < expected as f64 * STAMPED_MIN {
        let found = errors_ns.len();
        checks.refuse("delay", &format!("{found} of {expected} probes have stamps, expected nine of ten"));
        valid = false;
    }
    errors_ns.sort_unstable();
    let us = |part: f64| {
        let at = ((errors_ns.len() as f64 * part) as usize).min(errors_ns.len().saturating_sub(1));
        errors_ns.get(at).filter(|_| valid).map(|ns| *ns as f64 / 1e3)
    };
    let (p50, p99) = if seen.cost.realtime { (15.0, 150.0) } else { (60.0, 2_000.0) };
    checks.at_most("added delay, median", us(0.5), p50, "us");
    checks.at_most("added delay, 99th percentile", us(0.99), p99, "us");
    let spun = Duration::from_nanos(seen.cost.spin_ns).as_secs_f64() / seen.elapsed.as_secs_f64();
    checks.at_most("spinning", Some(spun).filter(|_| valid), 0.5, "processors");
    Ok(())
}

impl Prober {
    fn new(rig: &Rig, side: Side) -> Result<Prober, WanError> {
        let socket = StampedSocket::new(rig.datagrams(side, PORT)?).map_err(socket_failed)?;
        Ok(Prober { socket, sent: Vec::new(), received: Vec::new() })
    }

    fn send(&mut self) -> std::io::Result<()> {
        let mut probe = [0; PROBE_BYTES];
        probe[..8].copy_from_slice(&(self.sent.len() as u64).to_ne_bytes());
        self.socket.socket().send(&probe)?;
        self.sent.push(None);
        Ok(())
    }

    /// Reads all arrivals: probes, and stamps of sent ones.
    fn look(&mut self) -> std::io::Result<()> {
        while let Some((number, stamp)) = self.socket.sent()? {
            if let Some(sent) = self.sent.get_mut(number as usize) {
                *sent = Some(stamp);
            }
        }
        let mut probe = [0; PROBE_BYTES];
        while let Some((_, stamp)) = self.socket.receive(&mut probe)? {
            let number = probe.first_chunk().map_or(0, |number| u64::from_ne_bytes(*number)) as usize;
            // Only we send here, in order.
            self.received.resize(self.received.len().max(number + 1), None);
            self.received[number] = stamp;
        }
        Ok(())
    }
}

/// Added delay of each probe that has both stamps; `None` if the table has not one row for each probe.
fn errors_ns(from: &Prober, to: &Prober, packets: &Packets, direction: Direction) -> Option<Vec<u64>> {
    let mut rows: Vec<usize> = (0..packets.fate.len())
        .filter(|row| packets.direction[*row] == direction && packets.ip_bytes[*row] == PROBE_IP_BYTES)
        .collect();
    rows.sort_unstable_by_key(|row| packets.number[*row]);
    if rows.len() != from.sent.len() {
        return None;
    }
    let error = |(number, row): (usize, &usize)| {
        let taken = to.received.get(number)?.as_ref()?.0.checked_sub(from.sent[number]?.0)?;
        let wanted = packets.scheduled_t_ns[*row] - packets.ingress_t_ns[*row];
        (packets.fate[*row] == Fate::Delivered).then(|| taken.abs_diff(wanted))
    };
    Some(rows.iter().enumerate().filter_map(error).collect())
}
