//! Whether as many packets are lost as were asked for: counted at the receiver, inside the binomial 99 % interval.

use std::thread;
use std::time::Duration;

use event::BitRate;
use link::LossModel;

use super::Effort;
use super::check::Checks;
use super::rig::{Rig, socket_failed};
use crate::{Side, Spec, WanError};

const PORT: u16 = 11;
const LOSS: &str = "1%";
const DATAGRAM_BYTES: usize = 72;
/// Sent together, then there is a pause in which the receiver takes them.
const BURST: usize = 50;
const PAUSE: Duration = Duration::from_millis(1);
const TAIL: Duration = Duration::from_millis(20);
/// The two-sided 99 % interval of a normal distribution.
const SIGMAS: f64 = 2.576;

pub(super) fn measure(effort: Effort, checks: &mut Checks) -> Result<(), WanError> {
    let bursts = if effort == Effort::Full { 2_000 } else { 400 };
    let mut spec = Spec::new(Duration::from_millis(1), BitRate(1_000_000_000), None, 1500);
    let model: LossModel = LOSS.parse().expect("a loss");
    let share = model.share().expect("a share");
    (spec.near.loss, spec.segment) = (Some(model), true);
    checks.on(&spec, &format!("bursts of {BURST} datagrams"));
    let rig = Rig::new(&spec)?;
    let (sender, receiver) = (rig.datagrams(Side::Near, PORT)?, rig.datagrams(Side::Far, PORT)?);
    receiver.set_nonblocking(true).map_err(socket_failed)?;
    let mut received = 0u64;
    let mut take = || {
        while receiver.recv(&mut [0; DATAGRAM_BYTES]).is_ok() {
            received += 1;
        }
    };
    for _ in 0..bursts {
        for _ in 0..BURST {
            sender.send(&[0xa5; DATAGRAM_BYTES]).map_err(socket_failed)?;
        }
        thread::sleep(PAUSE);
        take();
    }
    thread::sleep(TAIL);
    take();
    let seen = rig.finish()?;
    let sent = (bursts * BURST) as f64;
    let expected = sent * share;
    let sigmas = (sent - received as f64 - expected).abs() / (expected * (1.0 - share)).sqrt();
    let valid = checks.accept("loss", &seen);
    checks.at_most(&format!("loss of {LOSS}"), Some(sigmas).filter(|_| valid), SIGMAS, "sigma");
    Ok(())
}
