//! The limiter of a stream, from the measurements of both ends.
//!
//! The order of the rules matters: an end short of CPU also fills its buffers, and a window that is too small also leaves
//! the path idle. The path remains where no host is at a limit. Rates that are known before a run are in `ceiling`.

use diagnosis::Limiter;
use event::Bytes;

use super::host::WINDOW_MAX_BYTES;
use crate::flow::counters::EndReport;

/// Share of the time from which on a limit of TCP is the limiter.
const MOSTLY: f64 = 0.2;
/// Share of one CPU from which on a thread is short of CPU.
const NO_TIME: f64 = 0.9;

/// Measurements of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) elapsed_ns: u64,
    pub(crate) bytes_per_s: f64,
    pub(crate) rtt_ns: u64,
    pub(crate) sender: EndReport,
    pub(crate) receiver: EndReport,
    /// Host of the sender: `near` or `far`.
    pub(crate) sender_host: &'static str,
    /// Host of the receiver: `near` or `far`.
    pub(crate) receiver_host: &'static str,
    /// CPU time of all streams of the run at the sender.
    pub(crate) sender_cpu_ns: u64,
    /// CPU time of all streams of the run at the receiver.
    pub(crate) receiver_cpu_ns: u64,
}

impl Measured {
    /// The limiter, and a sentence with its evidence and remedy.
    pub(crate) fn limiter(&self) -> (Limiter, String) {
        let limiter = self.find();
        (limiter, format!("{}: {}", limiter.label(), self.evidence(limiter)))
    }

    /// Busy share of the sender's thread or of all of its CPUs, whichever is larger.
    fn sender_cpu(&self) -> f64 {
        self.cpu(&self.sender, self.sender_cpu_ns)
    }

    /// Busy share of the receiver's thread or of all of its CPUs, whichever is larger.
    fn receiver_cpu(&self) -> f64 {
        self.cpu(&self.receiver, self.receiver_cpu_ns)
    }

    fn cpu(&self, end: &EndReport, all_ns: u64) -> f64 {
        let elapsed_ns = self.elapsed_ns.max(1) as f64;
        let of_all = all_ns as f64 / end.limits.cpus.max(1) as f64;
        (end.counters.cpu_ns as f64).max(of_all) / elapsed_ns
    }

    fn find(&self) -> Limiter {
        let share = |ns: u64| ns as f64 / self.elapsed_ns.max(1) as f64;
        let (sender, receiver) = (&self.sender, &self.receiver);
        if is_under_pressure(sender) || is_under_pressure(receiver) {
            Limiter::TcpMemory
        } else if share(sender.counters.rwnd_limited_ns) >= MOSTLY
            || fills(self.flight_bytes(), sender.counters.peer_window_max_bytes)
        {
            match self.flight_bytes() {
                flight if flight >= WINDOW_MAX_BYTES / 10 * 9 => Limiter::WindowScale,
                // Linux advertises half of a buffer or more.
                flight if is_near(flight * 2, receiver.limits.receive_bytes[2]) => Limiter::ReceiveWindow,
                _ if self.receiver_cpu() >= NO_TIME => Limiter::ReceiverCpu,
                _ => Limiter::ReceiverApplication,
            }
        } else if (share(sender.counters.sndbuf_limited_ns) >= MOSTLY
            && is_near(self.flight_bytes() * 2, sender.limits.send_bytes[2]))
            || fills(self.flight_bytes(), sender.limits.send_bytes[2])
        {
            Limiter::SendBuffer
        } else if self.sender_cpu() >= NO_TIME {
            Limiter::SenderCpu
        } else if self.receiver_cpu() >= NO_TIME {
            Limiter::ReceiverCpu
        } else {
            Limiter::Path
        }
    }

