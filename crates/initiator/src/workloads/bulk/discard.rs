//! UNMAP of a range (SBC-4 section 5.32): the workload behind `farlun discard`. Each command covers as much as the
//! block limits of the LUN allow, since each costs a round trip.

use std::sync::Arc;

use block::Buffers;
use event::Instant;
use wire::scsi::{Cdb, UnmapRange, emit_unmap};

use super::{Range, taken};
use crate::disk::UnmapLimits;
use crate::error::Error;
use crate::request::{Body, Completed, Request, Workload};

/// Number of outstanding commands. Several hide the round trip if the LUN limits a command to a few MiB; the number is
/// small because a target executes all of them at once.
const OUTSTANDING: usize = 8;

/// Discards a range.
pub struct Discard<'a> {
    range: Range,
    limits: UnmapLimits,
    buffers: Buffers,
    next_bytes: u64,
    done_bytes: u64,
    commands: u64,
    progress: &'a mut dyn FnMut(u64),
}

impl<'a> Discard<'a> {
    /// `progress` is called with the number of bytes that are discarded.
    pub fn new(
        range: Range,
        limits: UnmapLimits,
        buffers: &Buffers,
        progress: &'a mut dyn FnMut(u64),
    ) -> Discard<'a> {
        let buffers = buffers.clone();
        Discard { range, limits, buffers, next_bytes: 0, done_bytes: 0, commands: 0, progress }
    }

    /// Number of commands issued.
    pub fn commands(&self) -> u64 {
        self.commands
    }

    /// Blocks of the command that starts at this byte.
    fn blocks_at(&self, offset_bytes: u64) -> u32 {
        let end_bytes = self.range.offset_bytes + self.range.len_bytes;
        let block = u64::from(self.limits.block_len_bytes);
        self.limits.blocks_at(offset_bytes / block, end_bytes / block)
    }

    fn len_at(&self, offset_bytes: u64) -> u64 {
        u64::from(self.blocks_at(offset_bytes)) * u64::from(self.limits.block_len_bytes)
    }
}

impl Workload for Discard<'_> {
    type Error = Error;

    fn depth(&self) -> Option<usize> {
        Some(OUTSTANDING)
    }

    fn next(&mut self, _now: Instant) -> Option<Request> {
        if self.next_bytes == self.range.len_bytes {
            return None;
        }
        let offset_bytes = self.range.offset_bytes + self.next_bytes;
        self.next_bytes += self.len_at(offset_bytes);
        let lba = offset_bytes / u64::from(self.limits.block_len_bytes);
        let list = emit_unmap(&[UnmapRange { lba, blocks: self.blocks_at(offset_bytes) }]);
        let mut buffer = self.buffers.take(list.len());
        buffer.copy_from_slice(&list);
        let cdb = Cdb::Unmap { list_len: list.len() as u16 };
        Some(Request { cdb, body: Body::Write(Arc::new(buffer)), offset_bytes, tag: 0 })
    }

    fn done(&mut self, completed: Completed) -> Result<(), Error> {
        let request = taken(completed)?;
        self.commands += 1;
        self.done_bytes += self.len_at(request.offset_bytes);
        (self.progress)(self.done_bytes);
        Ok(())
    }

    fn is_over(&self, _now: Instant) -> bool {
        self.done_bytes == self.range.len_bytes
    }
}

#[cfg(test)]
mod tests {
    use wire::scsi::parse_unmap;

    use super::*;

    /// First blocks and numbers of blocks of the commands for a range of blocks.
    fn commands(limits: UnmapLimits, first: u64, blocks: u64) -> Vec<(u64, u32)> {
        let block = u64::from(limits.block_len_bytes);
        let range = Range { offset_bytes: first * block, len_bytes: blocks * block };
        let mut told_bytes = 0;
        let mut progress = |done_bytes| told_bytes = done_bytes;
        let mut work = Discard::new(range, limits, &Buffers::new(1 << 20), &mut progress);
        let mut found = Vec::new();
        while !work.is_over(Instant::ZERO) {
            let request = work.next(Instant::ZERO).expect("the range has an end");
            let Body::Write(list) = &request.body else { panic!("no parameter list") };
            assert_eq!(request.cdb, Cdb::Unmap { list_len: list.len() as u16 });
            let ranges = parse_unmap(list).expect("a parameter list");
            found.extend(ranges.iter().map(|range| (range.lba, range.blocks)));
            let now = Instant::ZERO;
            let completed =
                Completed { request, issued: now, completed: now, transferred_bytes: 24, result: Ok(()) };
            work.done(completed).expect("nothing fails");
        }
        assert!(work.next(Instant::ZERO).is_none(), "nothing is left");
        assert_eq!(work.commands(), found.len() as u64);
        assert_eq!(told_bytes, range.len_bytes);
        found
    }

    #[test]
    fn a_command_covers_as_much_as_the_lun_takes() {
        let limits =
            UnmapLimits { block_len_bytes: 512, blocks_max: 100, granularity_blocks: 1, alignment_blocks: 0 };
        assert_eq!(commands(limits, 7, 250), [(7, 100), (107, 100), (207, 50)]);
        assert_eq!(commands(limits, 7, 100), [(7, 100)]);
        assert_eq!(commands(limits, 7, 0), []);
        let terabyte = UnmapLimits { blocks_max: 1 << 27, ..limits };
        assert_eq!(commands(terabyte, 0, 1 << 31).len(), 16);
    }

    #[test]
    fn commands_end_where_the_lun_releases_whole_groups() {
        let limits = UnmapLimits {
            block_len_bytes: 4096,
            blocks_max: 100,
            granularity_blocks: 8,
            alignment_blocks: 3,
        };
        assert_eq!(commands(limits, 5, 200), [(5, 94), (99, 96), (195, 10)]);
        // Groups that are longer than a command cannot be kept whole.
        let coarse = UnmapLimits { granularity_blocks: 1000, ..limits };
        assert_eq!(commands(coarse, 5, 200), [(5, 100), (105, 100)]);
    }
}
