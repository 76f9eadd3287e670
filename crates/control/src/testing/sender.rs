//! A sender of blocks in virtual time: Linux's TCP as far as it concerns a window, behind a device ring and a line, which
//! several may share.
//!
//! The rules are those of net/ipv4: a window grows only while it is the limit (tcp_is_cwnd_limited: in slow start also
//! while it is less than twice what was under way), a packet that the device refuses cuts it (tcp_enter_cwr) and stays
//! for later, CUBIC leaves slow start by HyStart (a train of acknowledgements longer than half of the least round trip,
//! since nobody paces here; or a round trip longer by an eighth, 4 ms at least), and as long as it has never been cut
//! grows by a twentieth each round trip at least. A connection whose threshold was forgotten is paced from then on, unless that
//! is free: at twice the window over the round trip, 1.2 times near the threshold and beyond it. Nothing is lost, and
//! acknowledgements come packet by packet.

use core::cell::RefCell;
use core::time::Duration;
use std::collections::VecDeque;
use std::rc::Rc;

use event::{CongestionState, Instant};

use super::QUIET;
use crate::policy::Observation;

/// Time goes on in such steps; the host sends as fast as it likes within one.
pub(crate) const TICK: Duration = Duration::from_micros(100);
/// What the line carries of payload, in bytes per second.
pub(crate) const LINE: u64 = 117_000_000;
pub(crate) const MSS: u64 = 1448;
/// As a processor is away from an emulated path on a shared machine.
const STOP: Duration = Duration::from_micros(3400);
const NO_THRESHOLD: u32 = i32::MAX as u32;
/// HyStart (net/ipv4/tcp_cubic.c).
const HYSTART_WINDOW: u32 = 16;
const HYSTART_ACK_GAP: Duration = Duration::from_millis(2);
const HYSTART_DELAY: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(16));
const HYSTART_SAMPLES: u32 = 8;

/// Congestion control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Congestion {
    Reno,
    Cubic,
}

/// The path, and what the sender does with its window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) congestion: Congestion,
    /// There and back.
    pub(crate) rtt: Duration,
    pub(crate) ring_packets: usize,
    /// How often the line stands still for [`STOP`].
    pub(crate) stops_every: Option<Duration>,
    /// Who forgets a threshold is not paced for it.
    pub(crate) forgets_freely: bool,
}

impl Setting {
    /// Of a line that never stands still, and a sender who may not forget freely.
    pub(crate) fn new(congestion: Congestion, rtt: Duration, ring_packets: usize) -> Setting {
        Setting { congestion, rtt, ring_packets, stops_every: None, forgets_freely: false }
    }
}

/// A ring of packets and the line that empties it.
#[derive(Debug)]
struct Device {
    setting: Setting,
    now: Instant,
    /// When what is in it came there, and whose it is.
    ring: VecDeque<(Instant, usize)>,
    /// What the line has carried of the next packet.
    credit_bytes: u64,
    /// Of each sender, when the acknowledgement of a packet comes, and how long it has waited in the ring.
    under_way: Vec<VecDeque<(Instant, Duration)>>,
}

impl Device {
    /// The line takes packets out of the ring.
    fn carry(&mut self, now: Instant) {
        if now <= self.now {
            return;
        }
        self.now = now;
        let since_zero = now.since(Instant::ZERO);
        if self
            .setting
            .stops_every
            .is_some_and(|every| since_zero.as_nanos() % every.as_nanos() < STOP.as_nanos())
        {
            return;
        }
        self.credit_bytes += LINE * TICK.as_micros() as u64 / 1_000_000;
        while self.credit_bytes >= MSS
            && let Some((since, sender)) = self.ring.pop_front()
        {
            self.credit_bytes -= MSS;
            self.under_way[sender].push_back((now + self.setting.rtt, now.since(since)));
        }
        if self.ring.is_empty() {
            self.credit_bytes = 0;
        }
    }
}

