//! TCP header options that describe the path: RFC 9293 section 3.2, RFC 7323, RFC 2018.

use crate::be;

const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;

/// The largest shift there may be: RFC 7323 section 2.3.
const WINDOW_SCALE_MAX: u8 = 14;

/// Up to four blocks of received data, each from its first byte to behind its last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(u32, u32); 4],
    count: u8,
}

impl SackBlocks {
    /// The blocks, in the order of the header.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        self.blocks.into_iter().take(usize::from(self.count))
    }
}

/// Options of a TCP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Largest segment the sender of a SYN takes.
    pub mss: Option<u16>,
    /// Shift of the windows it will announce.
    pub window_scale: Option<u8>,
    /// True if the sender supports selective acknowledgements.
    pub sack_permitted: bool,
    /// Blocks received out of order.
    pub sack: SackBlocks,
    /// The capture has truncated the options: absent ones may have been there.
    pub is_cut: bool,
}

impl Options {
    /// Reads the bytes behind the fixed part of the header. A truncated or malformed option ends the list.
    #[must_use]
    pub fn parse(mut bytes: &[u8]) -> Self {
        let mut options = Self::default();
        while let Some(&kind) = bytes.first() {
            if kind == END {
                break;
            }
            if kind == NO_OPERATION {
                bytes = &bytes[1..];
                continue;
            }
            let Some(len) = bytes.get(1).map(|len| usize::from(*len)).filter(|len| *len >= 2) else { break };
            let Some(value) = bytes.get(2..len) else { break };
            match (kind, value.len()) {
                (MSS, 2) => options.mss = Some(be::u16_at(value, 0)),
                (WINDOW_SCALE, 1) => options.window_scale = Some(value[0].min(WINDOW_SCALE_MAX)),
                (SACK_PERMITTED, 0) => options.sack_permitted = true,
                (SACK, 8..) => {
                    for (place, block) in options.sack.blocks.iter_mut().zip(value.chunks_exact(8)) {
                        *place = (be::u32_at(block, 0), be::u32_at(block, 4));
                        options.sack.count += 1;
                    }
                }
                _ => {}
            }
            bytes = &bytes[len..];
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_syn_of_linux() {
        let bytes = [2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 10];
        let options = Options::parse(&bytes);
        assert_eq!((options.mss, options.window_scale, options.sack_permitted), (Some(1460), Some(10), true));
        assert_eq!(options.sack.iter().count(), 0);
    }

    #[test]
    fn blocks() {
        let bytes = [1, 1, 5, 18, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 9];
        assert_eq!(Options::parse(&bytes).sack.iter().collect::<Vec<_>>(), [(1, 2), (5, 9)]);
    }

    #[test]
    fn nonsense_ends_the_list() {
        for bytes in [&[5, 0, 1][..], &[5, 1], &[2, 200, 1], &[3], &[0, 2, 4, 1, 1]] {
            assert_eq!(Options::parse(bytes), Options::default());
        }
        assert_eq!(Options::parse(&[3, 3, 200]).window_scale, Some(14));
    }
}
