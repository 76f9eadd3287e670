//! How much memory the packets of a line take at whoever runs the model, so that a path that asks for too much is known
//! before anything is run.

use core::time::Duration;

use crate::Line;

/// Memory for the packets of one direction at most. 400 MB under way between two hosts need less.
pub const MEMORY_MAX_BYTES: u64 = 1 << 30;

/// Of what is kept of a super-packet that was cut, this part may be of no use: what was dropped of it.
pub const WASTE_PART: u64 = 8;
/// Packets lie one behind the other in pieces of memory; of such a piece this part may stay empty, where no largest packet
/// fits.
pub const EMPTY_PART: u64 = 15;
/// To spare for a runner that is late.
const LATE: Duration = Duration::from_millis(5);
const SPARE_BYTES: u64 = 4 << 20;

impl Line {
    /// Memory that the packets which a direction holds take at most. The wire counts more than a packet has in memory, so
    /// bytes on the wire are enough here.
    pub fn memory_bytes(&self) -> u64 {
        let shape = &self.shape;
        let spare = shape.rate.bytes_in(LATE) + SPARE_BYTES;
        let held =
            shape.rate.bytes_in(self.longest()).saturating_add(shape.queue_bytes).saturating_add(spare);
        let more = |bytes: u64, part: u64| bytes.saturating_add(bytes.div_ceil(part - 1));
        more(more(held, WASTE_PART), EMPTY_PART)
    }
}
