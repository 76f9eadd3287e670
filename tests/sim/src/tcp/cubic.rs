//! CUBIC as `net/ipv4/tcp_cubic.c` has it (RFC 9438), with fast convergence, the Reno-friendly region and HyStart.

use core::time::Duration;

use event::Instant;

use super::recovery::{View, Window};

/// Of the cubic, in packets per second³.
const C: f64 = 0.4;
/// Multiplicative decrease.
const BETA: f64 = 717.0 / 1024.0;
/// HyStart does nothing below this window.
const HYSTART_LEAST: u32 = 16;
/// Acknowledgements that belong to one train.
const TRAIN_GAP: Duration = Duration::from_millis(2);
/// Round trips before the delay of a round counts.
const SAMPLES: u32 = 8;
const DELAY_LEAST: Duration = Duration::from_millis(4);
const DELAY_MOST: Duration = Duration::from_millis(16);
/// Most that a super-packet's way to the device adds to a train.
const TRAIN_SLACK: Duration = Duration::from_millis(1);

/// State of CUBIC.
#[derive(Clone, Default, Debug)]
pub(crate) struct Cubic {
    last_max: f64,
    epoch: Option<Epoch>,
    delay_min: Option<Duration>,
    hystart: Option<Hystart>,
}

/// Growth since a cut.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Instant,
    origin: f64,
    /// Time from the cut to the origin, in seconds.
    k: f64,
    /// Window of Reno.
    reno: f64,
    /// Part of a packet by which the window is to grow.
    part: f64,
}

#[derive(Clone, Copy, Default, Debug)]
struct Hystart {
    round_ends: u64,
    round_start: Instant,
    last_ack: Instant,
    least: Option<Duration>,
    samples: u32,
    has_found: bool,
}

impl Cubic {
    pub(crate) fn new(has_hystart: bool) -> Cubic {
        Cubic { hystart: has_hystart.then(Hystart::default), ..Cubic::default() }
    }

    /// Forgets everything, as after a timeout.
    pub(crate) fn reset(&mut self) {
        *self = Cubic::new(self.hystart.is_some());
    }

    pub(crate) fn ssthresh(&mut self, cwnd: u32) -> u32 {
        let window = f64::from(cwnd);
        self.epoch = None;
        // Fast convergence.
        self.last_max = if window < self.last_max { window * (1.0 + BETA) / 2.0 } else { window };
        ((window * BETA) as u32).max(2)
    }

    /// An idle time does not count as growth.
    pub(crate) fn restarts(&mut self, idle: Duration) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start += idle;
        }
    }

    /// Grows the window for `acked` packets.
    pub(crate) fn grow(&mut self, view: &View, window: &mut Window, acked: u32) {
        let mut acked = acked;
        if window.cwnd < window.ssthresh {
            let grown = (window.cwnd + acked).min(window.ssthresh);
            acked -= grown - window.cwnd;
            window.cwnd = grown;
        }
        if acked > 0 && window.cwnd >= window.ssthresh {
            self.avoid(view, window, f64::from(acked));
        }
    }

    fn avoid(&mut self, view: &View, window: &mut Window, acked: f64) {
        let cwnd = f64::from(window.cwnd);
        let last_max = self.last_max;
        let epoch = self.epoch.get_or_insert_with(|| {
            let (k, origin) = match last_max > cwnd {
                true => (((last_max - cwnd) / C).cbrt(), last_max),
                false => (0.0, cwnd),
            };
            Epoch { start: view.now, origin, k, reno: cwnd, part: 0.0 }
        });
        let t = view.now.since(epoch.start) + self.delay_min.unwrap_or_default();
        let target = epoch.origin + C * (t.as_secs_f64() - epoch.k).powi(3);
        let mut count = if target > cwnd { cwnd / (target - cwnd) } else { 100.0 * cwnd };
        if last_max == 0.0 {
            count = count.min(20.0);
        }
        // RFC 9438, 4.3: the window that Reno would have.
        epoch.reno += acked * 3.0 * (1.0 - BETA) / (1.0 + BETA) / cwnd;
        if epoch.reno > cwnd {
            count = count.min(cwnd / (epoch.reno - cwnd));
        }
        epoch.part += acked / count.max(2.0);
        window.cwnd += epoch.part as u32;
        epoch.part = epoch.part.fract();
    }

    /// Takes the round trip of a packet that was sent once.
    pub(crate) fn measured(&mut self, view: &View, window: &mut Window, rtt: Duration) {
        if self.epoch.is_some_and(|epoch| view.now.since(epoch.start) < Duration::from_secs(1)) {
            return;
        }
        let delay_min = *self.delay_min.insert(self.delay_min.map_or(rtt, |least| least.min(rtt)));
        let is_slow_start = window.cwnd < window.ssthresh;
        if let Some(hystart) = self.hystart.as_mut()
            && is_slow_start
            && !hystart.has_found
            && window.cwnd >= HYSTART_LEAST
            && hystart.finds(view, delay_min, rtt)
        {
            window.ssthresh = window.cwnd;
        }
    }
}

impl Hystart {
    /// Returns true once the pipe seems full.
    fn finds(&mut self, view: &View, delay_min: Duration, rtt: Duration) -> bool {
        if view.una > self.round_ends || self.round_ends == 0 {
            *self = Hystart {
                round_ends: view.nxt,
                round_start: view.now,
                last_ack: view.now,
                ..Hystart::default()
            };
        }
        if view.now.since(self.last_ack) <= TRAIN_GAP {
            self.last_ack = view.now;
            let slack = TRAIN_SLACK.min(Duration::from_secs_f64(4.0 * 45.0 / view.paced.max(1.0)));
            let threshold = delay_min + slack;
            let threshold = if view.is_paced { threshold } else { threshold / 2 };
            self.has_found |= view.now.since(self.round_start) > threshold;
        }
        let least = *self.least.insert(self.least.map_or(rtt, |least| least.min(rtt)));
        if self.samples < SAMPLES {
            self.samples += 1;
        } else {
            self.has_found |= least > delay_min + (delay_min / 8).clamp(DELAY_LEAST, DELAY_MOST);
        }
        self.has_found
    }
}
