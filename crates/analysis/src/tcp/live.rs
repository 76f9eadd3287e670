//! A live connection: its rates, windows and limiter, from samples of TCP_INFO.
//!
//! Shares of time are of the stretch between two calls of [`Live::take`]. The kernel counts the sender's busy time, and
//! its time limited by windows and buffers, in steps of its timer; other limiters come from the samples. The path's
//! rate is not known here, so a sender that is limited by its pacing may be at the line or below it.

use std::net::SocketAddr;

use diagnosis::Limiter;
use event::{CongestionState, Look, SocketSample};
use serde::Serialize;

use super::cuts::Cuts;

/// A connection, its owner and its state.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Inode number of its network namespace.
    pub netns: u64,
    /// `target` if this end was connected to, `initiator` if it did.
    pub role: &'static str,
    /// This end.
    pub local: SocketAddr,
    /// Address of the peer.
    pub peer: SocketAddr,
    /// Process that has it open, if that can be known.
    pub pid: Option<u32>,
    /// Name of the process.
    pub process: Option<String>,
    /// User id of its owner.
    pub uid: u32,
    /// Congestion control.
    pub congestion: String,
    /// BBR's estimate of the path's bandwidth.
    pub bbr_bits_per_s: Option<f64>,
    /// The most that may be written and not acknowledged.
    pub sndbuf_bytes: Option<u32>,
    /// The most that may be received and not read.
    pub rcvbuf_bytes: Option<u32>,
    /// Its state.
    #[serde(flatten)]
    pub doing: Doing,
}

/// A connection over one stretch of time.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Doing {
    /// Length of the stretch.
    pub seconds: f64,
    /// Samples in it.
    pub samples: u64,
    /// Congestion window.
    pub cwnd_packets: u32,
    /// Slow-start threshold; none while slow start has not ended.
    pub ssthresh_packets: Option<u32>,
    /// Maximum segment size for sending.
    pub mss_bytes: u32,
    /// Congestion state.
    pub state: &'static str,
    /// Smoothed round-trip time.
    pub rtt_s: f64,
    /// RTT variance (rttvar).
    pub rtt_var_s: f64,
    /// Smallest round-trip time.
    pub min_rtt_s: Option<f64>,
    /// Packets in flight.
    pub in_flight_packets: u32,
    /// Payload in flight.
    pub in_flight_bytes: u64,
    /// Written and not sent.
    pub notsent_bytes: u32,
    /// Send window: bytes that the peer allows.
    pub snd_wnd_bytes: u32,
    /// Delivery rate as the kernel measured it last.
    pub delivery_bits_per_s: f64,
    /// Pacing rate; `None` if unpaced.
    pub pacing_bits_per_s: Option<f64>,
    /// Payload acknowledged over the stretch.
    pub sent_bits_per_s: f64,
    /// Payload received over the stretch.
    pub received_bits_per_s: f64,
    /// Share of the time with something to send or not acknowledged.
    pub busy: f64,
    /// Share of the time limited by the peer's receive window.
    pub rwnd_limited: f64,
    /// Share of the time limited by the send buffer.
    pub sndbuf_limited: f64,
    /// Share of the time, as samples show it, in which the congestion window was full and more was to be sent.
    pub cwnd_limited: f64,
    /// Packets sent again over the stretch.
    pub retransmitted_packets: u64,
    /// Packets sent again since the connection began.
    pub retransmitted_packets_total: u64,
    /// Cuts of the window over the stretch.
    pub cuts: Cuts,
    /// Cuts since the first sample of the connection.
    pub cuts_total: Cuts,
    /// The limiter of the data that this end sends.
    pub limiter: Limiter,
}

/// A connection that is watched.
#[derive(Clone, Debug)]
pub struct Live {
    /// The last sample of the stretch before.
    base: SocketSample,
    last: SocketSample,
    is_at_ease: bool,
    tally: Tally,
    cuts: Cuts,
    cuts_total: Cuts,
}

/// Sender's time by the state of the sample at its end: quiet connections are sampled less often.
#[derive(Clone, Copy, Default, Debug)]
struct Tally {
    samples: u64,
    time_ns: u64,
    /// No data were waiting.
    starved_ns: u64,
    /// Waiting data exceeded the congestion window.
    cwnd_ns: u64,
    /// Lost packets were being repaired.
    repairing_ns: u64,
    /// Waiting data exceeded the peer's window.
    rwnd_ns: u64,
    /// More waited and both windows had room.
    held_ns: u64,
}

