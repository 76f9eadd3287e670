//! What a target tells an initiator of our own kind of its congestion window, as the data of an Async Message of the
//! vendor's own (RFC 7143 section 11.9.1, AsyncEvent 255). The format is `docs/notification.md`.
//!
//! Only bytes and their meaning: when something is told is decided by `control`, and who is of our own kind by the
//! private key of the login.

use event::{WindowKind, WindowNotice};

/// AsyncVCode of these messages.
pub const WINDOW_VCODE: u8 = 1;

mod field {
    use core::ops::Range;

    pub(super) const VERSION: usize = 0;
    pub(super) const KIND: usize = 1;
    pub(super) const CWND: Range<usize> = 4..8;
    pub(super) const MSS: Range<usize> = 8..12;
}

const VERSION: u8 = 1;
const LEN: usize = 12;
/// The largest values that are believed: a window of a GiB at the least MSS, and the longest TCP payload.
const CWND_MAX_PACKETS: u32 = 1 << 24;
const MSS_MAX_BYTES: u32 = 65_535;

const KINDS: [(u8, WindowKind); 4] = [
    (1, WindowKind::CutHere),
    (2, WindowKind::CutByLoss),
    (3, WindowKind::CutByTimeout),
    (4, WindowKind::Limit),
];

/// The bytes that tell of a window.
pub fn emit(notice: &WindowNotice) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    let kind = KINDS.iter().find(|(_, kind)| *kind == notice.kind);
    let Some((code, _)) = kind else { unreachable!("every kind has a code") };
    bytes[field::VERSION] = VERSION;
    bytes[field::KIND] = *code;
    bytes[field::CWND].copy_from_slice(&notice.cwnd_packets.to_be_bytes());
    bytes[field::MSS].copy_from_slice(&notice.mss_bytes.to_be_bytes());
    bytes
}

/// What the data of a message of the vendor's own tells. What is longer was written by a later version and begins
/// the same; whatever else it is tells nothing, and is no fault: a vendor's messages are free.
pub fn read(vendor_code: u8, data: &[u8]) -> Option<WindowNotice> {
    let data =
        data.get(..LEN).filter(|data| vendor_code == WINDOW_VCODE && data[field::VERSION] >= VERSION)?;
    let word =
        |at: core::ops::Range<usize>| data[at].iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
    let (_, kind) = KINDS.iter().find(|(code, _)| *code == data[field::KIND])?;
    let notice = WindowNotice { kind: *kind, cwnd_packets: word(field::CWND), mss_bytes: word(field::MSS) };
    let is_sound = (1..=CWND_MAX_PACKETS).contains(&notice.cwnd_packets)
        && (1..=MSS_MAX_BYTES).contains(&notice.mss_bytes);
    is_sound.then_some(notice)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUT: WindowNotice = WindowNotice { kind: WindowKind::CutHere, cwnd_packets: 205, mss_bytes: 1448 };

    #[test]
    fn the_bytes_of_the_document() {
        let bytes = [1, 1, 0, 0, 0, 0, 0, 205, 0, 0, 5, 0xa8];
        assert_eq!(emit(&CUT), bytes);
        assert_eq!(read(WINDOW_VCODE, &bytes), Some(CUT));
    }

    #[test]
    fn every_kind_comes_back() {
        for (_, kind) in KINDS {
            let notice = WindowNotice { kind, ..CUT };
            assert_eq!(read(WINDOW_VCODE, &emit(&notice)), Some(notice));
        }
    }

    #[test]
    fn what_comes_later_may_be_longer() {
        let mut bytes = emit(&CUT).to_vec();
        bytes.extend([9; 40]);
        bytes[0] = 2;
        assert_eq!(read(WINDOW_VCODE, &bytes), Some(CUT));
    }

    #[test]
    fn nonsense_tells_nothing() {
        let good = emit(&CUT);
        (0..LEN).for_each(|len| assert_eq!(read(WINDOW_VCODE, &good[..len]), None));
        assert_eq!(read(WINDOW_VCODE + 1, &good), None);
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