/// See the file's beginning.
#[derive(Debug)]
pub(crate) struct Sender {
    setting: Setting,
    pub(crate) now: Instant,
    /// Handed to TCP and not sent.
    unsent_packets: u32,
    device: Rc<RefCell<Device>>,
    /// Which of the device's senders it is.
    number: usize,
    smoothed_rtt: Duration,
    /// What waits in the ring makes longer the least that it has seen as well.
    least_rtt: Duration,
    sent_packets: u32,
    delivered_packets: u32,
    /// How many had been at each time of the last round trip.
    arrivals: VecDeque<(Instant, u32)>,
    pub(crate) cwnd_packets: u32,
    pub(crate) ssthresh_packets: u32,
    pub(crate) cuts: u32,
    cut_until: Instant,
    /// How far the window was used since `usage_ends` was sent.
    is_limited: bool,
    most_under_way: u32,
    usage_ends: u32,
    /// Packets acknowledged towards the next step of the window.
    counted: u32,
    cubic: Cubic,
    hystart: Hystart,
    /// HyStart has taken the line for full, which it does once.
    has_filled: bool,
    /// Packets that pacing lets out now; `None` if it does not hold any back.
    paced: Option<f64>,
}

/// How CUBIC grows beyond its threshold (RFC 9438).
#[derive(Debug, Default)]
pub(crate) struct Cubic {
    epoch: Option<Instant>,
    before_cut: f64,
    origin: f64,
    k_s: f64,
}

#[derive(Debug, Default)]
struct Hystart {
    round_ends: u32,
    round_begun: Instant,
    last_ack: Instant,
    samples: u32,
    least: Option<Duration>,
}

impl Sender {
    pub(crate) fn new(setting: Setting) -> Sender {
        let device = Device {
            setting,
            now: Instant::ZERO,
            ring: VecDeque::new(),
            credit_bytes: 0,
            under_way: Vec::new(),
        };
        Sender::behind(setting, Rc::new(RefCell::new(device)))
    }

    /// Another one behind the same device.
    pub(crate) fn beside(&self) -> Sender {
        Sender::behind(self.setting, Rc::clone(&self.device))
    }

    fn behind(setting: Setting, device: Rc<RefCell<Device>>) -> Sender {
        let (number, now, waiting) = {
            let device = device.borrow();
            (device.under_way.len(), device.now, device.ring.len() as u64)
        };
        device.borrow_mut().under_way.push(VecDeque::new());
        // Its login has seen the path as it is.
        let rtt = setting.rtt + Duration::from_nanos(waiting * MSS * 1_000_000_000 / LINE);
        Sender {
            setting,
            now,
            unsent_packets: 0,
            device,
            number,
            smoothed_rtt: rtt,
            least_rtt: rtt,
            sent_packets: 0,
            delivered_packets: 0,
            arrivals: VecDeque::new(),
            cwnd_packets: 10,
            ssthresh_packets: NO_THRESHOLD,
            cuts: 0,
            cut_until: Instant::ZERO,
            is_limited: false,
            most_under_way: 0,
            usage_ends: 0,
            counted: 0,
            cubic: Cubic::default(),
            hystart: Hystart::default(),
            has_filled: false,
            paced: None,
        }
    }

    /// Hands packets to TCP.
    pub(crate) fn hand(&mut self, packets: u32) {
        self.unsent_packets += packets;
    }

    /// Whether everything that was handed over has arrived, and the receiver could have said so.
    pub(crate) fn is_done(&self) -> bool {
        self.unsent_packets == 0 && self.out() == 0
    }