impl Live {
    /// From its first sample on. `app_rx_bytes` of samples is all payload of TCP that has come.
    pub fn new(first: SocketSample) -> Live {
        Live {
            base: first,
            last: first,
            is_at_ease: false,
            tally: Tally::default(),
            cuts: Cuts::default(),
            cuts_total: Cuts::default(),
        }
    }

    /// Takes the next sample; `paces_itself` if its congestion control knows itself how fast it may send (BBR).
    pub fn add(&mut self, sample: SocketSample, paces_itself: bool) {
        let look = |sample: &SocketSample| Look { paces_itself, ..sample.into() };
        let cut = look(&sample).cut_since(&look(&self.last));
        self.cuts.add(cut);
        self.cuts_total.add(cut);
        self.tally.add(&sample, sample.t.since(self.last.t).as_nanos() as u64);
        let window_bytes = u64::from(sample.cwnd_packets) * u64::from(sample.mss_bytes);
        self.is_at_ease = sample.notsent_bytes == 0
            && sample.state == CongestionState::Open
            && 4 * sample.unacked_packets <= sample.cwnd_packets
            && sample.acked_bytes.saturating_sub(self.last.acked_bytes) < window_bytes;
        self.last = sample;
    }

    /// True if its window was far from full recently, so that it can only have shrunk by disuse.
    pub fn is_at_ease(&self) -> bool {
        self.is_at_ease
    }

    /// State since the last call. The next stretch begins.
    pub fn take(&mut self) -> Doing {
        let (base, last) = (self.base, self.last);
        let elapsed_ns = last.t.since(base.t).as_nanos() as u64;
        let seconds = elapsed_ns as f64 / 1e9;
        let share = |after: u64, before: u64| match elapsed_ns {
            0 => 0.0,
            // The kernel counts in steps of its timer.
            elapsed => (after.saturating_sub(before) as f64 / elapsed as f64).min(1.0),
        };
        let rate = |bytes: u64| if elapsed_ns == 0 { 0.0 } else { bytes as f64 * 8.0 / seconds };
        let sent_bytes = last.acked_bytes.saturating_sub(base.acked_bytes);
        let received_bytes = last.app_rx_bytes.saturating_sub(base.app_rx_bytes);
        let doing = Doing {
            seconds,
            samples: self.tally.samples,
            cwnd_packets: last.cwnd_packets,
            ssthresh_packets: Some(last.ssthresh_packets).filter(|packets| *packets < 1 << 30),
            mss_bytes: last.mss_bytes,
            state: last.state.name(),
            rtt_s: last.rtt_ns as f64 / 1e9,
            rtt_var_s: last.rtt_var_ns as f64 / 1e9,
            min_rtt_s: Some(last.min_rtt_ns).filter(|ns| *ns > 0).map(|ns| ns as f64 / 1e9),
            in_flight_packets: last.in_flight_packets,
            in_flight_bytes: u64::from(last.in_flight_packets) * u64::from(last.mss_bytes),
            notsent_bytes: last.notsent_bytes,
            snd_wnd_bytes: last.snd_wnd_bytes,
            delivery_bits_per_s: last.delivery_rate_bytes_per_s as f64 * 8.0,
            pacing_bits_per_s: Some(last.pacing_rate_bytes_per_s)
                .filter(|rate| *rate < u64::MAX - 1)
                .map(|rate| rate as f64 * 8.0),
            sent_bits_per_s: rate(sent_bytes),
            received_bits_per_s: rate(received_bytes),
            busy: share(last.busy_ns, base.busy_ns),
            rwnd_limited: share(last.rwnd_limited_ns, base.rwnd_limited_ns),
            sndbuf_limited: share(last.sndbuf_limited_ns, base.sndbuf_limited_ns),
            cwnd_limited: self.tally.share(self.tally.cwnd_ns),
            retransmitted_packets: u64::from(
                last.retransmitted_packets.wrapping_sub(base.retransmitted_packets),
            ),
            retransmitted_packets_total: last.retransmitted_packets.into(),
            cuts: self.cuts,
            cuts_total: self.cuts_total,
            limiter: Limiter::Idle,
        };
        let limiter = self.limiter(&doing, sent_bytes, received_bytes);
        self.base = last;
        self.tally = Tally::default();
        self.cuts = Cuts::default();
        Doing { limiter, ..doing }
    }

