//! Packets of a capture in memory, to be changed.

use std::io::Read;
use std::path::Path;

use dissect::read_packets;

/// A packet.
#[derive(Clone)]
pub(crate) struct Frame {
    /// Number in the complete capture, from 1.
    pub(crate) number: u64,
    pub(crate) t_ns: u64,
    pub(crate) link: u32,
    pub(crate) len: usize,
    pub(crate) bytes: Vec<u8>,
}

/// All packets of a file.
pub(crate) fn read(path: &Path, file: impl Read) -> Vec<Frame> {
    let mut frames = Vec::new();
    let end = read_packets(
        file,
        |packet, _| {
            frames.push(Frame {
                number: frames.len() as u64 + 1,
                t_ns: packet.t_ns,
                link: packet.link,
                len: packet.len,
                bytes: packet.bytes.to_vec(),
            });
            false
        },
        |_| {},
    );
    assert_eq!(end.expect("a capture").cut, None, "{}", path.display());
    frames
}

/// A linear congruential generator.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `sides`.
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Keeps so many bytes of each packet.
pub(crate) fn cut(frames: &[Frame], keep: usize) -> Vec<Frame> {
    let mut cut = frames.to_vec();
    cut.iter_mut().for_each(|frame| frame.bytes.truncate(keep));
    cut
}

/// Every packet twice, the copy 5 µs later.
pub(crate) fn doubled(frames: &[Frame]) -> Vec<Frame> {
    let twice = |frame: &Frame| [frame.clone(), Frame { t_ns: frame.t_ns + 5_000, ..frame.clone() }];
    let mut doubled: Vec<Frame> = frames.iter().flat_map(twice).collect();
    doubled.sort_by_key(|frame| frame.t_ns);
    doubled
}

/// Writes each packet up to `late_max_ns` after its stamp.
pub(crate) fn displaced(frames: &[Frame], late_max_ns: u64, dice: &mut Dice) -> Vec<Frame> {
    let mut written: Vec<(u64, &Frame)> =
        frames.iter().map(|frame| (frame.t_ns + dice.roll(late_max_ns), frame)).collect();
    written.sort_by_key(|(t_ns, _)| *t_ns);
    written.into_iter().map(|(_, frame)| frame.clone()).collect()
}

/// Loses one packet in `one_in`, but none of the last ones, whose loss nothing shows.
pub(crate) fn lossy(frames: &[Frame], one_in: u64, dice: &mut Dice) -> Vec<Frame> {
    let last = frames.len() - frames.len() / 20;
    let all = frames.iter().enumerate();
    all.filter(|(n, _)| dice.roll(one_in) > 0 || *n >= last).map(|(_, frame)| frame.clone()).collect()
}