    /// Evidence of a limiter, and its remedy with numbers.
    fn evidence(&self, limiter: Limiter) -> String {
        // A faster stream needs at least twice the present window.
        let wanted = self.flight_bytes().saturating_mul(2);
        let flight = Bytes(self.flight_bytes());
        let (sender, receiver) = (&self.sender, &self.receiver);
        let helps = limiter.next_step();
        let busy =
            |share: f64| format!("it was busy for {:.0} % of the time; what helps: {helps}", share * 100.0);
        match limiter {
            Limiter::SenderCpu => busy(self.sender_cpu()),
            Limiter::ReceiverCpu => busy(self.receiver_cpu()),
            Limiter::WindowScale => format!("{flight} were in flight; use --streams"),
            Limiter::ReceiveWindow => format!(
                "net.ipv4.tcp_rmem lets its buffer grow to {}, {flight} were in flight, and it needs up to twice that; \
                 at the {} host: {}",
                Bytes(receiver.limits.receive_bytes[2]),
                self.receiver_host,
                receiver.limits.receive_command(wanted)
            ),
            Limiter::SendBuffer => format!(
                "net.ipv4.tcp_wmem lets it grow to {}, {flight} were in flight, and it needs up to twice that; at the \
                 {} host: {}",
                Bytes(sender.limits.send_bytes[2]),
                self.sender_host,
                sender.limits.send_command(wanted)
            ),
            Limiter::TcpMemory => {
                let (host, end) = match is_under_pressure(sender) {
                    true => (self.sender_host, sender),
                    false => (self.receiver_host, receiver),
                };
                format!(
                    "net.ipv4.tcp_mem puts it under pressure from {} on; at the {host} host: {}",
                    Bytes(end.limits.pressure_bytes()),
                    end.limits.memory_command(end.counters.memory_max_bytes)
                )
            }
            Limiter::ReceiverApplication => {
                "the limits of its host would let the window grow; or the kernel has not let it grow yet"
                    .to_owned()
            }
            // The path, where neither host is at a limit.
            _ => format!(
                "neither host was at a limit; the window was up to {}, {} packets were sent again; what helps: {helps}",
                Bytes(sender.counters.window_max_bytes),
                sender.counters.retransmitted
            ),
        }
    }

    /// Bytes in flight: rate × round trip.
    fn flight_bytes(&self) -> u64 {
        (self.bytes_per_s * self.rtt_ns as f64 / 1e9) as u64
    }
}

/// True if something fills most of a known limit.
fn is_near(bytes: u64, limit: u64) -> bool {
    limit > 0 && bytes >= limit / 10 * 8
}

/// True if the bytes in flight fill more of a window or buffer than the kernel's autotuning leaves: half.
///
/// The kernel's own counters miss a paced sender that waits for its pace, and send buffers with little unsent data. Of a
/// full buffer about two thirds are in flight (`ceiling` explains that).
fn fills(bytes: u64, whole: u64) -> bool {
    whole > 0 && bytes >= whole / 10 * 6
}

/// True if TCP of a host was under memory pressure.
fn is_under_pressure(end: &EndReport) -> bool {
    let pressure_bytes = end.limits.pressure_bytes();
    pressure_bytes > 0 && end.counters.memory_max_bytes >= pressure_bytes
}

#[cfg(test)]
mod tests {
    use diagnosis::Instrument;

    use super::*;
    use crate::flow::counters::EndCounters;
    use crate::limits::host::HostLimits;

    const SECOND: u64 = 1_000_000_000;

    /// Ten seconds at 1 Gb/s over 100 ms: 12.5 MB in flight, with plenty of everything.
    fn plenty() -> Measured {
        let counters = EndCounters {
            busy_ns: 10 * SECOND,
            cpu_ns: SECOND,
            memory_max_bytes: 20 << 20,
            window_max_bytes: 13_000_000,
            ..EndCounters::default()
        };
        let limits = HostLimits {
            receive_bytes: [4096, 131_072, 1 << 30],
            send_bytes: [4096, 16_384, 1 << 30],
            memory_pages: [3 << 16, 1 << 18, 3 << 17],
            page_bytes: 4096,
            cpus: 2,
        };
        let end = EndReport::new(counters, limits);
        Measured {
            elapsed_ns: 10 * SECOND,
            bytes_per_s: 125e6,
            rtt_ns: SECOND / 10,
            sender: end,
            receiver: end,
            sender_host: "near",
            receiver_host: "far",
            sender_cpu_ns: SECOND,
            receiver_cpu_ns: SECOND,
        }
    }

