//! The congestion controls and their common interface.

use core::time::Duration;

use event::CongestionState;

use super::bbr::Bbr;
use super::cubic::Cubic;
use super::rate::Sample;
use super::recovery::{View, Window};

/// A congestion control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// CUBIC (RFC 9438) with HyStart.
    Cubic,
    /// CUBIC with `hystart` set to 0.
    CubicWithoutHystart,
    /// BBRv1.
    Bbr,
}

/// One of them with its state.
#[derive(Clone, Debug)]
pub(crate) enum Control {
    Cubic(Cubic),
    Bbr(Box<Bbr>),
}

impl Control {
    /// Initialises one on a socket, which need not be new (`tcp_reinit_congestion_control`).
    pub(crate) fn new(kind: Kind, view: &View, window: &mut Window, seed: u64) -> Control {
        window.prior_ssthresh = 0;
        match kind {
            Kind::Cubic => Control::Cubic(Cubic::new(true)),
            Kind::CubicWithoutHystart => Control::Cubic(Cubic::new(false)),
            Kind::Bbr => Control::Bbr(Box::new(Bbr::new(view, window, seed))),
        }
    }

    /// Threshold that a loss at this window leaves.
    pub(crate) fn ssthresh(&mut self, window: &Window) -> u32 {
        match self {
            Control::Cubic(cubic) => cubic.ssthresh(window.cwnd),
            Control::Bbr(bbr) => bbr.save_cwnd(window),
        }
    }

    /// Window after a cut that turned out wrong.
    pub(crate) fn undo_cwnd(&mut self, window: &Window) -> u32 {
        match self {
            Control::Cubic(_) => window.cwnd.max(window.prior_cwnd),
            Control::Bbr(bbr) => bbr.undo(window),
        }
    }

    /// Takes the state that the sender enters.
    pub(crate) fn enters(&mut self, view: &View, state: CongestionState) {
        match self {
            Control::Cubic(cubic) if state == CongestionState::Loss => cubic.reset(),
            Control::Cubic(_) => {}
            Control::Bbr(bbr) => bbr.enters(view, state),
        }
    }

    /// Takes round trips of packets sent once.
    pub(crate) fn measured(&mut self, view: &View, window: &mut Window, rtt: Duration) {
        if let Control::Cubic(cubic) = self {
            cubic.measured(view, window, rtt);
        }
    }

    /// Begins to send after it had nothing to send.
    pub(crate) fn restarts(&mut self, view: &View, window: &mut Window, idle: Duration) -> Option<f64> {
        match self {
            Control::Cubic(cubic) => {
                cubic.restarts(idle);
                None
            }
            Control::Bbr(bbr) => bbr.restarts(view, window),
        }
    }

    /// Takes an acknowledgement; returns the pacing rate in packets per second.
    pub(crate) fn acknowledged(
        &mut self,
        view: &View,
        window: &mut Window,
        sample: &Sample,
        may_grow: bool,
    ) -> f64 {
        match self {
            Control::Bbr(bbr) => bbr.acknowledged(view, window, sample),
            Control::Cubic(cubic) => {
                if may_grow {
                    cubic.grow(view, window, sample.acked);
                }
                // `tcp_update_pacing_rate`: twice the window a round trip in slow start, 1.2 times later.
                let factor = if window.cwnd < window.ssthresh / 2 { 2.0 } else { 1.2 };
                let packets = f64::from(window.cwnd.max(view.nxt.saturating_sub(view.una) as u32));
                view.srtt.map_or(f64::INFINITY, |srtt| factor * packets / srtt.as_secs_f64())
            }
        }
    }

    /// Returns true if it sets the window in recovery as well, instead of PRR.
    pub(crate) fn is_rate_based(&self) -> bool {
        matches!(self, Control::Bbr(_))
    }
}
