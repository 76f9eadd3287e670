//! Synthetic load on a LUN and its results: the workload behind `farlun bench`.

use std::sync::Arc;
use std::time::Duration;

use block::{Buffer, Buffers};
use event::{Instant, Op};
use hdrhistogram::Histogram;

use crate::disk::Geometry;
use crate::error::Error;
use crate::request::{Body, Completed, Request, Workload};
use crate::workloads::early_end::{Cut, Early, Patience};

/// Parameters of a load.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Read or write.
    pub op: Op,
    /// Length of each request; a multiple of the block length. The policy may change the length of sequential requests.
    pub block_bytes: u32,
    /// Queue depth; `None` follows the path.
    pub depth: Option<usize>,
    /// Random instead of sequential offsets.
    pub is_random: bool,
    /// Bytes of the LUN that are used, from its start; at least one request.
    pub span_bytes: u64,
    /// Duration of the load.
    pub time: Duration,
    /// Initial part of the duration that is excluded from the results.
    pub warmup: Duration,
    /// Seed of random offsets.
    pub seed: u64,
    /// First offset of sequential requests.
    pub start_bytes: u64,
    /// Maximum mean latency: the load ends early when it is exceeded, or when the target refuses a command.
    pub patience: Option<Duration>,
}

/// A running load.
pub struct Load<'a> {
    shape: Shape,
    geometry: Geometry,
    buffers: Buffers,
    /// Data of all writes, shared by the requests.
    pattern: Arc<Buffer>,
    started: Option<Instant>,
    random: u64,
    /// Offset of the next sequential request.
    next_bytes: u64,
    outstanding: usize,
    outcome: Outcome,
    progress: &'a mut dyn FnMut(Progress),
    next_progress: Instant,
    patience: Option<Patience>,
    /// Totals since the end of the first requests; results of a load that is cut are measured from there.
    early: Option<Early>,
}

/// Progress of a running load.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Time since its start.
    pub elapsed: Duration,
    /// Bytes moved so far.
    pub bytes: u64,
    /// Requests completed so far.
    pub ios: u64,
}

/// Results of a load. Requests are counted that completed after the warm-up and before the end.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Time of the first request.
    pub started: Instant,
    /// End of the measured time.
    pub ended: Instant,
    /// Bytes transferred.
    pub bytes: u64,
    /// Requests completed.
    pub ios: u64,
    /// Requests completed, including those that are not counted.
    pub all_ios: u64,
    /// Bytes transferred, including those that are not counted.
    pub all_bytes: u64,
    /// Latency of each counted request, in nanoseconds.
    pub latency_ns: Histogram<u64>,
    /// Time at which counting began: the end of the warm-up, or earlier if the load was cut.
    pub counted: Instant,
    /// Reason of an early end.
    pub cut: Option<Cut>,
    /// Maximum number of outstanding requests.
    pub most_outstanding: usize,
}

impl Outcome {
    /// Adds the results of a concurrent load.
    pub fn add(&mut self, other: &Outcome) {
        self.started = self.started.min(other.started);
        self.ended = self.ended.max(other.ended);
        self.bytes += other.bytes;
        self.ios += other.ios;
        self.all_ios += other.all_ios;
        self.all_bytes += other.all_bytes;
        self.counted = self.counted.min(other.counted);
        self.cut = self.cut.or(other.cut);
        self.most_outstanding += other.most_outstanding;
        self.latency_ns.add(&other.latency_ns).expect("all histograms have the same bounds");
    }
}

/// Interval between reports of progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

