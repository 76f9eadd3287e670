//! Capacity of the hosts and of the line: the CPU of each end's event loop, and the rate of the line.

use super::model::{Effect, Finding};
use crate::facts::Facts;
use crate::limiter::Limiter;
use crate::verdict::Evidence;

/// Idle share of a loop below which it is short of CPU.
const BUSY_IDLE: f64 = 0.4;

/// Ratio of smoothed to base round-trip time from which on a queue stands in front of the line.
const QUEUE: f64 = 1.15;

/// Share of a request's latency that round trips gain under the load, from which on it waits for the line.
const WAITS: f64 = 0.3;

/// True if the known rate is that of the line: its packets were recorded, or a queue stands in front of it. Otherwise it
/// is the best rate that was seen, and the line may carry more.
fn is_line_seen(facts: &Facts) -> bool {
    let queues = facts.sender.zip(facts.path.rtt_s).is_some_and(|(sender, rtt_s)| {
        sender.time.backlogged >= 0.5 && sender.traffic.rtt_s >= QUEUE * rtt_s
    });
    // The reader of a load sends little, and that little waits in the same queue, in one direction or the other.
    let delay = facts.path.loaded_rtt_s.zip(facts.path.rtt_s).map(|(loaded_s, rtt_s)| loaded_s - rtt_s);
    let has_delay = delay.is_some_and(|delay_s| delay_s >= WAITS * facts.current.latency_s);
    facts.path.line_busy.is_some() || queues || (facts.sender.is_none() && has_delay)
}

/// Rates of the hosts and of the line.
pub(super) fn find(facts: &Facts) -> Vec<Finding> {
    let (idle, cpu) = (facts.loops.idle, facts.loops.cpu);
    let (near, far) = ((idle.near, cpu.near), (idle.far, cpu.far));
    let (sender, receiver) = if facts.is_write { (near, far) } else { (far, near) };
    let mut found = Vec::new();
    for (limiter, (idle, cpu)) in [(Limiter::SenderCpu, sender), (Limiter::ReceiverCpu, receiver)] {
        let Some(idle) = idle.filter(|idle| *idle < BUSY_IDLE) else { continue };
        let what = "share of the time in which the loop had nothing to do";
        let mut evidence = vec![Evidence::new(what, idle, "", "sockets: loop_idle_ns")];
        evidence.extend(
            cpu.map(|cpu| {
                Evidence::new("share of a CPU that its thread got", cpu, "", "sockets: loop_cpu_ns")
            }),
        );
        let bytes_per_s = facts.current.bytes_per_s / (1.0 - idle).max(0.05);
        found.push(Finding {
            limiter,
            share: 1.0 - idle,
            effect: Effect::Rate { bytes_per_s, of_connection: false },
            evidence,
        });
    }
    found.extend(facts.path.line_bytes_per_s.filter(|_| is_line_seen(facts)).map(|line| link(facts, line)));
    found
}

fn link(facts: &Facts, line: f64) -> Finding {
    let (what, seen) = match facts.path.line_busy {
        Some(_) => {
            ("payload that the line carries while it is busy", "packets: scheduled_t_ns, payload_bytes")
        }
        None => ("the most that TCP delivered", "sockets: delivery_rate_bytes_per_s"),
    };
    let mut evidence = vec![Evidence::new(what, line, "bytes/s", seen)];
    evidence.extend(facts.path.line_busy.map(|busy| {
        let what = "share of the time in which the line was busy";
        Evidence::new(what, busy, "", "packets: scheduled_t_ns, ip_bytes")
    }));
    Finding {
        limiter: Limiter::LinkRate,
        share: facts.current.bytes_per_s / line,
        effect: Effect::Rate { bytes_per_s: line, of_connection: false },
        evidence,
    }
}