    /// What TCP_INFO says now.
    pub(crate) fn info(&self) -> Observation {
        Observation {
            now: self.now,
            rtt: self.smoothed_rtt,
            min_rtt: Some(self.least_rtt),
            moved_bytes: u64::from(self.delivered_packets) * MSS,
            delivery_rate_bytes_per_s: self.delivery_rate(),
            app_limited: true,
            delivered_packets: self.delivered_packets,
            unacked_packets: self.out(),
            cwnd_packets: self.cwnd_packets,
            ssthresh_packets: self.ssthresh_packets,
            state: if self.now < self.cut_until { CongestionState::Cwr } else { CongestionState::Open },
            backlog_bytes: u64::from(self.unsent_packets) * MSS,
            forgets_freely: self.setting.forgets_freely && self.ssthresh_packets < NO_THRESHOLD,
            ..QUIET
        }
    }

    /// Over the last round trip.
    fn delivery_rate(&self) -> u64 {
        let Some((since, before)) = self.arrivals.front() else { return 0 };
        let bytes = u64::from(self.delivered_packets - before) * MSS;
        let time = self.now.since(*since).max(self.setting.rtt);
        u64::try_from(u128::from(bytes) * 1_000_000_000 / time.as_nanos()).unwrap_or(u64::MAX)
    }

    /// As `net::threshold`.
    pub(crate) fn forget_threshold(&mut self) {
        self.ssthresh_packets = NO_THRESHOLD;
        if self.setting.forgets_freely {
            return;
        }
        (self.cubic, self.hystart, self.has_filled) = (Cubic::default(), Hystart::default(), false);
        self.paced = Some(0.0);
    }

    /// Lets a tick go by.
    pub(crate) fn step(&mut self) {
        self.now += TICK;
        self.device.borrow_mut().carry(self.now);
        self.acknowledge();
        self.arrivals.push_back((self.now, self.delivered_packets));
        while self.arrivals.front().is_some_and(|(at, _)| self.now.since(*at) > self.setting.rtt) {
            self.arrivals.pop_front();
        }
        self.transmit();
    }

    fn out(&self) -> u32 {
        self.sent_packets - self.delivered_packets
    }

    fn acknowledge(&mut self) {
        while let Some(waited) = self.next_acknowledged() {
            self.delivered_packets += 1;
            self.smoothed_rtt = (7 * self.smoothed_rtt + self.setting.rtt + waited) / 8;
            self.least_rtt = self.least_rtt.min(self.setting.rtt + waited);
            if self.setting.congestion == Congestion::Cubic && self.is_slow_start() {
                self.hystart(self.setting.rtt + waited);
            }
            if !self.may_grow() {
                continue;
            }
            if self.is_slow_start() {
                self.cwnd_packets += 1;
                continue;
            }
            self.counted += 1;
            if self.counted >= self.packets_per_step() {
                (self.counted, self.cwnd_packets) = (0, self.cwnd_packets + 1);
            }
        }
    }

    /// How long the next packet that is acknowledged by now waited in the ring.
    fn next_acknowledged(&self) -> Option<Duration> {
        let under_way = &mut self.device.borrow_mut().under_way[self.number];
        under_way.pop_front_if(|(due, _)| *due <= self.now).map(|(_, waited)| waited)
    }

    /// What the window lets out, as far as the device takes it.
    fn transmit(&mut self) {
        let sent_before = self.sent_packets;
        let ratio = if self.cwnd_packets < self.ssthresh_packets / 2 { 2.0 } else { 1.2 };
        let gained =
            ratio * f64::from(self.cwnd_packets) * TICK.as_secs_f64() / self.setting.rtt.as_secs_f64();
        if let Some(paced) = &mut self.paced {
            // A segment of 64 KiB goes out whole.
            *paced = (*paced + gained).min(45.0);
        }
        while self.unsent_packets > 0
            && self.out() < self.cwnd_packets
            && self.paced.is_none_or(|paced| paced >= 1.0)
        {
            if self.device.borrow().ring.len() == self.setting.ring_packets {
                self.cut();
                break;
            }
            self.device.borrow_mut().ring.push_back((self.now, self.number));
            self.sent_packets += 1;
            self.unsent_packets -= 1;
            self.paced = self.paced.map(|paced| paced - 1.0);
        }
        let is_limited = self.out() >= self.cwnd_packets;
        if self.sent_packets == sent_before && !is_limited {
            return;
        }
        let is_over = self.delivered_packets >= self.usage_ends;
        if is_over || is_limited || (!self.is_limited && self.out() > self.most_under_way) {
            (self.is_limited, self.most_under_way) = (is_limited, self.out());
            self.usage_ends = self.sent_packets;
        }
    }