impl<'a> Load<'a> {
    /// Creates a load on a LUN.
    pub fn new(
        shape: Shape,
        geometry: Geometry,
        buffers: &Buffers,
        progress: &'a mut dyn FnMut(Progress),
    ) -> Load<'a> {
        let mut random = shape.seed | 1;
        let pattern = pattern(buffers, shape.block_bytes, &mut random);
        Load {
            shape,
            geometry,
            buffers: buffers.clone(),
            pattern: Arc::new(pattern),
            started: None,
            random,
            next_bytes: shape.start_bytes / u64::from(shape.block_bytes) * u64::from(shape.block_bytes),
            outstanding: 0,
            outcome: Outcome {
                started: Instant::ZERO,
                ended: Instant::ZERO,
                bytes: 0,
                ios: 0,
                all_ios: 0,
                all_bytes: 0,
                latency_ns: new_histogram(),
                counted: Instant::ZERO,
                cut: None,
                most_outstanding: 0,
            },
            progress,
            next_progress: Instant::ZERO,
            patience: shape.patience.map(|most| Patience::new(most, shape.depth.unwrap_or(1))),
            early: None,
        }
    }

    /// Results of the load.
    pub fn outcome(self) -> Outcome {
        self.outcome
    }

    /// Ends the load early: no further requests are issued, and the measurements so far count.
    fn cut(&mut self, cut: Cut, now: Instant) {
        if self.outcome.cut.is_some() {
            return;
        }
        self.outcome.cut = Some(cut);
        self.outcome.ended = now;
        if let Some(Early { since, bytes, ios }) = self.early.filter(|early| early.since < now) {
            (self.outcome.counted, self.outcome.bytes, self.outcome.ios) = (since, bytes, ios);
        }
    }

    /// Updates the mean latency with a completed request, if the load may be cut.
    fn bear(&mut self, completed: Instant, issued: Instant, len_bytes: u64) {
        let Some(patience) = &mut self.patience else { return };
        let is_first = self.outcome.all_ios <= self.shape.depth.unwrap_or(1) as u64;
        let early = self.early.get_or_insert(Early { since: completed, bytes: 0, ios: 0 });
        match is_first {
            true => early.since = completed,
            false if self.outcome.cut.is_none() => {
                early.bytes += len_bytes;
                early.ios += 1;
            }
            false => {}
        }
        if patience.is_over(completed.since(issued)) {
            self.cut(Cut::Slow, completed);
        }
    }

    /// Returns true if no further request is issued.
    fn is_ended(&self, now: Instant) -> bool {
        self.outcome.cut.is_some() || self.started.is_some_and(|started| now >= started + self.shape.time)
    }
}

impl Workload for Load<'_> {
    type Error = Error;

    fn depth(&self) -> Option<usize> {
        self.shape.depth
    }

    fn lone_bytes(&self) -> Option<u64> {
        self.shape.is_random.then_some(self.shape.block_bytes.into())
    }

    fn next(&mut self, now: Instant) -> Option<Request> {
        self.started.get_or_insert_with(|| {
            (self.outcome.started, self.outcome.ended) = (now, now + self.shape.time);
            self.outcome.counted = now + self.shape.warmup;
            now
        });
        if self.is_ended(now) {
            return None;
        }
        let block_bytes = self.shape.block_bytes;
        let block = u64::from(block_bytes);
        let offset = match self.shape.is_random {
            true => next_random(&mut self.random) % (self.shape.span_bytes / block).max(1) * block,
            false if self.next_bytes + block > self.shape.span_bytes => 0,
            false => self.next_bytes,
        };
        self.next_bytes = offset + block;
        self.outstanding += 1;
        self.outcome.most_outstanding = self.outcome.most_outstanding.max(self.outstanding);
        Some(match self.shape.op {
            Op::Read => self.geometry.read(offset, self.buffers.take(block_bytes as usize)),
            Op::Write => self.geometry.write(offset, Arc::clone(&self.pattern)),
        })
    }

    fn set_block(&mut self, bytes: u64) {
        let block_bytes = self.geometry.whole_blocks(bytes.min(self.shape.span_bytes));
        if self.shape.is_random || block_bytes == self.shape.block_bytes {
            return;
        }
        self.shape.block_bytes = block_bytes;
        if self.shape.op == Op::Write {
            self.pattern = Arc::new(pattern(&self.buffers, block_bytes, &mut self.random));
        }
    }

    fn done(&mut self, completed: Completed) -> Result<(), Error> {
        self.outstanding -= 1;
        let Completed { request, issued, completed, result, .. } = completed;
        let command = request.name();
        result.map_err(|failure| Error::Command { command, failure })?;
        debug_assert!(!matches!(request.body, Body::None));
        let outcome = &mut self.outcome;
        outcome.all_ios += 1;
        outcome.all_bytes += request.len_bytes();
        if completed >= outcome.counted && completed <= outcome.ended && outcome.cut.is_none() {
            outcome.ios += 1;
            outcome.bytes += request.len_bytes();
            let latency_ns = completed.since(issued).as_nanos() as u64;
            outcome.latency_ns.saturating_record(latency_ns);
        }
        self.bear(completed, issued, request.len_bytes());
        if completed >= self.next_progress {
            self.next_progress = completed + PROGRESS_EVERY;
            (self.progress)(Progress {
                elapsed: completed.since(self.outcome.started),
                bytes: self.outcome.all_bytes,
                ios: self.outcome.all_ios,
            });
        }
        Ok(())
    }

    fn refused(&mut self, now: Instant) {
        if self.patience.is_some() {
            self.cut(Cut::Refused, now);
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        self.is_ended(now) && self.outstanding == 0
    }
}

