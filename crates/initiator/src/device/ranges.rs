//! Commands of an operation on ranges: UNMAP or WRITE SAME, each as long as the limits of the target permit, made one
//! at a time. A target with small limits costs round trips, and no memory.

use std::sync::Arc;

use block::{Buffer, Buffers, ByteRange};

use crate::disk::{Geometry, UnmapLimits};
use crate::request::Request;

/// Limits of the target for operations without data.
#[derive(Clone, Copy, Debug)]
pub(super) struct RangeLimits {
    /// Limits of UNMAP; `None` without the command.
    pub(super) unmap: Option<UnmapLimits>,
    /// Blocks of the longest WRITE SAME; 0 without the command.
    pub(super) write_same_blocks: u32,
    /// WRITE SAME with its UNMAP bit unmaps what then reads as zeros, and writes zeros elsewhere.
    pub(super) unmaps_to_zeros: bool,
}

/// The commands of an operation that are not made yet.
#[derive(Debug)]
pub(super) struct Ranges {
    /// Ranges that are not empty.
    ranges: Vec<ByteRange>,
    command: RangeCommand,
    /// Index of the range of the next command.
    place: usize,
    /// Bytes of that range that commands cover already.
    done_bytes: u64,
}

#[derive(Debug)]
enum RangeCommand {
    Unmap(UnmapLimits),
    WriteSame { block: Arc<Buffer>, blocks_max: u32, unmap: bool },
}

impl RangeLimits {
    /// Commands that unmap ranges. UNMAP may leave blocks as they are; WRITE SAME with its UNMAP bit may not, and is
    /// preferred where the target has it (SBC-4 sections 5.32 and 5.48).
    pub(super) fn unmap(self, ranges: Vec<ByteRange>, block_bytes: u32, buffers: &Buffers) -> Option<Ranges> {
        if self.unmaps_to_zeros {
            return Some(self.write_same(ranges, &vec![0; block_bytes as usize], true, buffers));
        }
        self.unmap.map(|limits| Ranges::new(ranges, RangeCommand::Unmap(limits)))
    }

    /// Commands that fill a range with a pattern of one block.
    pub(super) fn fill(self, range: ByteRange, pattern: &[u8], buffers: &Buffers) -> Ranges {
        self.write_same(vec![range], pattern, false, buffers)
    }

    fn write_same(self, ranges: Vec<ByteRange>, pattern: &[u8], unmap: bool, buffers: &Buffers) -> Ranges {
        let mut block = buffers.take(pattern.len());
        block.copy_from_slice(pattern);
        let blocks_max = self.write_same_blocks.max(1);
        Ranges::new(ranges, RangeCommand::WriteSame { block: Arc::new(block), blocks_max, unmap })
    }
}

impl Ranges {
    fn new(mut ranges: Vec<ByteRange>, command: RangeCommand) -> Ranges {
        ranges.retain(|range| range.len_bytes > 0);
        Ranges { ranges, command, place: 0, done_bytes: 0 }
    }

    /// Returns true if no command is left.
    pub(super) fn is_over(&self) -> bool {
        self.place == self.ranges.len()
    }

    /// Begins again with the first command.
    pub(super) fn restart(&mut self) {
        (self.place, self.done_bytes) = (0, 0);
    }

    /// Makes the next command.
    pub(super) fn next(&mut self, geometry: Geometry, buffers: &Buffers) -> Option<Request> {
        let ByteRange { offset_bytes, len_bytes } = *self.ranges.get(self.place)?;
        let block_bytes = u64::from(geometry.block_len_bytes());
        let at_bytes = offset_bytes + self.done_bytes;
        let (lba, end_lba) = (at_bytes / block_bytes, (offset_bytes + len_bytes) / block_bytes);
        let (blocks, request) = match &self.command {
            RangeCommand::Unmap(limits) => {
                let blocks = limits.blocks_at(lba, end_lba);
                (blocks, geometry.unmap(at_bytes, blocks, buffers))
            }
            RangeCommand::WriteSame { block, blocks_max, unmap } => {
                let blocks = (end_lba - lba).min(u64::from(*blocks_max)) as u32;
                (blocks, geometry.write_same(at_bytes, blocks, *unmap, Arc::clone(block)))
            }
        };
        self.done_bytes += u64::from(blocks) * block_bytes;
        if self.done_bytes == len_bytes {
            (self.place, self.done_bytes) = (self.place + 1, 0);
        }
        Some(request)
    }
}
