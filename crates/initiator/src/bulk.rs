//! Whole ranges between a LUN and a file: the workloads behind `farlun read` and `farlun write`. The
//! file is read ahead, or written behind, by a thread of its own, so that neither waits for the other.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use engine::{Buffer, Buffers};
use event::Instant;

use crate::disk::Geometry;
use crate::error::Error;
use crate::request::{Body, Completed, Request, Workload};

/// A stretch of a LUN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// Its first byte; a multiple of the block length.
    pub offset_bytes: u64,
    /// Its length; a multiple of the block length.
    pub len_bytes: u64,
}

/// Blocks that may wait for the file, or for the network.
const WAITING_BLOCKS: usize = 64;
/// How soon to look again when the file has nothing yet.
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
    /// Blocks that the writer has no room for: the loop must not wait for a disk.
    overflow: VecDeque<(u64, Buffer)>,
    now: Instant,
    progress: &'a mut dyn FnMut(u64),
}

impl<'a> ToFile<'a> {
    /// Starts the thread that writes `file`. `progress` is told the bytes that have come.
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

    /// Bytes that have come so far.
    pub fn done_bytes(&self) -> u64 {
        self.done_bytes
    }

    /// Gives the writer as many blocks as it has room for.
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
            Some(Err(_)) => Err(io::Error::other("the thread that writes the file panicked")),
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

    fn done(&mut self, completed: Completed) -> Result<(), BulkError> {
        let request = taken(completed)?;
        let Body::Read(block) = request.body else { unreachable!("only reads are issued") };
        self.done_bytes += block.len() as u64;
        let at = request.offset_bytes - self.range.offset_bytes;
        self.overflow.push_back((at, block));
        self.hand_over();
        if self.blocks.is_none() {
            // The writer has stopped, and joining it says why.
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

/// Writes a file, from its start, to a range.
pub struct FromFile<'a> {
    range: Range,
    geometry: Geometry,
    read_bytes: u64,
    done_bytes: u64,
    blocks: Receiver<io::Result<Buffer>>,
    is_starved: bool,
    failure: Option<io::Error>,
    now: Instant,
    progress: &'a mut dyn FnMut(u64),
}

impl<'a> FromFile<'a> {
    /// Starts the thread that reads `file`, which is as long as the range.
    pub fn new(
        range: Range,
        block_bytes: u32,
        geometry: Geometry,
        buffers: &Buffers,
        file: File,
        progress: &'a mut dyn FnMut(u64),
    ) -> io::Result<FromFile<'a>> {
        let (sender, blocks) = sync_channel(WAITING_BLOCKS);
        let buffers = buffers.clone();
        let read = move || {
            let mut at = 0;
            while at < range.len_bytes {
                let mut block = buffers.take((range.len_bytes - at).min(block_bytes.into()) as usize);
                let result = file.read_exact_at(&mut block, at).map(|()| block);
                let failed = result.is_err();
                at += u64::from(block_bytes);
                if sender.send(result).is_err() || failed {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("file-reader".to_owned()).spawn(read)?;
        Ok(FromFile {
            range,
            geometry,
            read_bytes: 0,
            done_bytes: 0,
            blocks,
            is_starved: false,
            failure: None,
            now: Instant::ZERO,
            progress,
        })
    }

    /// Bytes whose arrival the target has confirmed.
    pub fn done_bytes(&self) -> u64 {
        self.done_bytes
    }

    /// Why the file could not be read to its end.
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
        match self.blocks.try_recv() {
            Ok(Ok(block)) => {
                let offset = self.range.offset_bytes + self.read_bytes;
                self.read_bytes += block.len() as u64;
                Some(self.geometry.write(offset, Arc::new(block)))
            }
            Ok(Err(error)) => {
                self.failure = Some(error);
                None
            }
            Err(TryRecvError::Empty) => {
                self.is_starved = true;
                None
            }
            Err(TryRecvError::Disconnected) => None,
        }
    }

    fn done(&mut self, completed: Completed) -> Result<(), BulkError> {
        self.done_bytes += taken(completed)?.len_bytes();
        (self.progress)(self.done_bytes);
        Ok(())
    }

    fn is_over(&self, _now: Instant) -> bool {
        self.done_bytes == self.range.len_bytes || self.failure.is_some()
    }

    fn resume_at(&self) -> Option<Instant> {
        self.is_starved.then(|| self.now + LOOK_AGAIN)
    }
}

/// Why a range could not be moved.
#[derive(Debug, thiserror::Error)]
pub enum BulkError {
    /// The session's side of it.
    #[error(transparent)]
    Session(#[from] Error),
    /// The file's side of it.
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
