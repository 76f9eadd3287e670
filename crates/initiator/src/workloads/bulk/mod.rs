//! Transfers of ranges between a LUN and a file: the workloads behind `farlun read` and `farlun write`. A thread reads
//! the file ahead, or writes it behind, so that disk and network do not wait for each other.

mod discard;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use block::{Buffer, Buffers};
use event::Instant;

use crate::disk::Geometry;
use crate::error::Error;
use crate::request::{Body, Completed, Request, Workload};

pub use discard::Discard;

/// A range of a LUN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// First byte; a multiple of the block length.
    pub offset_bytes: u64,
    /// Length; a multiple of the block length.
    pub len_bytes: u64,
}

/// Maximum number of blocks that wait for the file or the network.
const WAITING_BLOCKS: usize = 64;
/// Poll interval while the file reader has no block yet.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Reads a range into a file, from the file's start.
pub struct ToFile<'a> {
    range: Range,
    block_bytes: u32,
    geometry: Geometry,
    buffers: Buffers,
    next_bytes: u64,
    done_bytes: u64,
    blocks: Option<SyncSender<(u64, Buffer)>>,
    writer: Option<JoinHandle<io::Result<()>>>,
    /// Blocks beyond the writer's queue: the event loop must not block on a disk.
    overflow: VecDeque<(u64, Buffer)>,
    now: Instant,
    progress: &'a mut dyn FnMut(u64),
}

impl<'a> ToFile<'a> {
    /// Starts the thread that writes `file`. `progress` is called with the number of bytes received.
    pub fn new(
        range: Range,
        block_bytes: u32,
        geometry: Geometry,
        buffers: &Buffers,
        file: File,
        progress: &'a mut dyn FnMut(u64),
    ) -> io::Result<ToFile<'a>> {
        let (blocks, incoming) = sync_channel::<(u64, Buffer)>(WAITING_BLOCKS);
        let write = move || {
            for (offset, block) in incoming {
                file.write_all_at(&block, offset)?;
            }
            file.sync_all()
        };
        let writer = std::thread::Builder::new().name("file-writer".to_owned()).spawn(write)?;
        Ok(ToFile {
            range,
            block_bytes,
            geometry,
            buffers: buffers.clone(),
            next_bytes: 0,
            done_bytes: 0,
            blocks: Some(blocks),
            writer: Some(writer),
            overflow: VecDeque::new(),
            now: Instant::ZERO,
            progress,
        })
    }

    /// Bytes received so far.
    pub fn done_bytes(&self) -> u64 {
        self.done_bytes
    }

    /// Passes blocks to the writer until its queue is full.
    fn hand_over(&mut self) {
        while let (Some(blocks), Some(block)) = (&self.blocks, self.overflow.pop_front()) {
            match blocks.try_send(block) {
                Ok(()) => {}
                Err(TrySendError::Full(block)) => return self.overflow.push_front(block),
                Err(TrySendError::Disconnected(_)) => self.blocks = None,
            }
        }
    }

    /// Waits until everything is in the file and durable.
    pub fn finish(&mut self) -> io::Result<()> {
        self.blocks = None;
        match self.writer.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_)) => {
                Err(io::Error::other("the file writer panicked; the file is incomplete, report a bug"))
            }
        }
    }
}

impl Workload for ToFile<'_> {
    type Error = BulkError;

    fn depth(&self) -> Option<usize> {
        None
    }

    fn next(&mut self, now: Instant) -> Option<Request> {
        self.now = now;
        self.hand_over();
        if !self.overflow.is_empty() {
            return None;
        }
        let left = self.range.len_bytes - self.next_bytes;
        if left == 0 {
            return None;
        }
        let len = left.min(self.block_bytes.into()) as usize;
        let offset = self.range.offset_bytes + self.next_bytes;
        self.next_bytes += len as u64;
        Some(self.geometry.read(offset, self.buffers.take(len)))
    }

    fn set_block(&mut self, bytes: u64) {
        self.block_bytes = self.geometry.whole_blocks(bytes);
    }

    fn done(&mut self, completed: Completed) -> Result<(), BulkError> {
        let request = taken(completed)?;
        let Body::Read(block) = request.body else { unreachable!("only reads are issued") };
        self.done_bytes += block.len() as u64;
        let at = request.offset_bytes - self.range.offset_bytes;
        self.overflow.push_back((at, block));
        self.hand_over();
        if self.blocks.is_none() {
            // The writer thread has stopped; joining it returns its error.
            self.finish().map_err(BulkError::File)?;
        }
        (self.progress)(self.done_bytes);
        Ok(())
    }

    fn is_over(&self, _now: Instant) -> bool {
        self.done_bytes == self.range.len_bytes && self.overflow.is_empty()
    }

    fn resume_at(&self) -> Option<Instant> {
        (!self.overflow.is_empty()).then(|| self.now + LOOK_AGAIN)
    }
}