/// Pseudo-random data of a write.
fn pattern(buffers: &Buffers, len_bytes: u32, random: &mut u64) -> Buffer {
    let mut pattern = buffers.take(len_bytes as usize);
    for word in pattern.chunks_mut(8) {
        let bytes = next_random(random).to_ne_bytes();
        word.copy_from_slice(&bytes[..word.len()]);
    }
    pattern
}

/// Bounds of 1 µs and 10 minutes, three significant digits.
fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1_000, 600_000_000_000, 3).expect("the bounds are in order")
}

/// xorshift64*: offsets need uniform distribution, not secrecy.
fn next_random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

#[cfg(test)]
mod tests {
    use wire::scsi::BlockForm;

    use super::*;

    const BLOCK: u64 = 4096;
    const BEGUN: Instant = Instant::from_nanos(7_000_000_000);

    /// A sequential load of one second over eight blocks that counts after 200 ms.
    fn shape(op: Op) -> Shape {
        Shape {
            op,
            block_bytes: BLOCK as u32,
            depth: Some(4),
            is_random: false,
            span_bytes: 8 * BLOCK,
            time: Duration::from_secs(1),
            warmup: Duration::from_millis(200),
            seed: 1,
            start_bytes: 6 * BLOCK + 512,
            patience: None,
        }
    }

    fn load<'a>(shape: Shape, progress: &'a mut dyn FnMut(Progress)) -> Load<'a> {
        Load::new(shape, Geometry::of(512, BlockForm::Sixteen), &Buffers::new(1 << 20), progress)
    }

    fn end(load: &mut Load<'_>, request: Request, after_ms: u64) {
        let completed = BEGUN + Duration::from_millis(after_ms);
        let transferred_bytes = request.len_bytes() as u32;
        let completed = Completed { request, issued: BEGUN, completed, transferred_bytes, result: Ok(()) };
        load.done(completed).expect("it is good");
    }

    #[test]
    fn a_load_is_over_when_its_time_is_and_its_last_request_has_ended() {
        for op in [Op::Read, Op::Write] {
            let mut ignored = |_| {};
            let mut load = load(shape(op), &mut ignored);
            let issue = |load: &mut Load<'_>| load.next(BEGUN).expect("its time is not over");
            let requests: Vec<_> = (0..4).map(|_| issue(&mut load)).collect();
            let offsets: Vec<_> = requests.iter().map(|request| request.offset_bytes / BLOCK).collect();
            assert_eq!(offsets, [6, 7, 0, 1], "from the start that was asked for, round and round");
            assert!(requests.iter().all(|request| request.op() == Some(op) && request.len_bytes() == BLOCK));
            let ended = BEGUN + Duration::from_secs(1);
            assert!(!load.is_over(BEGUN) && load.next(ended).is_none());
            for request in requests {
                assert!(!load.is_over(ended));
                end(&mut load, request, 900);
            }
            assert!(load.is_over(ended) && !load.is_over(BEGUN));
            assert_eq!(load.outcome().most_outstanding, 4);
        }
    }

    #[test]
    fn requests_that_end_in_the_warm_up_or_late_are_not_counted() {
        let mut told = Vec::new();
        let mut progress = |progress: Progress| told.push((progress.elapsed.as_millis(), progress.ios));
        let mut load = load(shape(Op::Read), &mut progress);
        for after_ms in [199, 200, 650, 1000, 1001] {
            let request = load.next(BEGUN).expect("its time is not over");
            end(&mut load, request, after_ms);
        }
        let outcome = load.outcome();
        assert_eq!((outcome.ios, outcome.bytes), (3, 3 * BLOCK));
        assert_eq!((outcome.all_ios, outcome.all_bytes), (5, 5 * BLOCK));
        assert_eq!((outcome.latency_ns.len(), outcome.most_outstanding), (3, 1));
        assert_eq!((outcome.started, outcome.ended), (BEGUN, BEGUN + Duration::from_secs(1)));
        assert_eq!(told, [(199, 1), (650, 3), (1000, 4)], "every tenth of a second at most");
    }
}