    /// The limiter with the largest share of the time.
    fn limiter(&self, doing: &Doing, sent_bytes: u64, received_bytes: u64) -> Limiter {
        if sent_bytes == 0 && received_bytes == 0 && doing.busy == 0.0 {
            return Limiter::Idle;
        }
        if received_bytes > 4 * sent_bytes {
            return Limiter::Receiving;
        }
        let tally = &self.tally;
        // While a send buffer is full and too small, nothing waits behind it that the kernel knows of.
        let starved = (tally.share(tally.starved_ns) - doing.sndbuf_limited).max(0.0);
        let full = match doing.cuts {
            Cuts { loss: 0, timeout: 0, mark: 0, local: 0, .. } => Limiter::CongestionWindow,
            Cuts { loss, timeout, mark, local, .. } if local > loss + timeout + mark => Limiter::DeviceQueue,
            _ => Limiter::Loss,
        };
        let delivered = self.last.delivery_rate_bytes_per_s as f64;
        let is_paced = delivered >= 0.7 * self.last.pacing_rate_bytes_per_s as f64;
        let shares = [
            (Limiter::AppLimited, starved),
            (Limiter::SendBuffer, doing.sndbuf_limited),
            (Limiter::ReceiveWindow, doing.rwnd_limited.max(tally.share(tally.rwnd_ns))),
            (full, tally.share(tally.cwnd_ns)),
            (Limiter::Loss, tally.share(tally.repairing_ns)),
            (if is_paced { Limiter::Pacing } else { Limiter::SenderHost }, tally.share(tally.held_ns)),
        ];
        let most = shares.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
        most.map_or(Limiter::AppLimited, |(limiter, _)| limiter)
    }
}

impl Tally {
    fn add(&mut self, sample: &SocketSample, elapsed_ns: u64) {
        self.samples += 1;
        self.time_ns += elapsed_ns;
        let mss = u64::from(sample.mss_bytes);
        let unacked = u64::from(sample.unacked_packets) * mss;
        let place = if matches!(sample.state, CongestionState::Recovery | CongestionState::Loss) {
            &mut self.repairing_ns
        } else if sample.notsent_bytes == 0 {
            &mut self.starved_ns
        } else if 8 * u64::from(sample.in_flight_packets) >= 7 * u64::from(sample.cwnd_packets) {
            // Super-packets leave a window a little short of full.
            &mut self.cwnd_ns
        } else if unacked + mss > u64::from(sample.snd_wnd_bytes) {
            &mut self.rwnd_ns
        } else {
            &mut self.held_ns
        };
        *place += elapsed_ns;
    }

    fn share(&self, of_ns: u64) -> f64 {
        if self.time_ns == 0 { 0.0 } else { of_ns as f64 / self.time_ns as f64 }
    }
}

#[cfg(test)]
mod tests {
    use diagnosis::Instrument;
    use event::{Host, Instant};

    use super::*;

    /// A second of samples, 10 ms apart, of a sender at 100 MB/s with all it can want to send.
    #[track_caller]
    fn check(expected: Limiter, change: impl Fn(u64, &mut SocketSample)) -> Doing {
        let sample = |at: u64| {
            let t = Instant::from_nanos(at * 10_000_000);
            let mut sample = SocketSample {
                cwnd_packets: 1000,
                ssthresh_packets: 900,
                mss_bytes: 1000,
                rtt_ns: 16_000_000,
                unacked_packets: 1000,
                in_flight_packets: 1000,
                acked_bytes: at * 1_000_000,
                snd_wnd_bytes: 4_000_000,
                delivery_rate_bytes_per_s: 100_000_000,
                pacing_rate_bytes_per_s: 120_000_000,
                notsent_bytes: 200_000,
                busy_ns: at * 10_000_000,
                ..SocketSample::new(t, Host::Far, 0)
            };
            change(at, &mut sample);
            sample
        };
        let mut live = Live::new(sample(0));
        (1..=100).for_each(|at| live.add(sample(at), false));
        let doing = live.take();
        assert_eq!(doing.limiter, expected, "{doing:#?}");
        assert!(expected.seen_by().contains(&Instrument::Top), "{expected:?}");
        assert_eq!((doing.samples, doing.seconds), (100, 1.0));
        let after = live.take();
        assert_eq!((after.samples, after.limiter), (0, Limiter::Idle), "the next stretch is empty");
        doing
    }