/// Maximum number of bytes between two flushes, which bounds the data written again after a reconnect. If sessions are
/// lost before so much is written, the interval becomes half of the lost bytes, or nothing would ever become durable;
/// each flush doubles it.
const FLUSH_EVERY_BYTES: u64 = 1 << 30;

/// Writes a file, from its start, to a range, and makes it durable.
///
/// A target that lost the session may have restarted and lost its volatile cache. After a reconnect all writes since
/// the last flush are repeated.
pub struct FromFile<'a> {
    range: Range,
    block_bytes: u32,
    geometry: Geometry,
    buffers: Buffers,
    file: Arc<File>,
    done_bytes: u64,
    blocks: Receiver<io::Result<Block>>,
    durability: Durability,
    is_read: bool,
    is_starved: bool,
    failure: Option<io::Error>,
    now: Instant,
    progress: &'a mut dyn FnMut(u64),
}

/// Written blocks until they are durable, by their offsets in the file.
struct Durability {
    /// Blocks to write again after the reader has finished.
    again: Vec<u64>,
    /// Blocks written since the last flush was issued, and blocks that the outstanding flush covers.
    unflushed: Vec<u64>,
    flushing: Option<Vec<u64>>,
    flush_every_bytes: u64,
}

impl Default for Durability {
    fn default() -> Durability {
        Durability {
            again: Vec::new(),
            unflushed: Vec::new(),
            flushing: None,
            flush_every_bytes: FLUSH_EVERY_BYTES,
        }
    }
}

impl<'a> FromFile<'a> {
    /// Starts the thread that reads `file`, whose length equals that of the range.
    pub fn new(
        range: Range,
        block_bytes: u32,
        geometry: Geometry,
        buffers: &Buffers,
        file: File,
        progress: &'a mut dyn FnMut(u64),
    ) -> io::Result<FromFile<'a>> {
        let (file, buffers) = (Arc::new(file), buffers.clone());
        let offsets = (0..range.len_bytes).step_by(block_bytes as usize);
        let blocks = read_ahead(&file, &buffers, range.len_bytes, block_bytes, offsets)?;
        Ok(FromFile {
            range,
            block_bytes,
            geometry,
            buffers,
            file,
            done_bytes: 0,
            blocks,
            durability: Durability::default(),
            is_read: false,
            is_starved: false,
            failure: None,
            now: Instant::ZERO,
            progress,
        })
    }

    /// Bytes of completed writes, except those that have to be written again.
    pub fn done_bytes(&self) -> u64 {
        self.done_bytes
    }

    fn len_at(&self, at: u64) -> u64 {
        len_at(at, self.range.len_bytes, self.block_bytes)
    }

    fn is_flush_due(&self) -> bool {
        let is_last = self.done_bytes == self.range.len_bytes;
        let unflushed_bytes = self.durability.unflushed.len() as u64 * u64::from(self.block_bytes);
        !self.durability.unflushed.is_empty()
            && (is_last || unflushed_bytes >= self.durability.flush_every_bytes)
    }

    /// Error of the file, if the file could not be read to its end.
    pub fn failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }
}

