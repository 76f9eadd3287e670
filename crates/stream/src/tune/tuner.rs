//! Best sizes of reads and writes, and the choice of MSG_ZEROCOPY, by short trials: caches, kernel and device decide, so no
//! rule would do. Two candidates are compared in turns (one, other, other, one), so that a machine that slows down
//! meanwhile hurts both.
//!
//! Where the path is the limit all candidates are equally fast. Then less CPU time is better, and of equal cost the
//! smaller size.

use std::net::SocketAddr;
use std::time::Duration;

use super::search::Search;
use super::trial::{Trial, Tuning};
use crate::ends::near;
use crate::error::StreamError;
use crate::flow::source::ZeroCopy;
use crate::flow::transfer::StreamProgress;
use crate::spec::{BLOCK_MAX_BYTES, BLOCK_MIN_BYTES, Calls, StreamOptions, StreamSpec};

/// Ratio of two figures up to which their difference may be chance.
const MARGIN: f64 = 1.03;
/// Duration of a trial in round trips, and its bounds. The first third does not count.
const TRIAL_RTTS: u32 = 20;
const TRIAL_MIN: Duration = Duration::from_millis(300);
const TRIAL_MAX: Duration = Duration::from_secs(3);

/// Finds the best calls for `spec`; `on_trial` is called after each trial.
pub fn tune(
    address: SocketAddr,
    spec: &StreamSpec<'_>,
    options: &StreamOptions,
    on_trial: &dyn Fn(&Trial),
) -> Result<Tuning, StreamError> {
    let options = &StreamOptions { trace: None, notice: |_| {}, ..options.clone() };
    let spec = StreamSpec { time: TRIAL_MIN, warmup: TRIAL_MIN / 3, calls: Calls::default(), ..*spec };
    let mut tuner = Tuner { address, spec, options, on_trial, trials: Vec::new() };
    // The first run measures the round trip, and wakes up sleeping CPUs.
    let rtt = near::run(address, &tuner.spec, options, &silent)?.min_rtt();
    let time = (rtt * TRIAL_RTTS).clamp(TRIAL_MIN, TRIAL_MAX);
    tuner.spec = StreamSpec { time, warmup: time / 3, ..spec };

    let mut calls = Calls::default();
    let longest_write = spec.source_bytes().clamp(BLOCK_MIN_BYTES, BLOCK_MAX_BYTES);
    calls.write_bytes = tuner.search(longest_write, |write_bytes| Calls { write_bytes, ..calls })?;
    calls.read_bytes = tuner.search(BLOCK_MAX_BYTES, |read_bytes| Calls { read_bytes, ..calls })?;
    let zero_copy_why = tuner.try_zero_copy(&mut calls)?;
    let Calls { write_bytes, read_bytes, zero_copy } = calls;
    Ok(Tuning { write_bytes, read_bytes, zero_copy, zero_copy_why, trials: tuner.trials })
}

struct Tuner<'a> {
    address: SocketAddr,
    spec: StreamSpec<'a>,
    options: &'a StreamOptions,
    on_trial: &'a dyn Fn(&Trial),
    trials: Vec<Trial>,
}

impl Tuner<'_> {
    /// Best power of two up to `most`.
    fn search(&mut self, most: u32, calls: impl Fn(u32) -> Calls) -> Result<u32, StreamError> {
        let mut search = Search::new(BLOCK_MIN_BYTES.ilog2(), most.ilog2());
        while let Some((lower, higher)) = search.pair() {
            search = search.answer(self.is_second_better(calls(1 << lower), calls(1 << higher))?);
        }
        Ok(1 << search.found())
    }

    /// Chooses to send without a copy if that gains; returns the reason.
    fn try_zero_copy(&mut self, calls: &mut Calls) -> Result<&'static str, StreamError> {
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

    fn is_second_better(&mut self, first: Calls, second: Calls) -> Result<bool, StreamError> {
        let firsts = self.trial(first)?;
        let seconds = [self.trial(second)?, self.trial(second)?];
        Ok(is_better(&seconds, &[firsts, self.trial(first)?]))
    }

    fn trial(&mut self, calls: Calls) -> Result<Trial, StreamError> {
        let spec = StreamSpec { calls, ..self.spec };
        let report = near::run(self.address, &spec, self.options, &silent)?;
        let (sender, receiver) = report.cpu_ns_per_byte();
        let trial = Trial {
            write_bytes: calls.write_bytes,
            read_bytes: calls.read_bytes,
            zero_copy: report.zero_copy(),
            bits_per_s: report.load.bytes_per_s * 8.0,
            sender_cpu_ns_per_byte: sender,
            receiver_cpu_ns_per_byte: receiver,
        };
        (self.on_trial)(&trial);
        self.trials.push(trial);
        Ok(trial)
    }
}

/// True if `these` trials are faster than `those`, or equally fast for less CPU time.
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

fn silent(_: StreamProgress) {}

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
}
