//! Validity of a run: lateness of the emulator, drops that are not the model's, and load of the machine by other
//! programs.
//!
//! Figures of latency need an emulator whose lateness is a small part of the round trip; figures of throughput one
//! whose lateness is a small part of the queue. An emulator with real-time priority is on time under any load, but
//! its commands are not: so other programs must not load the machine.

use std::time::Duration;

use event::format_delay;
use serde::Serialize;

use crate::Spec;
use crate::emulator::Emulated;
use crate::machine::Machine;
use crate::namespaces::Drops;

/// Class of figures for which a run is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Figures of latency.
    Latency,
    /// Figures of throughput.
    Throughput,
    /// None: every run is valid.
    Off,
}

/// Lateness of deliveries while COMMAND ran. The schedule counts from the time at which a packet was read; the
/// uncertainty of its arrival is part of its lateness.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Lateness {
    /// Median, in nanoseconds.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// The worst.
    pub max: u64,
}

/// Verdict for one class of figures.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Verdict {
    /// True if the run is valid for it.
    pub ok: bool,
    /// Reasons if it is not: found and expected, a sentence each.
    pub reasons: Vec<String>,
}

/// Packets that did not arrive, or arrived twice, in packets of MTU size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Fates {
    /// Dropped by the model because its waiting queue was full.
    pub dropped_queue_full: u64,
    /// Dropped by a host's own device because its ring was full.
    pub dropped_ring_full: u64,
    /// Lost on the line.
    pub dropped_lost: u64,
    /// Dropped by a policer.
    pub dropped_policed: u64,
    /// Dropped because the line was down.
    pub dropped_line_down: u64,
    /// Delivered a second time.
    pub duplicated: u64,
    /// Dropped by anything else, which makes the run invalid.
    pub dropped_unasked: u64,
}

/// The judgement of a run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Validity {
    /// The class it is judged for; `off` leaves the next two fields without meaning.
    pub class: Class,
    /// Verdict for the class of the run.
    #[serde(flatten)]
    pub asked: Verdict,
    /// For figures of latency.
    pub latency: Verdict,
    /// For figures of throughput.
    pub throughput: Verdict,
    /// Lateness of packets; `None` if none was delivered.
    pub lateness_ns: Option<Lateness>,
    /// Packets that came while COMMAND ran, super-packets counted once.
    pub packets: u64,
    /// Packets in units of MTU size.
    pub segments: u64,
    /// Packets that did not arrive once.
    #[serde(flatten)]
    pub fates: Fates,
    /// Processors that other programs kept busy while COMMAND ran; `None` if that was less than a second, or if this
    /// machine is the far end, whose programs count as others.
    pub others_busy: Option<f64>,
    /// Processors that were idle.
    pub idle: Option<f64>,
}

/// Bounds of one class.
struct Bounds {
    class: &'static str,
    p50: Option<Duration>,
    p99: Duration,
}

impl Bounds {
    fn latency(spec: &Spec) -> Bounds {
        let rtt = spec.base_rtt();
        Bounds {
            class: "latency",
            p50: Some((rtt / 100).max(Duration::from_micros(20))),
            p99: (rtt / 20).max(Duration::from_micros(200)),
        }
    }

    fn throughput(spec: &Spec) -> Bounds {
        let p99 = (spec.drain_time() / 4).min(Duration::from_millis(2));
        Bounds { class: "throughput", p50: None, p99 }
    }

    fn judge(&self, lateness: Option<Lateness>, spoilt: &[String]) -> Verdict {
        let mut reasons = Vec::new();
        if let Some(late) = lateness {
            let limits = [("p50", late.p50, self.p50), ("p99", late.p99, Some(self.p99))];
            for (name, found, limit) in limits {
                let found = Duration::from_nanos(found);
                if let Some(limit) = limit.filter(|limit| found > *limit) {
                    let (found, limit, class) = (format_delay(found), format_delay(limit), self.class);
                    reasons.push(format!(
                        "packets were late by {found} ({name}), expected at most {limit} for figures of {class}"
                    ));
                }
            }
        }
        reasons.extend_from_slice(spoilt);
        Verdict { ok: reasons.is_empty(), reasons }
    }
}