impl Workload for FromFile<'_> {
    type Error = BulkError;

    fn depth(&self) -> Option<usize> {
        None
    }

    fn next(&mut self, now: Instant) -> Option<Request> {
        self.now = now;
        self.is_starved = false;
        if self.durability.flushing.is_none() && self.is_flush_due() {
            self.durability.flushing = Some(std::mem::take(&mut self.durability.unflushed));
            return Some(self.geometry.flush());
        }
        if self.is_read && !self.durability.again.is_empty() {
            let again = std::mem::take(&mut self.durability.again).into_iter();
            match read_ahead(&self.file, &self.buffers, self.range.len_bytes, self.block_bytes, again) {
                Ok(blocks) => (self.blocks, self.is_read) = (blocks, false),
                Err(error) => self.failure = Some(error),
            }
        }
        match self.blocks.try_recv() {
            Ok(Ok((at, block))) => Some(self.geometry.write(self.range.offset_bytes + at, Arc::new(block))),
            Ok(Err(error)) => {
                self.failure = Some(error);
                None
            }
            Err(TryRecvError::Empty) => {
                self.is_starved = true;
                None
            }
            Err(TryRecvError::Disconnected) => {
                self.is_read = true;
                None
            }
        }
    }

    fn done(&mut self, completed: Completed) -> Result<(), BulkError> {
        let request = taken(completed)?;
        if matches!(request.body, Body::None) {
            self.durability.flushing = None;
            self.durability.flush_every_bytes =
                (self.durability.flush_every_bytes * 2).min(FLUSH_EVERY_BYTES);
            return Ok(());
        }
        self.durability.unflushed.push(request.offset_bytes - self.range.offset_bytes);
        self.done_bytes += request.len_bytes();
        (self.progress)(self.done_bytes);
        Ok(())
    }

    fn is_over(&self, _now: Instant) -> bool {
        let is_durable = self.durability.unflushed.is_empty() && self.durability.flushing.is_none();
        (self.done_bytes == self.range.len_bytes && is_durable) || self.failure.is_some()
    }

    /// The outstanding flush is issued again, but the blocks it covered may be lost.
    fn reconnected(&mut self) {
        let lost = self.durability.flushing.iter_mut().flat_map(|blocks| blocks.drain(..));
        let lost: Vec<u64> = lost.chain(self.durability.unflushed.drain(..)).collect();
        let lost_bytes = lost.iter().map(|&at| self.len_at(at)).sum::<u64>();
        self.done_bytes -= lost_bytes;
        if lost_bytes > 0 {
            self.durability.flush_every_bytes =
                (lost_bytes / 2).clamp(self.block_bytes.into(), FLUSH_EVERY_BYTES);
        }
        self.durability.again.extend(lost);
    }

    fn resume_at(&self) -> Option<Instant> {
        self.is_starved.then(|| self.now + LOOK_AGAIN)
    }
}

/// A block of a file, and its offset there.
type Block = (u64, Buffer);

/// Starts a thread that reads the blocks at `offsets` of a range of a file that begins with the file.
fn read_ahead(
    file: &Arc<File>,
    buffers: &Buffers,
    range_bytes: u64,
    block_bytes: u32,
    offsets: impl Iterator<Item = u64> + Send + 'static,
) -> io::Result<Receiver<io::Result<Block>>> {
    let (sender, blocks) = sync_channel(WAITING_BLOCKS);
    let (file, buffers) = (Arc::clone(file), buffers.clone());
    let read = move || {
        for at in offsets {
            let mut block = buffers.take(len_at(at, range_bytes, block_bytes) as usize);
            let result = file.read_exact_at(&mut block, at).map(|()| (at, block));
            let failed = result.is_err();
            if sender.send(result).is_err() || failed {
                return;
            }
        }
    };
    std::thread::Builder::new().name("file-reader".to_owned()).spawn(read)?;
    Ok(blocks)
}

/// Length of the block at an offset: the last one may be shorter.
fn len_at(at: u64, range_bytes: u64, block_bytes: u32) -> u64 {
    (range_bytes - at).min(block_bytes.into())
}

/// Error of a transfer.
#[derive(Debug, thiserror::Error)]
pub enum BulkError {
    /// Error of the session.
    #[error(transparent)]
    Session(#[from] Error),
    /// Error of the file.
    #[error(transparent)]
    File(io::Error),
}

impl From<io::Error> for BulkError {
    fn from(error: io::Error) -> BulkError {
        BulkError::Session(Error::Io(error))
    }
}

fn taken(completed: Completed) -> Result<Request, Error> {
    let command = completed.request.name();
    completed.result.map_err(|failure| Error::Command { command, failure })?;
    Ok(completed.request)
}

#[cfg(test)]
mod tests;
