//! A connection in virtual time, with causes put in.

use std::time::Duration;

use analysis::gaps::{Cause, Drawing, Gaps, Passage};
use event::{BitRate, Instant};
use link::{Coalesce, Dice, Handle, Merge, Packet, Path, Shape, Stage, Tick};

const DATA_BYTES: u32 = 1500;
const ACK_BYTES: u32 = 52;
/// One packet of data on the slow line.
const SLOW: BitRate = BitRate(1_000_000_000);
/// A line on which packets take a tenth of a microsecond.
const FAST: BitRate = BitRate(100_000_000_000);
/// One way; of a window that comes round, half of its period.
const DELAY: Duration = Duration::from_millis(7);
const WINDOW_DELAY: Duration = Duration::from_millis(2);
const LENGTH_NS: f64 = 1.2e9;

/// Pattern of the sender without an injected cause.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Sending {
    /// Gaps as chance makes them.
    Exponential,
    /// Gaps that vary by half of their mean or more.
    Uneven,
    /// Bursts of any length at any time.
    Bursts,
    /// Gaps of one length: pacing.
    Paced,
    /// A burst whenever the window comes round, in four milliseconds.
    Window,
}

/// Injected causes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Injected {
    name: &'static str,
    sending: Sending,
    line: bool,
    tick: bool,
    coalescing: Option<End>,
    merging: bool,
}

/// Network card with interrupt coalescing.
#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    Receiver,
    Sender,
}

pub(crate) struct Scene {
    injected: Injected,
    dice: Dice,
}

const NOTHING: Injected = Injected {
    name: "",
    sending: Sending::Exponential,
    line: false,
    tick: false,
    coalescing: None,
    merging: false,
};

impl Injected {
    pub(crate) const ROWS: [Injected; 21] = [
        Injected { name: "clean-exponential", ..NOTHING },
        Injected { name: "clean-uneven", sending: Sending::Uneven, ..NOTHING },
        Injected { name: "clean-bursts", sending: Sending::Bursts, ..NOTHING },
        Injected { name: "clean-paced", sending: Sending::Paced, ..NOTHING },
        Injected { name: "clean-window", sending: Sending::Window, ..NOTHING },
        Injected { name: "line", line: true, sending: Sending::Bursts, ..NOTHING },
        Injected { name: "tick", tick: true, ..NOTHING },
        Injected { name: "tick-uneven", tick: true, sending: Sending::Uneven, ..NOTHING },
        Injected { name: "coalescing", coalescing: Some(End::Receiver), ..NOTHING },
        Injected {
            name: "coalescing-uneven",
            coalescing: Some(End::Receiver),
            sending: Sending::Uneven,
            ..NOTHING
        },
        Injected {
            name: "coalescing-paced",
            coalescing: Some(End::Receiver),
            sending: Sending::Paced,
            ..NOTHING
        },
        Injected { name: "coalescing-acks", coalescing: Some(End::Sender), ..NOTHING },
        Injected { name: "merging", merging: true, ..NOTHING },
        Injected { name: "merging-paced", merging: true, sending: Sending::Paced, ..NOTHING },
        Injected { name: "line+tick", line: true, tick: true, ..NOTHING },
        Injected {
            name: "line+coalescing",
            line: true,
            coalescing: Some(End::Sender),
            sending: Sending::Bursts,
            ..NOTHING
        },
        Injected { name: "line+merging", line: true, merging: true, sending: Sending::Bursts, ..NOTHING },
        Injected { name: "tick+coalescing", tick: true, coalescing: Some(End::Receiver), ..NOTHING },
        Injected { name: "tick+merging", tick: true, merging: true, ..NOTHING },
        Injected { name: "coalescing+merging", coalescing: Some(End::Receiver), merging: true, ..NOTHING },
        Injected {
            name: "coalescing+merging-paced",
            coalescing: Some(End::Receiver),
            merging: true,
            sending: Sending::Paced,
            ..NOTHING
        },
    ];

    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) const fn is_clean(&self) -> bool {
        !self.line && !self.tick && self.coalescing.is_none() && !self.merging
    }
}

