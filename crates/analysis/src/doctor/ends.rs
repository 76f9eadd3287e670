//! What the ends and the line can do at most: the CPU of each end's loop, and the rate of the line.

use super::facts::Facts;
use super::limiter::Limiter;
use super::model::{Effect, Finding};
use super::verdict::Evidence;

/// A loop that waits for less than this share of its time is short of CPU.
const BUSY_IDLE: f64 = 0.4;

/// A queue in front of the line makes round trips so much longer.
const QUEUE: f64 = 1.15;

/// Whether the rate that is known is the line's: its packets were recorded, or a queue stands in front of it. Otherwise
/// it is the best that was seen, and the line may take more.
fn is_line_seen(facts: &Facts) -> bool {
    let queues = facts
        .sender
        .zip(facts.rtt_s)
        .is_some_and(|(sender, rtt_s)| sender.backlogged >= 0.5 && sender.rtt_s >= QUEUE * rtt_s);
    facts.line_busy.is_some() || queues
}

/// Rates of the ends and of the line.
pub(super) fn find(facts: &Facts) -> Vec<Finding> {
    let (near, far) = ((facts.idle.near, facts.cpu.near), (facts.idle.far, facts.cpu.far));
    let (sender, receiver) = if facts.is_write { (near, far) } else { (far, near) };
    let mut found = Vec::new();
    for (limiter, (idle, cpu)) in [(Limiter::SenderCpu, sender), (Limiter::ReceiverCpu, receiver)] {
        let Some(idle) = idle.filter(|idle| *idle < BUSY_IDLE) else { continue };
        let mut evidence = vec![Evidence {
            what: "share of the time in which the loop had nothing to do".to_owned(),
            value: idle,
            unit: "",
            seen: "sockets: loop_idle_ns",
        }];
        evidence.extend(cpu.map(|cpu| Evidence {
            what: "share of a CPU that its thread got".to_owned(),
            value: cpu,
            unit: "",
            seen: "sockets: loop_cpu_ns",
        }));
        let bytes_per_s = facts.current.bytes_per_s / (1.0 - idle).max(0.05);
        found.push(Finding {
            limiter,
            share: 1.0 - idle,
            effect: Effect::Rate { bytes_per_s, of_connection: false },
            evidence,
        });
    }
    if let Some(line) = facts.line_bytes_per_s.filter(|_| is_line_seen(facts)) {
        let (what, seen) = match facts.line_busy {
            Some(_) => {
                ("payload that the line carries while it is busy", "packets: scheduled_t_ns, payload_bytes")
            }
            None => ("the most that TCP delivered", "sockets: delivery_rate_bytes_per_s"),
        };
        let mut evidence = vec![Evidence { what: what.to_owned(), value: line, unit: "bytes/s", seen }];
        evidence.extend(facts.line_busy.map(|busy| Evidence {
            what: "share of the time in which the line was busy".to_owned(),
            value: busy,
            unit: "",
            seen: "packets: scheduled_t_ns, ip_bytes",
        }));
        found.push(Finding {
            limiter: Limiter::LinkRate,
            share: facts.current.bytes_per_s / line,
            effect: Effect::Rate { bytes_per_s: line, of_connection: false },
            evidence,
        });
    }
    found
}
