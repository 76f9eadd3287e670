//! How much to write and to read at once, and whether to send without a copy: found by short trials, not by rules, since
//! it depends on caches, on the kernel and on the device. Two candidates are compared in turns (one, other, other, one),
//! so that a machine that becomes slower meanwhile hurts both.
//!
//! Where the network is the limit all candidates are as fast; then the one that costs less CPU time is better, and of
//! those that cost the same the smaller one.

use std::net::SocketAddr;
use std::time::Duration;

use event::Bytes;
use initiator::Options;
use serde::Serialize;

use super::near;
use super::outlet::ZeroCopy;
use super::search::Search;
use super::{BLOCK_MAX_BYTES, BLOCK_MIN_BYTES, Calls, Order, Progress};

/// What is no more than this beyond another figure may be chance.
const MARGIN: f64 = 1.03;
/// A trial lasts for so many round trips, within these bounds. The first third of it is not counted.
const TRIAL_RTTS: u32 = 20;
const TRIAL_MIN: Duration = Duration::from_millis(300);
const TRIAL_MAX: Duration = Duration::from_secs(3);

/// What was found, and why.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Tuning {
    write_bytes: u32,
    read_bytes: u32,
    zero_copy: bool,
    /// What is to say about sending without a copy.
    zero_copy_why: &'static str,
    trials: Vec<Trial>,
}

/// One trial.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(crate) struct Trial {
    write_bytes: u32,
    read_bytes: u32,
    zero_copy: ZeroCopy,
    bits_per_s: f64,
    sender_cpu_ns_per_byte: f64,
    receiver_cpu_ns_per_byte: f64,
}

/// Finds the best calls for `order`, and says each trial as it ends.
pub(crate) fn tune(
    address: SocketAddr,
    order: &Order<'_>,
    options: &Options,
    said: &dyn Fn(&Trial),
) -> anyhow::Result<Tuning> {
    let options = &Options { trace: None, notice: |_| {}, ..options.clone() };
    let order = Order { time: TRIAL_MIN, warmup: TRIAL_MIN / 3, calls: Calls::default(), ..*order };
    let mut tuner = Tuner { address, order, options, said, trials: Vec::new() };
    // The first one tells the round trip, and wakes up whatever sleeps.
    let rtt = near::run(address, &tuner.order, options, &silent)?.min_rtt();
    let time = (rtt * TRIAL_RTTS).clamp(TRIAL_MIN, TRIAL_MAX);
    tuner.order = Order { time, warmup: time / 3, ..order };

    let mut calls = Calls::default();
    let longest_write = order.source_bytes().clamp(BLOCK_MIN_BYTES, BLOCK_MAX_BYTES);
    calls.write_bytes = tuner.search(longest_write, |write_bytes| Calls { write_bytes, ..calls })?;
    calls.read_bytes = tuner.search(BLOCK_MAX_BYTES, |read_bytes| Calls { read_bytes, ..calls })?;
    let zero_copy_why = tuner.try_zero_copy(&mut calls)?;
    let Calls { write_bytes, read_bytes, zero_copy } = calls;
    Ok(Tuning { write_bytes, read_bytes, zero_copy, zero_copy_why, trials: tuner.trials })
}

struct Tuner<'a> {
    address: SocketAddr,
    order: Order<'a>,
    options: &'a Options,
    said: &'a dyn Fn(&Trial),
    trials: Vec<Trial>,
}

