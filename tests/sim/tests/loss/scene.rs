//! Lines and the connections on them.

use core::time::Duration;

use event::{BitRate, Instant};
use link::{Contract, Faults, Line, Shape};
use sim::tcp::network::{Flow, Load, Network};
use sim::tcp::sender::Info;
use sim::tcp::{Kind, MSS_BYTES};

/// Rate of every line.
pub(crate) const RATE: BitRate = BitRate(100_000_000);
/// Bytes of a packet on the wire.
const WIRE_BYTES: u64 = 1538;
/// A queue holds so many packets at least.
const QUEUE_LEAST: u64 = 12;

/// A line, the same in both directions.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) rate: BitRate,
    /// Delay one way.
    pub(crate) delay: Duration,
    /// Queue, in bandwidth-delay products.
    pub(crate) products: f64,
    pub(crate) faults: Faults,
    /// The device of the senders holds so many bytes.
    pub(crate) ring_bytes: Option<u64>,
    pub(crate) load: Load,
}

impl Scene {
    /// A line with a queue of one product and bulk on it.
    pub(crate) fn new(delay_ms: u64) -> Scene {
        Scene {
            rate: RATE,
            delay: Duration::from_millis(delay_ms),
            products: 1.0,
            faults: Faults::default(),
            ring_bytes: None,
            load: Load::Bulk,
        }
    }

    /// The same with a fault, named as `farlun wan` names it.
    pub(crate) fn with(mut self, flag: &str, value: &str) -> Scene {
        self.faults.set(flag, value).expect(value);
        self
    }

    pub(crate) fn queue(self, products: f64) -> Scene {
        Scene { products, ..self }
    }

    /// The same at another rate.
    pub(crate) fn rate(self, rate: BitRate) -> Scene {
        Scene { rate, ..self }
    }

    /// The same with a policer.
    pub(crate) fn policed(mut self, rate: BitRate, burst_bytes: u64) -> Scene {
        self.faults.police.near = Some(Contract { rate, burst_bytes });
        self
    }

    /// An empty network of this kind.
    pub(crate) fn network(&self, seed: u64) -> Network {
        let product = self.rate.bytes_in(2 * self.delay);
        let queue_bytes = ((product as f64 * self.products) as u64).max(QUEUE_LEAST * WIRE_BYTES);
        let plain = Line::plain(Shape { delay: self.delay, rate: self.rate, queue_bytes });
        let [there, back] = [true, false].map(|near| self.faults.on(near, &plain));
        let network = Network::new(&there, &back, seed);
        match self.ring_bytes {
            Some(bytes) => network.with_ring(bytes),
            None => network,
        }
    }

    /// One connection, steered by our policy or raw.
    pub(crate) fn alone(&self, kind: Kind, is_ours: bool, seed: u64) -> Network {
        let mut network = self.network(seed);
        let flow = Flow::new(kind, self.load, Instant::ZERO, seed);
        network.add(if is_ours { flow.steered(kind) } else { flow });
        network
    }
}

/// Goodput of a whole line, in packets per second.
pub(crate) fn line(rate: BitRate) -> f64 {
    rate.0 as f64 / 8.0 / WIRE_BYTES as f64
}

/// Share of the usual line's goodput that each connection has from `from_s` to `to_s`, and the share of its packets that it
/// retransmitted.
pub(crate) fn shares(network: &mut Network, from_s: u64, to_s: u64) -> Vec<(f64, f64)> {
    shares_of(RATE, network, from_s, to_s)
}

/// The same of a line of that rate.
pub(crate) fn shares_of(rate: BitRate, network: &mut Network, from_s: u64, to_s: u64) -> Vec<(f64, f64)> {
    network.run_until(at(from_s));
    let before = read(network);
    network.run_until(at(to_s));
    let share = |(from, to): (&(u64, Info), &(u64, Info))| {
        let packets = (to.0 - from.0) as f64 / f64::from(MSS_BYTES);
        let resent = f64::from(to.1.counts.resent - from.1.counts.resent);
        let delivered = (to.1.delivered - from.1.delivered).max(1) as f64;
        (packets / (to_s - from_s) as f64 / line(rate), resent / delivered)
    };
    before.iter().zip(&read(network)).map(share).collect()
}

fn read(network: &Network) -> Vec<(u64, Info)> {
    network.flows().iter().map(|flow| (flow.arrived_bytes(), flow.sender.info())).collect()
}

pub(crate) fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

/// Seeds of a scene: a few, or 50 if `FARLUN_LONG` is set.
pub(crate) fn seeds(few: u64) -> impl Iterator<Item = u64> {
    let is_long = std::env::var_os("FARLUN_LONG").is_some_and(|value| value == "1");
    1..=if is_long { 50 } else { few }
}