    #[test]
    fn a_full_congestion_window_by_what_cut_it() {
        let doing = check(Limiter::CongestionWindow, |_, _| {});
        assert!((doing.sent_bits_per_s - 8e8).abs() < 1.0, "{doing:?}");
        assert_eq!((doing.busy, doing.cwnd_limited, doing.ssthresh_packets), (1.0, 1.0, Some(900)));
        // A sawtooth, cut every 200 ms.
        let tooth = |at: u64, sample: &mut SocketSample| {
            sample.cwnd_packets = 700 + 15 * (at % 20) as u32;
            sample.ssthresh_packets = 700;
            (sample.unacked_packets, sample.in_flight_packets) = (sample.cwnd_packets, sample.cwnd_packets);
        };
        let doing = check(Limiter::DeviceQueue, tooth);
        assert_eq!((doing.cuts.local, doing.cuts.total(), doing.cuts_total.local), (5, 5, 5));
        let doing = check(Limiter::Loss, |at, sample| {
            tooth(at, sample);
            sample.retransmitted_packets = (at / 20) as u32;
        });
        assert_eq!((doing.cuts.loss, doing.cuts.local, doing.retransmitted_packets), (5, 0, 5));
    }

    #[test]
    fn what_else_may_limit_a_sender() {
        check(Limiter::AppLimited, |_, sample| sample.notsent_bytes = 0);
        check(Limiter::ReceiveWindow, |_, sample| {
            (sample.cwnd_packets, sample.snd_wnd_bytes) = (5000, 1_000_000);
        });
        // Shut: its reader does not read.
        check(Limiter::ReceiveWindow, |_, sample| {
            (sample.unacked_packets, sample.in_flight_packets, sample.snd_wnd_bytes) = (0, 0, 0);
        });
        check(Limiter::SendBuffer, |at, sample| {
            (sample.notsent_bytes, sample.sndbuf_limited_ns) = (0, at * 9_000_000);
        });
        check(Limiter::Pacing, |_, sample| sample.cwnd_packets = 5000);
        check(Limiter::SenderHost, |_, sample| {
            (sample.cwnd_packets, sample.pacing_rate_bytes_per_s) = (5000, 800_000_000);
        });
        check(Limiter::Loss, |_, sample| sample.state = CongestionState::Recovery);
    }

    #[test]
    fn who_receives_and_who_rests() {
        let doing = check(Limiter::Receiving, |at, sample| {
            sample.app_rx_bytes = at * 1_000_000;
            sample.acked_bytes = at * 1000;
        });
        assert!((doing.received_bits_per_s - 8e8).abs() < 1.0, "{doing:?}");
        let rest = |_, sample: &mut SocketSample| {
            (sample.acked_bytes, sample.busy_ns, sample.unacked_packets, sample.notsent_bytes) = (7, 9, 0, 0);
        };
        check(Limiter::Idle, rest);
    }

    #[test]
    fn at_ease_is_far_from_a_full_window() {
        let mut sample = SocketSample::new(Instant::ZERO, Host::Near, 0);
        (sample.cwnd_packets, sample.mss_bytes, sample.unacked_packets) = (10, 1000, 2);
        let mut live = Live::new(sample);
        let mut check = |expected: bool, change: &dyn Fn(&mut SocketSample)| {
            live.add(sample, false);
            assert!(live.is_at_ease());
            let mut changed = sample;
            change(&mut changed);
            live.add(changed, false);
            assert_eq!(live.is_at_ease(), expected, "{changed:?}");
        };
        // Commands that ask for data are small.
        check(true, &|sample| sample.acked_bytes = 500);
        // A burst came and went between two samples.
        check(false, &|sample| sample.acked_bytes = 20_000);
        check(false, &|sample| sample.unacked_packets = 5);
        check(false, &|sample| sample.notsent_bytes = 1);
        check(false, &|sample| sample.state = CongestionState::Cwr);
    }
}