impl Tuner<'_> {
    /// The best power of two up to `most`.
    fn search(&mut self, most: u32, calls: impl Fn(u32) -> Calls) -> anyhow::Result<u32> {
        let mut search = Search::new(BLOCK_MIN_BYTES.ilog2(), most.ilog2());
        while let Some((lower, higher)) = search.pair() {
            search = search.answer(self.is_second_better(calls(1 << lower), calls(1 << higher))?);
        }
        Ok(1 << search.found())
    }

    /// Sends without a copy from now on, if that gains anything; what is to say about it.
    fn try_zero_copy(&mut self, calls: &mut Calls) -> anyhow::Result<&'static str> {
        let without = Calls { zero_copy: true, ..*calls };
        Ok(match self.trial(without)?.zero_copy {
            ZeroCopy::Copied => {
                "the kernel copied what was to be sent without a copy, as it does on loopback, veth and TUN devices"
            }
            ZeroCopy::NoRoom => {
                "the kernel may not remember as much as is on its way: net.core.optmem_max and the limit of locked \
                 memory (ulimit -l) are too small"
            }
            ZeroCopy::Off | ZeroCopy::Unsupported => "this kernel cannot send without a copy",
            ZeroCopy::On if self.is_second_better(*calls, without)? => {
                calls.zero_copy = true;
                "it gained something"
            }
            ZeroCopy::On => "it worked and gained nothing",
        })
    }

    fn is_second_better(&mut self, first: Calls, second: Calls) -> anyhow::Result<bool> {
        let firsts = self.trial(first)?;
        let seconds = [self.trial(second)?, self.trial(second)?];
        Ok(is_better(&seconds, &[firsts, self.trial(first)?]))
    }

    fn trial(&mut self, calls: Calls) -> anyhow::Result<Trial> {
        let order = Order { calls, ..self.order };
        let report = near::run(self.address, &order, self.options, &silent)?;
        let (sender, receiver) = report.cpu_ns_per_byte();
        let trial = Trial {
            write_bytes: calls.write_bytes,
            read_bytes: calls.read_bytes,
            zero_copy: report.zero_copy(),
            bits_per_s: report.load.bytes_per_s * 8.0,
            sender_cpu_ns_per_byte: sender,
            receiver_cpu_ns_per_byte: receiver,
        };
        (self.said)(&trial);
        self.trials.push(trial);
        Ok(trial)
    }
}

impl Tuning {
    /// What was found.
    pub(crate) fn calls(&self) -> Calls {
        Calls { write_bytes: self.write_bytes, read_bytes: self.read_bytes, zero_copy: self.zero_copy }
    }

    /// The same in a sentence.
    pub(crate) fn sentence(&self) -> String {
        let (write, read) = (Bytes(self.write_bytes.into()), Bytes(self.read_bytes.into()));
        let copy = if self.zero_copy { "without" } else { "with" };
        format!("write {write} and read {read} at once, send {copy} a copy ({})", self.zero_copy_why)
    }
}

impl Trial {
    /// The trial as a line.
    pub(crate) fn sentence(&self) -> String {
        let without = match self.zero_copy {
            ZeroCopy::Off => "",
            ZeroCopy::On => ", without a copy",
            _ => ", asked for no copy",
        };
        format!(
            "write {} read {}{without}: {:.1} Mbit/s, CPU {:.3} + {:.3} ns per byte",
            Bytes(self.write_bytes.into()),
            Bytes(self.read_bytes.into()),
            self.bits_per_s / 1e6,
            self.sender_cpu_ns_per_byte,
            self.receiver_cpu_ns_per_byte
        )
    }
}

/// Whether these trials are faster than those, or as fast for less CPU time.
fn is_better(these: &[Trial; 2], those: &[Trial; 2]) -> bool {
    let rate = |trials: &[Trial; 2]| trials[0].bits_per_s + trials[1].bits_per_s;
    let cost = |trials: &[Trial; 2]| {
        trials.iter().map(|t| t.sender_cpu_ns_per_byte + t.receiver_cpu_ns_per_byte).sum::<f64>()
    };
    if rate(these) > rate(those) * MARGIN {
        return true;
    }
    rate(these) * MARGIN >= rate(those) && cost(these) * MARGIN < cost(those)
}

fn silent(_: Progress) {}

#[cfg(test)]
mod tests {
    use super::*;

    fn trials(bits_per_s: [f64; 2], cost: f64) -> [Trial; 2] {
        bits_per_s.map(|bits_per_s| Trial {
            write_bytes: 1 << 16,
            read_bytes: 1 << 20,
            zero_copy: ZeroCopy::Off,
            bits_per_s,
            sender_cpu_ns_per_byte: cost / 2.0,
            receiver_cpu_ns_per_byte: cost / 2.0,
        })
    }

    #[test]
    fn speed_first_then_cost_and_never_chance() {
        let base = trials([100.0, 110.0], 1.0);
        for (bits_per_s, cost, expected) in [
            ([120.0, 120.0], 9.0, true),
            ([90.0, 90.0], 0.1, false),
            // As fast.
            ([106.0, 106.0], 1.0, false),
            ([103.0, 104.0], 0.9, true),
            ([106.0, 106.0], 1.2, false),
            ([106.0, 106.0], 0.99, false),
        ] {
            assert_eq!(is_better(&trials(bits_per_s, cost), &base), expected, "{bits_per_s:?} {cost}");
        }
    }

    #[test]
    fn trials_are_lines() {
        assert_eq!(
            trials([2e9, 0.0], 0.5)[0].sentence(),
            "write 64KiB read 1MiB: 2000.0 Mbit/s, CPU 0.250 + 0.250 ns per byte"
        );
    }
}
