//! Configured drops, counted at the receiver: a loss rate within its binomial 99 % interval, and the rate that a
//! policer passes.

use std::thread;
use std::time::{Duration, Instant};

use event::BitRate;
use link::{Contract, FRAMING_BYTES, LossModel};

use super::Effort;
use super::check::Checks;
use super::rig::{Rig, Seen, socket_failed};
use crate::{Side, Spec, WanError};

const PORT: u16 = 11;
const LOSS: &str = "1%";
const SMALL_BYTES: usize = 72;
/// A sixth of the rate of the datagrams, 50 of 1 538 bytes on the wire in a millisecond or slower. The bucket takes 160 ms to
/// fill, so that a sender that stands still for less loses no tokens.
const CONTRACT: &str = "100mbit/2MB";
const LARGE_BYTES: usize = 1_472;
/// IP and UDP, without options.
const HEADER_BYTES: u32 = 28;
/// Datagrams in a burst, and the pause after it in which the receiver reads them.
const BURST: usize = 50;
const PAUSE: Duration = Duration::from_millis(1);
const TAIL: Duration = Duration::from_millis(20);
/// The two-sided 99 % interval of a normal distribution.
const SIGMAS: f64 = 2.576;
/// Largest error of the policed bytes in percent: the clock is read beside the first and the last packet, a millisecond each
/// of half a second.
const POLICER_ERROR: f64 = 1.0;

/// Datagrams over a path.
struct Sent {
    sent: usize,
    received: usize,
    /// From the first to the last.
    elapsed: Duration,
    seen: Seen,
}

pub(super) fn measure(effort: Effort, checks: &mut Checks) -> Result<(), WanError> {
    let bursts = if effort == Effort::Full { 2_000 } else { 400 };
    let model: LossModel = LOSS.parse().expect("a loss");
    let share = model.share().expect("a share");
    let mut spec = path();
    spec.near.loss = Some(model);
    let Sent { sent, received, seen, .. } = send::<SMALL_BYTES>(&spec, bursts, checks)?;
    let expected = sent as f64 * share;
    let sigmas = ((sent - received) as f64 - expected).abs() / (expected * (1.0 - share)).sqrt();
    let valid = checks.accept("loss", &seen);
    checks.at_most(&format!("loss of {LOSS}"), Some(sigmas).filter(|_| valid), SIGMAS, "sigma");

    let contract: Contract = CONTRACT.parse().expect("a contract");
    let mut spec = path();
    spec.near.police = Some(contract);
    let Sent { sent, received, elapsed, seen } = send::<LARGE_BYTES>(&spec, bursts, checks)?;
    let wire_bytes = f64::from(LARGE_BYTES as u32 + HEADER_BYTES + FRAMING_BYTES);
    let allowed_bytes = contract.burst_bytes as f64 + contract.rate.0 as f64 / 8.0 * elapsed.as_secs_f64();
    let error = 100.0 * (received as f64 * wire_bytes / allowed_bytes - 1.0).abs();
    // Below the contract nothing is dropped, and nothing is shown.
    let valid = checks.accept("policer", &seen) && received < sent;
    checks.at_most(
        &format!("error of a policer of {CONTRACT}"),
        Some(error).filter(|_| valid),
        POLICER_ERROR,
        "%",
    );
    Ok(())
}

fn path() -> Spec {
    let spec = Spec::new(Duration::from_millis(1), BitRate(1_000_000_000), None, 1500);
    Spec { segment: true, ..spec }
}

/// Sends bursts of datagrams from near to far.
fn send<const BYTES: usize>(spec: &Spec, bursts: usize, checks: &mut Checks) -> Result<Sent, WanError> {
    checks.on(spec, &format!("bursts of {BURST} datagrams"));
    let rig = Rig::new(spec)?;
    let (sender, receiver) = (rig.datagrams(Side::Near, PORT)?, rig.datagrams(Side::Far, PORT)?);
    receiver.set_nonblocking(true).map_err(socket_failed)?;
    let mut received = 0;
    let mut take = || {
        while receiver.recv(&mut [0; BYTES]).is_ok() {
            received += 1;
        }
    };
    let began = Instant::now();
    for burst in 0..bursts {
        if burst > 0 {
            thread::sleep(PAUSE);
            take();
        }
        for _ in 0..BURST {
            sender.send(&[0xa5; BYTES]).map_err(socket_failed)?;
        }
    }
    let elapsed = began.elapsed();
    thread::sleep(TAIL);
    take();
    Ok(Sent { sent: bursts * BURST, received, elapsed, seen: rig.finish()? })
}
