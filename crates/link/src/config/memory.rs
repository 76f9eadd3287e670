//! Memory for the packets of a line, so that a path that needs too much is refused before a run.

use core::time::Duration;

use crate::Line;

/// Upper limit of the memory for the packets of one direction. 400 MB under way between two hosts need less.
pub const MEMORY_MAX_BYTES: u64 = 1 << 30;

/// Upper limit of the unused part of a super-packet in memory, whose other segments the model dropped: one in so many
/// bytes.
pub const WASTE_PART: u64 = 8;
/// Upper limit of the unused end of a chunk of memory, where no packet of the largest size fits: one in so many
/// bytes.
pub const EMPTY_PART: u64 = 15;
/// Margin for an emulator that is late.
const LATE: Duration = Duration::from_millis(5);
const SPARE_BYTES: u64 = 4 << 20;

impl Line {
    /// Largest memory for the packets of a direction. The wire counts more than a packet takes in memory, so bytes on
    /// the wire are enough here.
    pub fn memory_bytes(&self) -> u64 {
        let shape = &self.shape;
        let spare = shape.rate.bytes_in(LATE) + SPARE_BYTES;
        let held =
            shape.rate.bytes_in(self.longest()).saturating_add(shape.queue_bytes).saturating_add(spare);
        let more = |bytes: u64, part: u64| bytes.saturating_add(bytes.div_ceil(part - 1));
        more(more(held, WASTE_PART), EMPTY_PART)
    }
}