    fn is_slow_start(&self) -> bool {
        self.cwnd_packets < self.ssthresh_packets
    }

    fn may_grow(&self) -> bool {
        let is_half_used = self.is_slow_start() && self.cwnd_packets < 2 * self.most_under_way;
        self.now >= self.cut_until && (self.is_limited || is_half_used)
    }

    /// The device has refused a packet: once in a round trip that counts.
    fn cut(&mut self) {
        if self.now < self.cut_until {
            return;
        }
        self.cuts += 1;
        self.cut_until = self.now + self.setting.rtt;
        let left = match self.setting.congestion {
            Congestion::Reno => self.cwnd_packets / 2,
            Congestion::Cubic => self.cwnd_packets * 7 / 10,
        };
        self.cubic = Cubic::cut(self.cwnd_packets);
        self.ssthresh_packets = left.max(2);
        self.cwnd_packets = self.ssthresh_packets;
    }

    /// Acknowledged packets for a window larger by one.
    fn packets_per_step(&mut self) -> u32 {
        if self.setting.congestion == Congestion::Reno {
            return self.cwnd_packets;
        }
        self.cubic.packets_per_step(self.now, self.cwnd_packets, self.setting.rtt)
    }

    fn hystart(&mut self, sample: Duration) {
        let (rtt, now, state) = (self.least_rtt, self.now, &mut self.hystart);
        if self.delivered_packets > state.round_ends {
            *state = Hystart {
                round_ends: self.sent_packets,
                round_begun: now,
                last_ack: now,
                ..Hystart::default()
            };
        }
        if self.cwnd_packets < HYSTART_WINDOW || self.has_filled {
            return;
        }
        let mut is_found = false;
        if now.since(state.last_ack) <= HYSTART_ACK_GAP {
            state.last_ack = now;
            is_found = now.since(state.round_begun) > if self.paced.is_some() { rtt } else { rtt / 2 };
        }
        if state.samples < HYSTART_SAMPLES {
            state.samples += 1;
            state.least = Some(state.least.map_or(sample, |least| least.min(sample)));
        } else if let Some(least) = state.least {
            is_found |= least >= rtt + (rtt / 8).clamp(HYSTART_DELAY.0, HYSTART_DELAY.1);
        }
        if is_found {
            (self.ssthresh_packets, self.has_filled) = (self.cwnd_packets, true);
        }
    }
}

impl Cubic {
    /// After a window of so many packets was cut.
    pub(crate) fn cut(before_packets: u32) -> Cubic {
        Cubic { before_cut: before_packets.into(), ..Cubic::default() }
    }

    /// Acknowledged packets for a window larger by one.
    pub(crate) fn packets_per_step(&mut self, now: Instant, cwnd_packets: u32, rtt: Duration) -> u32 {
        let cwnd = f64::from(cwnd_packets);
        let epoch = *self.epoch.get_or_insert(now);
        if epoch == now {
            self.origin = self.before_cut.max(cwnd);
            self.k_s = ((self.origin - cwnd) / 0.4).cbrt();
        }
        let t = (now.since(epoch) + rtt).as_secs_f64() - self.k_s;
        let target = self.origin + 0.4 * t.powi(3);
        let steps = if target > cwnd { cwnd / (target - cwnd) } else { 100.0 * cwnd };
        let most = if self.before_cut == 0.0 { 20.0 } else { f64::INFINITY };
        // What Reno would have is the least: an added 0.53 a round trip.
        steps.min(most).min(cwnd / 0.53).max(2.0) as u32
    }
}
