//! Notification of a farlun target to a farlun initiator, as the data of a vendor-specific Async Message (RFC 7143
//! section 11.9.1, AsyncEvent 255): the target's congestion window, and the initiator's share of a line that several
//! initiators use. The format is `docs/reference/notification.md`.
//!
//! Only bytes and their meaning: `control` decides the time of a notification, and the private key of the login
//! identifies a farlun peer.

use core::ops::Range;

use event::{WindowKind, WindowNotice};

/// AsyncVCode of a message about the target's window.
pub const WINDOW_VCODE: u8 = 1;
/// AsyncVCode of a message about the initiator's share of a line.
pub const PART_VCODE: u8 = 2;

mod field {
    use core::ops::Range;

    pub(super) const VERSION: usize = 0;
    pub(super) const KIND: usize = 1;
    pub(super) const CWND: Range<usize> = 4..8;
    pub(super) const MSS: Range<usize> = 8..12;
    pub(super) const RATE: Range<usize> = 4..12;
}

const VERSION: u8 = 1;
const LEN: usize = 12;
/// The largest accepted values: a window of a GiB at the least MSS, and the longest TCP payload.
const CWND_MAX_PACKETS: u64 = 1 << 24;
const MSS_MAX_BYTES: u64 = 65_535;

const KINDS: [(u8, WindowKind); 4] = [
    (1, WindowKind::CutHere),
    (2, WindowKind::CutByLoss),
    (3, WindowKind::CutByTimeout),
    (4, WindowKind::Limit),
];

/// Content of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notification {
    /// The congestion window of the target.
    Window(WindowNotice),
    /// Rate allocated to the initiator on this connection, in bytes per second; `None` means unlimited.
    Part(Option<u64>),
}

/// The AsyncVCode and the data of a notification.
pub fn emit(told: &Notification) -> (u8, [u8; LEN]) {
    let mut bytes = [0; LEN];
    bytes[field::VERSION] = VERSION;
    match told {
        Notification::Window(notice) => {
            let kind = KINDS.iter().find(|(_, kind)| *kind == notice.kind);
            let Some((code, _)) = kind else { unreachable!("every kind has a code") };
            bytes[field::KIND] = *code;
            bytes[field::CWND].copy_from_slice(&notice.cwnd_packets.to_be_bytes());
            bytes[field::MSS].copy_from_slice(&notice.mss_bytes.to_be_bytes());
            (WINDOW_VCODE, bytes)
        }
        Notification::Part(part) => {
            bytes[field::RATE].copy_from_slice(&part.unwrap_or(0).to_be_bytes());
            (PART_VCODE, bytes)
        }
    }
}

/// Parses the data of a vendor-specific message. A longer message comes from a later version and begins the same; any
/// other message yields `None` and is no fault, since its content is free to the vendor.
pub fn read(vendor_code: u8, data: &[u8]) -> Option<Notification> {
    let data = data.get(..LEN).filter(|data| data[field::VERSION] >= VERSION)?;
    match vendor_code {
        WINDOW_VCODE => {
            let (_, kind) = KINDS.iter().find(|(code, _)| *code == data[field::KIND])?;
            let (cwnd, mss) = (number(data, field::CWND), number(data, field::MSS));
            let is_sound = (1..=CWND_MAX_PACKETS).contains(&cwnd) && (1..=MSS_MAX_BYTES).contains(&mss);
            let notice = WindowNotice { kind: *kind, cwnd_packets: cwnd as u32, mss_bytes: mss as u32 };
            is_sound.then_some(Notification::Window(notice))
        }
        PART_VCODE => Some(Notification::Part(Some(number(data, field::RATE)).filter(|rate| *rate > 0))),
        _ => None,
    }
}

fn number(data: &[u8], at: Range<usize>) -> u64 {
    data[at].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUT: WindowNotice = WindowNotice { kind: WindowKind::CutHere, cwnd_packets: 205, mss_bytes: 1448 };

    #[test]
    fn the_bytes_of_the_document() {
        let bytes = [1, 1, 0, 0, 0, 0, 0, 205, 0, 0, 5, 0xa8];
        assert_eq!(emit(&Notification::Window(CUT)), (WINDOW_VCODE, bytes));
        assert_eq!(read(WINDOW_VCODE, &bytes), Some(Notification::Window(CUT)));
        let bytes = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0x59, 0x55, 0x3f];
        assert_eq!(emit(&Notification::Part(Some(5_854_527))), (PART_VCODE, bytes));
        assert_eq!(read(PART_VCODE, &bytes), Some(Notification::Part(Some(5_854_527))));
    }

    #[test]
    fn everything_comes_back() {
        let windows = KINDS.iter().map(|(_, kind)| Notification::Window(WindowNotice { kind: *kind, ..CUT }));
        let parts = [None, Some(1), Some(u64::MAX)].map(Notification::Part);
        for told in windows.chain(parts) {
            let (code, bytes) = emit(&told);
            assert_eq!(read(code, &bytes), Some(told));
        }
    }

    #[test]
    fn what_comes_later_may_be_longer() {
        for told in [Notification::Window(CUT), Notification::Part(Some(1 << 40))] {
            let (code, bytes) = emit(&told);
            let mut bytes = bytes.to_vec();
            bytes.extend([9; 40]);
            bytes[0] = 2;
            assert_eq!(read(code, &bytes), Some(told));
        }
    }

    #[test]
    fn nonsense_tells_nothing() {
        let (_, good) = emit(&Notification::Window(CUT));
        for code in [WINDOW_VCODE, PART_VCODE] {
            (0..LEN).for_each(|len| assert_eq!(read(code, &good[..len]), None));
        }
        assert_eq!(read(0, &good), None);
        assert_eq!(read(PART_VCODE + 1, &good), None);
        for (at, byte) in [(0, 0), (1, 0), (1, 5), (4, 0xff), (8, 1)] {
            let mut bytes = good;
            bytes[at] = byte;
            assert_eq!(read(WINDOW_VCODE, &bytes), None, "{bytes:?}");
        }
        for zero in [field::CWND, field::MSS] {
            let mut bytes = good;
            bytes[zero].fill(0);
            assert_eq!(read(WINDOW_VCODE, &bytes), None, "{bytes:?}");
        }
    }
}