    /// Checks the limiter, and that its sentence contains `words`.
    #[track_caller]
    fn check(expected: Limiter, words: &str, change: impl FnOnce(&mut Measured)) {
        let mut measured = plenty();
        change(&mut measured);
        let (limiter, sentence) = measured.limiter();
        assert_eq!(limiter, expected, "{sentence}");
        assert!(limiter.seen_by().contains(&Instrument::Stream), "{limiter:?}");
        assert!(sentence.contains(words), "{sentence}");
    }

    #[test]
    fn each_limiter_is_named() {
        check(Limiter::Path, "0 packets", |_| {});
        check(Limiter::SenderCpu, "95 %", |seen| seen.sender.counters.cpu_ns = 9_500_000_000);
        check(Limiter::ReceiverCpu, "95 %", |seen| seen.receiver.counters.cpu_ns = 9_500_000_000);
        // Four streams of which none has a CPU for itself.
        check(Limiter::SenderCpu, "98 %", |seen| seen.sender_cpu_ns = 19_500_000_000);
        check(Limiter::Path, "(path)", |seen| {
            seen.sender_cpu_ns = 19_500_000_000;
            seen.sender.limits.cpus = 4;
        });
        let memory = "at the far host: sysctl -w net.ipv4.tcp_mem=\"393216 524288 786432\"";
        check(Limiter::TcpMemory, memory, |seen| seen.receiver.counters.memory_max_bytes = 1 << 30);
        let closed = |seen: &mut Measured| seen.sender.counters.rwnd_limited_ns = 6 * SECOND;
        check(Limiter::ReceiverApplication, "reads too slowly", closed);
        check(
            Limiter::ReceiveWindow,
            "at the far host: sysctl -w net.ipv4.tcp_rmem=\"4096 131072 67108864\"",
            |seen| {
                closed(seen);
                seen.receiver.limits.receive_bytes[2] = 26_000_000;
            },
        );
        check(Limiter::ReceiverCpu, "100 %", |seen| {
            closed(seen);
            seen.receiver.counters.cpu_ns = 10 * SECOND;
        });
        check(Limiter::WindowScale, "--streams", |seen| {
            closed(seen);
            (seen.bytes_per_s, seen.rtt_ns) = (2.1e9, SECOND / 2);
        });
        check(
            Limiter::SendBuffer,
            "at the near host: sysctl -w net.ipv4.tcp_wmem=\"4096 16384 67108864\"",
            |seen| {
                seen.sender.counters.sndbuf_limited_ns = 5 * SECOND;
                seen.sender.limits.send_bytes[2] = 26_000_000;
            },
        );
        // TCP_INFO does not count the waits of a paced sender.
        check(Limiter::ReceiveWindow, "at the far host", |seen| {
            seen.sender.counters.peer_window_max_bytes = 16_000_000;
            seen.receiver.limits.receive_bytes[2] = 26_000_000;
        });
        check(Limiter::SendBuffer, "at the near host", |seen| seen.sender.limits.send_bytes[2] = 16_000_000);
        check(Limiter::Path, "0 packets", |seen| {
            seen.sender.counters.peer_window_max_bytes = 26_000_000;
            seen.receiver.limits.receive_bytes[2] = 52_000_000;
            seen.sender.limits.send_bytes[2] = 26_000_000;
        });
        // An empty send buffer is no limit.
        check(Limiter::Path, "0 packets", |seen| seen.sender.counters.sndbuf_limited_ns = 5 * SECOND);
    }
}