/// Judges a run.
pub(crate) fn judge(class: Class, spec: &Spec, emulated: &Emulated) -> Validity {
    let (traffic, Drops { ring: ring_drops, unasked: device_drops }) = (&emulated.traffic, emulated.drops);
    let machine = emulated.machine.filter(|machine| machine.is_precise() && !spec.far_is_here);
    let lateness = (!traffic.lateness.is_empty()).then(|| Lateness {
        p50: traffic.lateness.value_at_quantile(0.5),
        p99: traffic.lateness.value_at_quantile(0.99),
        max: traffic.lateness.max(),
    });
    let mut spoilt: Vec<String> = [
        (traffic.no_buffer, "packets were dropped because the emulator had no buffer for them"),
        (traffic.device_refused, "packets were dropped because the receiving device refused them"),
        (device_drops, "packets were dropped by a sending device before the emulator read them"),
        (traffic.lost_rows, "packets were not recorded because the machine was too busy"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{count} {what}, expected none; repeat the run on an idle machine"))
    .collect();
    spoilt.extend(machine.and_then(Machine::trouble));
    let latency = Bounds::latency(spec).judge(lateness, &spoilt);
    let throughput = Bounds::throughput(spec).judge(lateness, &spoilt);
    let asked = match class {
        Class::Latency => latency.clone(),
        Class::Throughput => throughput.clone(),
        Class::Off => Verdict { ok: true, reasons: Vec::new() },
    };
    Validity {
        class,
        asked,
        latency,
        throughput,
        lateness_ns: lateness,
        packets: traffic.packets,
        segments: traffic.segments,
        fates: Fates {
            dropped_queue_full: traffic.queue_full,
            dropped_ring_full: ring_drops,
            dropped_lost: traffic.lost,
            dropped_policed: traffic.policed,
            dropped_line_down: traffic.line_down,
            duplicated: traffic.duplicated,
            dropped_unasked: traffic.no_buffer + traffic.device_refused + device_drops,
        },
        others_busy: machine.map(|machine| machine.others_busy),
        idle: machine.map(|machine| machine.idle),
    }
}

impl Verdict {
    /// The reasons as one line.
    pub fn sentence(&self) -> String {
        self.reasons.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use event::{BitRate, Direction, Fate, Instant, Packet};

    use crate::Cost;
    use crate::recording::Traffic;

    fn late_by(us: &[u64], fate: Fate) -> Emulated {
        let mut traffic = Traffic::none();
        for us in us {
            traffic.add(&Packet {
                ingress: Instant::ZERO,
                scheduled: Instant::ZERO,
                egress: Instant::from_nanos(us * 1_000),
                direction: Direction::NearToFar,
                number: 1,
                fate,
                ip_bytes: 1500,
                segments: 3,
                src_host: 0,
                dst_host: 100,
                tcp: None,
                unseen_ns: 0,
            });
        }
        let cost = Cost { cpu_ns: 0, spin_ns: 0, realtime: true };
        Emulated { traffic, drops: Drops::default(), machine: None, cost }
    }

    fn path(delay_ms: u64, queue_bytes: u64) -> Spec {
        Spec::new(Duration::from_millis(delay_ms), BitRate(1_000_000_000), Some(queue_bytes), 1500)
    }

    #[test]
    fn bounds_follow_the_path() {
        for (delay_ms, queue_bytes, late_us, latency, throughput) in [
            (0, 1_000_000, &[5, 10, 15][..], true, true),
            (0, 1_000_000, &[30, 30, 30], false, true),
            (8, 2_000_000, &[150, 150, 150], true, true),
            (8, 2_000_000, &[5, 5, 900], false, true),
            (50, 12_500_000, &[5, 5, 2_100], true, false),
            (50, 100_000, &[5, 5, 300], true, false),
            (8, 2_000_000, &[], true, true),
        ] {
            let spec = path(delay_ms, queue_bytes);
            let seen = judge(Class::Latency, &spec, &late_by(late_us, Fate::Delivered));
            assert_eq!(
                (seen.latency.ok, seen.throughput.ok),
                (latency, throughput),
                "{delay_ms} ms {late_us:?}"
            );
            assert_eq!(seen.asked, seen.latency);
        }
    }

    #[test]
    fn drops_that_the_model_did_not_decide_spoil_a_run() {
        let spec = path(8, 2_000_000);
        let judged = |fate, device| {
            let drops = Drops { ring: 0, unasked: device };
            judge(Class::Throughput, &spec, &Emulated { drops, ..late_by(&[0], fate) })
        };
        let full = judged(Fate::QueueFull, 0);
        assert!(full.asked.ok && full.fates.dropped_queue_full == 3 && full.fates.dropped_unasked == 0);
        for (fate, device) in [(Fate::NoBuffer, 0), (Fate::DeviceRefused, 0), (Fate::Delivered, 3)] {
            let seen = judged(fate, device);
            assert!(!seen.latency.ok && !seen.throughput.ok && seen.fates.dropped_unasked == 3, "{fate:?}");
            assert!(seen.asked.sentence().starts_with("3 packets were "), "{:?}", seen.asked);
        }
        for fate in [Fate::Lost, Fate::Policed, Fate::LineDown, Fate::Duplicate] {
            let seen = judged(fate, 0);
            assert!(seen.latency.ok && seen.throughput.ok && seen.fates.dropped_unasked == 0, "{fate:?}");
            let asked = [
                seen.fates.dropped_lost,
                seen.fates.dropped_policed,
                seen.fates.dropped_line_down,
                seen.fates.duplicated,
            ];
            assert_eq!(asked.iter().sum::<u64>(), 3, "{fate:?}");
        }
        let ring = Spec { ring_packets: Some(80), ..spec.clone() };
        let drops = Drops { ring: 7, unasked: 0 };
        let seen = judge(Class::Throughput, &ring, &Emulated { drops, ..late_by(&[0], Fate::Delivered) });
        assert!(seen.asked.ok && seen.fates.dropped_ring_full == 7, "a ring drops what it has no room for");
        assert!(judge(Class::Off, &spec, &late_by(&[0], Fate::NoBuffer)).asked.ok);
    }

    #[test]
    fn a_run_on_time_whose_commands_had_to_wait_for_others_is_not_valid() {
        let spec = path(8, 2_000_000);
        let hogs = Machine { others_busy: 1.7, idle: 0.0, cpus: 2, elapsed: Duration::from_secs(3) };
        let beside = |machine| Emulated { machine: Some(machine), ..late_by(&[0], Fate::Delivered) };
        let seen = judge(Class::Throughput, &spec, &beside(hogs));
        assert!(!seen.latency.ok && !seen.throughput.ok, "{seen:?}");
        assert!(
            seen.asked.sentence().starts_with("other programs kept 1.70 of 2 processors busy"),
            "{seen:?}"
        );
        assert_eq!((seen.others_busy, seen.idle), (Some(1.7), Some(0.0)));
        let quiet = judge(Class::Throughput, &spec, &beside(Machine { others_busy: 0.1, ..hogs }));
        assert!(quiet.latency.ok && quiet.throughput.ok, "{quiet:?}");
        let short =
            judge(Class::Throughput, &spec, &beside(Machine { elapsed: Duration::from_millis(200), ..hogs }));
        assert!(short.asked.ok && short.others_busy.is_none(), "{short:?}");
        let here = Spec { far_is_here: true, ..spec };
        assert!(judge(Class::Latency, &here, &beside(hogs)).asked.ok, "its programs are the far end");
    }
}
