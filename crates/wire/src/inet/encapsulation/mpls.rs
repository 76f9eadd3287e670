//! MPLS: a stack of labels (RFC 3032), then IP or a pseudo-wire with or without a control word (RFC 4385, RFC 4448).
//!
//! Nothing in a packet names the content of a label-switched path. The first nibble does (RFC 4928): 4 and 6 are IP, 0 is
//! a control word. An Ethernet pseudo-wire without one begins with a MAC address, whose first nibble may be any
//! (RFC 8469), so that each reading has to fit.

use super::other::Other;
use super::plausible::{MPLS, is_ethernet, is_ip};
use super::step::{Header, Step};
use super::tunnel::Tunnel;

/// Labels of a stack; more are damage.
const LABELS_MAX: usize = 16;
const LABEL_LEN: usize = 4;
const CONTROL_WORD_LEN: usize = 4;

/// A stack of labels and the payload behind it.
pub(super) fn mpls(bytes: &[u8]) -> Step {
    // The lowest bit of a label's third byte marks the bottom of the stack.
    let is_bottom = |label: &[u8]| label.len() == LABEL_LEN && label[2] & 1 != 0;
    let Some(depth) = bytes.chunks(LABEL_LEN).take(LABELS_MAX).position(is_bottom) else {
        let is_cut = bytes.len() < LABELS_MAX * LABEL_LEN;
        return Step::Other(if is_cut { Other::Cut } else { Other::Deep });
    };
    let at = (depth + 1) * LABEL_LEN;
    let payload = &bytes[at..];
    let Some(nibble) = payload.first().map(|byte| byte >> 4) else { return Step::Other(Other::Cut) };
    let inner = payload.get(CONTROL_WORD_LEN..).unwrap_or_default();
    match nibble {
        4 | 6 if is_ip(payload) || !is_ethernet(payload) => Step::Tunnel(Tunnel::Mpls, Header::Ip, at),
        0 if is_ethernet(inner) => Step::Tunnel(Tunnel::Mpls, Header::Ethernet, at + CONTROL_WORD_LEN),
        _ if is_ethernet(payload) => Step::Tunnel(Tunnel::Mpls, Header::Ethernet, at),
        _ => Step::Other(Other::EtherType(MPLS[0])),
    }
}
