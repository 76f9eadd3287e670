//! A load: the same request again and again, one address after the other, and what came of it.

use std::sync::Arc;
use std::time::Duration;

use event::Instant;

use crate::{Done, Kind, Near, Order, content};

/// Seed of what the far end's memory holds, and of what writes bring.
const HELD: u64 = 1;
const BROUGHT: u64 = 2;
/// Part of the memory that a load goes through.
pub(crate) const SPAN_BYTES: u32 = 16 << 20;

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// [`Kind::Read`] or [`Kind::Write`].
    pub kind: Kind,
    /// Length of each request; a part of 16 MiB.
    pub block_bytes: u32,
    /// Requests outstanding; `None` follows the policy.
    pub depth: Option<usize>,
    /// Time that is not counted.
    pub warmup: Duration,
    /// Time that is.
    pub time: Duration,
}

/// What came of a load. Counted are requests that completed after the warm-up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// How long the very first request took.
    pub first: Duration,
    /// How long each took that was counted.
    pub latencies: Vec<Duration>,
    /// When each of those was back.
    completed: Vec<Instant>,
}

/// A load at work.
#[derive(Debug)]
pub(crate) struct Running {
    load: Load,
    blocks: Vec<Arc<Vec<u8>>>,
    held: Vec<u8>,
    next_block: usize,
    issued: Vec<Option<Instant>>,
    outstanding: usize,
    outcome: Outcome,
}

impl Outcome {
    /// Requests per second, over whole rounds of `depth` requests: what is asked for together comes back
    /// together, and a part of a round would count as too little or too much.
    ///
    /// # Panics
    /// If not even one round is complete.
    pub fn requests_per_s(&self, depth: usize) -> f64 {
        let count = (self.completed.len() - 1) / depth * depth;
        assert!(count > 0, "{} requests are no round of {depth}", self.completed.len());
        count as f64 / self.completed[count].since(self.completed[0]).as_secs_f64()
    }

    /// Mean latency.
    ///
    /// # Panics
    /// If nothing completed.
    pub fn mean(&self) -> Duration {
        self.latencies.iter().sum::<Duration>() / u32::try_from(self.latencies.len()).expect("not so many")
    }

    /// Median latency.
    ///
    /// # Panics
    /// If nothing completed.
    pub fn median(&self) -> Duration {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        sorted[sorted.len() / 2]
    }
}

impl Running {
    pub(crate) fn new(load: Load) -> Running {
        assert!(SPAN_BYTES.is_multiple_of(load.block_bytes), "blocks fill the span");
        let blocks = match load.kind {
            Kind::Write => content(SPAN_BYTES as usize, BROUGHT)
                .chunks(load.block_bytes as usize)
                .map(|block| Arc::new(block.to_vec()))
                .collect(),
            _ => Vec::new(),
        };
        Running {
            load,
            blocks,
            held: memory(),
            next_block: 0,
            issued: Vec::new(),
            outstanding: 0,
            outcome: Outcome::default(),
        }
    }

    pub(crate) fn end(&self) -> Instant {
        Instant::ZERO + self.load.warmup + self.load.time
    }

    pub(crate) fn request_bytes(&self) -> u64 {
        u64::from(self.load.block_bytes)
    }

    pub(crate) fn outcome(self) -> Outcome {
        self.outcome
    }

    /// Submits what depth or policy allow.
    pub(crate) fn issue(&mut self, now: Instant, near: &mut Near, outstanding_bytes: u64) {
        let block_bytes = self.load.block_bytes;
        loop {
            let has_room = match self.load.depth {
                Some(depth) => self.outstanding < depth,
                None => (self.outstanding as u64) * u64::from(block_bytes) < outstanding_bytes,
            };
            if !has_room {
                return;
            }
            let blocks = (SPAN_BYTES / block_bytes) as usize;
            let block = self.next_block % blocks;
            self.next_block += 1;
            let address = block as u32 * block_bytes;
            let order = Order { kind: self.load.kind, address, len_bytes: block_bytes };
            let token = match self.load.kind {
                Kind::Write => near.write(order, Arc::clone(&self.blocks[block])),
                _ => near.read(order, block_bytes),
            };
            let slot = token as usize;
            if self.issued.len() <= slot {
                self.issued.resize(slot + 1, None);
            }
            self.issued[slot] = Some(now);
            self.outstanding += 1;
        }
    }

    /// Takes a request that has come back, and checks its data.
    pub(crate) fn done(&mut self, now: Instant, done: &Done) {
        let block_bytes = self.load.block_bytes;
        assert_eq!((done.completion.status, done.completion.transferred_bytes), (0, block_bytes));
        if self.load.kind == Kind::Read {
            assert!(done.placed.is_exactly(block_bytes), "each byte once");
            let from = done.order.address as usize;
            assert!(
                done.buffer == self.held[from..][..block_bytes as usize],
                "the bytes that were asked for"
            );
        }
        let issued = self.issued[done.token as usize].take().expect("a request comes back once");
        let latency = now.since(issued);
        self.outstanding -= 1;
        if self.outcome.first.is_zero() {
            self.outcome.first = latency;
        }
        if now >= Instant::ZERO + self.load.warmup && now <= self.end() {
            self.outcome.latencies.push(latency);
            self.outcome.completed.push(now);
        }
    }

    /// What a write should have left in the memory, as far as the load came.
    pub(crate) fn check_memory(&self, memory: &[u8]) {
        let completed = self.next_block.saturating_sub(self.outstanding);
        for (block, written) in self.blocks.iter().enumerate().take(completed) {
            let from = block * self.load.block_bytes as usize;
            assert!(memory[from..][..written.len()] == ***written, "what was written is there");
        }
    }
}

/// What the far end's memory holds at first.
pub(crate) fn memory() -> Vec<u8> {
    content(SPAN_BYTES as usize, HELD)
}