impl Scene {
    pub(crate) fn new(injected: Injected, seed: u64) -> Scene {
        let row =
            injected.name.bytes().fold(7_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        Scene { injected, dice: Dice::new(seed, row) }
    }

    /// Causes to be found.
    pub(crate) fn truth(&self) -> Vec<Cause> {
        let Injected { line, tick, coalescing, merging, .. } = self.injected;
        [
            line.then_some(Cause::Serialisation),
            tick.then_some(Cause::TimerTick),
            coalescing.map(|_| Cause::Coalescing),
            merging.then_some(Cause::AckMerging),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The period that was put in.
    pub(crate) fn period_s(&self, cause: Cause) -> Option<f64> {
        match cause {
            Cause::Serialisation => self.injected.line.then(|| SLOW.time_for(1_538).as_secs_f64()),
            Cause::TimerTick => self.injected.tick.then(|| self.tick().as_secs_f64()),
            Cause::Coalescing => self.injected.coalescing.map(|_| self.hold().as_secs_f64()),
            Cause::AckMerging => self.injected.merging.then(|| self.frame().as_secs_f64()),
            Cause::Emulator => None,
        }
    }

    /// Causes that the analysis finds.
    pub(crate) fn found(&self) -> Vec<(Cause, f64)> {
        let (data, acks) = self.play();
        Gaps::of(&data, &acks, Drawing::default()).expect("packets enough").causes()
    }

    fn play(&self) -> (Vec<Passage>, Vec<Passage>) {
        let Injected { tick, coalescing, merging, .. } = self.injected;
        let mut sent: Vec<Instant> = self.written();
        if tick {
            sent = through(&mut Tick::new(self.tick()), &sent, DATA_BYTES);
        }
        let delay = if self.injected.sending == Sending::Window { WINDOW_DELAY } else { DELAY };
        let shape = |rate| Shape { delay, rate, queue_bytes: 1 << 30 };
        let mut came = through(&mut Path::new(&shape(self.rate())), &sent, DATA_BYTES);
        if coalescing == Some(End::Receiver) {
            came = through(&mut Coalesce::new(self.hold()), &came, DATA_BYTES);
        }
        let acks_sent = self.acknowledged(&came);
        let mut acks_came = through(&mut Path::new(&shape(FAST)), &acks_sent, ACK_BYTES);
        if merging {
            acks_came = through(&mut Merge::new(self.frame()), &acks_came, ACK_BYTES);
        }
        if coalescing == Some(End::Sender) {
            acks_came = through(&mut Coalesce::new(self.hold()), &acks_came, ACK_BYTES);
        }
        (
            passages(&sent, &came, DATA_BYTES + 38),
            passages(&acks_sent, &acks_came, 2 * (DATA_BYTES - ACK_BYTES)),
        )
    }

    /// When the sender's application writes.
    fn written(&self) -> Vec<Instant> {
        let mean_ns = match (self.injected.line, self.hidden_line()) {
            // More than four fifths of the slow line.
            (true, _) if self.injected.sending == Sending::Bursts => 12_304.0 / self.between(1, 0.8, 0.97),
            // Half of it, so that the packets of a tick pass well before the next one.
            (true, _) | (_, true) => 12_304.0 / self.between(1, 0.35, 0.6),
            _ => self.between(1, 15_000.0, 35_000.0),
        };
        let uneven = self.between(2, 0.5, 0.95);
        let (mut at, mut times, mut n) = (1e6 * self.chance(3), Vec::new(), 0_u64);
        while at < LENGTH_NS {
            n += 1;
            let chance = self.dice.another(100).fraction(n);
            let exponential = -(1.0 - chance).ln();
            let (burst, gap_ns) = match self.injected.sending {
                Sending::Exponential => (1, mean_ns * exponential),
                Sending::Uneven => (1, mean_ns * (1.0 + uneven * (2.0 * chance - 1.0))),
                Sending::Paced => (1, mean_ns),
                Sending::Bursts => {
                    let burst = 1 + self.dice.another(101).roll(n) % 60;
                    (burst, mean_ns * 30.5 * exponential)
                }
                Sending::Window => (40, 4e6 * self.between(4, 1.0, 1.001) + 2_000.0 * exponential),
            };
            let packet = |k: u64| Instant::from_nanos((at + k as f64 * 150.0) as u64);
            times.extend((0..burst).map(packet));
            at += gap_ns.max(150.0 * burst as f64);
        }
        times
    }

    /// The receiver takes its time for each packet, and acknowledges every second one.
    fn acknowledged(&self, came: &[Instant]) -> Vec<Instant> {
        // A slow receiver spreads the packets that a tick sent at once.
        let slow = self.injected.tick && self.injected.merging;
        let mean_ns = if slow { 11_000.0 } else { 1_200.0 };
        let mut free_ns = 0.0_f64;
        let mut done = Vec::new();
        for (n, t) in came.iter().enumerate() {
            let takes = -mean_ns * (1.0 - self.dice.another(102).fraction(n as u64)).ln();
            free_ns = free_ns.max(t.as_nanos() as f64) + takes;
            if n % 2 == 1 {
                done.push(Instant::from_nanos(free_ns as u64));
            }
        }
        done
    }

    fn rate(&self) -> BitRate {
        if self.injected.line || self.hidden_line() || self.injected.sending == Sending::Paced {
            SLOW
        } else {
            FAST
        }
    }

    /// True if the packets of a tick need time on the line; otherwise a card has nothing to coalesce.
    fn hidden_line(&self) -> bool {
        self.injected.tick && self.injected.coalescing.is_some()
    }

    fn tick(&self) -> Duration {
        Duration::from_micros([1_000, 4_000, 1_000, 4_000, 10_000][self.pick(5, 5)])
    }

    fn hold(&self) -> Duration {
        Duration::from_micros([100, 80, 150, 200][self.pick(6, 4)])
    }

    fn frame(&self) -> Duration {
        Duration::from_nanos([125_000, 125_000, 250_000, 91_300][self.pick(7, 4)])
    }

    fn pick(&self, question: u64, among: u64) -> usize {
        (self.dice.another(question).roll(0) % among) as usize
    }

    fn chance(&self, question: u64) -> f64 {
        self.dice.another(question).fraction(0)
    }

    fn between(&self, question: u64, least: f64, most: f64) -> f64 {
        least + self.chance(question) * (most - least)
    }
}

/// When packets that come at these times leave a stage that drops none.
fn through(stage: &mut impl Stage, times: &[Instant], ip_bytes: u32) -> Vec<Instant> {
    let mut left = Vec::with_capacity(times.len());
    for (n, now) in times.iter().enumerate() {
        left.extend(std::iter::from_fn(|| stage.pop(*now)).map(|(t, _)| t));
        let packet = Packet::new(Handle(n as u64), *now, ip_bytes, ip_bytes + 38, 1);
        stage.push(*now, packet).expect("the queue has room");
    }
    left.extend(std::iter::from_fn(|| stage.pop(Instant::FAR_FUTURE)).map(|(t, _)| t));
    left
}

fn passages(sent: &[Instant], came: &[Instant], bytes: u32) -> Vec<Passage> {
    let one = |(sent, came): (&Instant, &Instant)| {
        let came_ns = came.as_nanos();
        let arrived_ns = Some((came_ns, came_ns));
        Passage { sent_ns: sent.as_nanos(), arrived_ns, bytes, segments: 1, unseen_ns: 0 }
    };
    sent.iter().zip(came).map(one).collect()
}
