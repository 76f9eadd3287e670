//! Outlet of the capturing thread: packets in batches, through a bounded queue, to the thread that keeps them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use event::Instant;
use net::clock;
use serde::Serialize;
use wire::pcap::write::Statistics;

use crate::batch::{Batch, FILE_BATCH_BYTES, MESSAGE_BATCH_BYTES};
use crate::files::{Files, Rotation};
use crate::queue::{Queue, Taken};
use crate::recorder::{Sender, Sent};
use crate::{CaptureError, Notices};

/// Longest time that packets wait in a batch before it is passed on.
const GATHERING: Duration = Duration::from_millis(200);
/// Longest sleep of the keeping thread.
const TURN: Duration = Duration::from_secs(1);

/// Destination of packets.
#[derive(Clone, Debug)]
pub enum Destination {
    /// In files of a directory, which is made if need be.
    Files {
        /// The directory.
        dir: PathBuf,
        /// Rotation of files.
        rotation: Rotation,
    },
    /// On another host, as HOST:PORT.
    Recorder(String),
}

/// Result of keeping the packets.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Kept {
    /// The files that are there, the oldest first.
    pub files: Vec<String>,
    /// Files that were removed to make room.
    pub removed_files: u64,
    /// Result of sending to a recorder.
    pub recorder: Option<Sent>,
    /// Reason of an early end; packets written before it are there.
    pub failure: Option<String>,
}

/// Reaction to a full queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WhenFull {
    /// Wait: new packets stay in the kernel's ring, and are counted there if that is full too.
    Wait,
    /// Leave packets out and count them.
    Drop,
}

/// The near side of the queue.
#[derive(Debug)]
pub struct Outlet {
    queue: Arc<Queue>,
    thread: JoinHandle<Kept>,
    when_full: WhenFull,
    batch_bytes: usize,
    batch: Batch,
    /// Time of the batch's first packet.
    begun: Option<Instant>,
    total: Arc<AtomicU64>,
    /// Packets of each interface that were passed on, and that were dropped.
    delivered: Vec<u64>,
    dropped: Vec<u64>,
}

impl Outlet {
    /// Begins the first file, or greets the recorder; then starts the thread.
    pub(crate) fn start(
        destination: &Destination,
        header: Vec<u8>,
        interfaces: usize,
        when_full: WhenFull,
        notices: Notices,
    ) -> Result<Outlet, CaptureError> {
        let batch_bytes = match destination {
            // A file is never longer than it may be, and nearly as long.
            Destination::Files { rotation, .. } => {
                let most = rotation.bytes.map_or(FILE_BATCH_BYTES, |bytes| (bytes / 8) as usize);
                most.clamp(MESSAGE_BATCH_BYTES, FILE_BATCH_BYTES)
            }
            Destination::Recorder(_) => MESSAGE_BATCH_BYTES,
        };
        let queue = Arc::new(Queue::new(batch_bytes));
        let total = Arc::new(AtomicU64::new(0));
        let (taken, counted) = (queue.clone(), total.clone());
        let work: Box<dyn FnOnce() -> Kept + Send> = match destination {
            Destination::Files { dir, rotation } => {
                let files = Files::create(dir, "capture", header, *rotation, clock::now())?;
                Box::new(move || {
                    let kept = keep(files, &taken);
                    taken.abandon();
                    kept
                })
            }
            Destination::Recorder(address) => {
                let sender = Sender::connect(address, header, notices)?;
                Box::new(move || {
                    let sent = sender.run(&taken, || counted.load(Ordering::Acquire));
                    Kept { recorder: Some(sent), ..Kept::default() }
                })
            }
        };
        // A recorder may be slow for ever.
        let when_full =
            if matches!(destination, Destination::Recorder(_)) { WhenFull::Drop } else { when_full };
        let thread = std::thread::Builder::new().name("keep".to_owned()).spawn(work)?;
        Ok(Outlet {
            queue,
            thread,
            when_full,
            batch_bytes,
            batch: Batch::new(interfaces, batch_bytes),
            begun: None,
            total,
            delivered: vec![0; interfaces],
            dropped: vec![0; interfaces],
        })
    }

    /// Adds a packet that had `len` bytes, of which `parts` are kept.
    #[inline]
    pub(crate) fn packet(&mut self, interface: usize, t_ns: u64, len: u32, parts: &[&[u8]]) {
        self.batch.packet(interface, t_ns, len, parts);
        if self.batch.is_full() {
            self.hand_on();
        }
    }

    /// Adds counters of an interface; the drops behind the kernel are added here.
    pub(crate) fn statistics(&mut self, interface: usize, t_ns: u64, accepted: u64, system_drops: u64) {
        let waiting = self.batch.per_interface()[interface];
        let delivered = self.delivered[interface] + waiting;
        let later_drops = self.dropped[interface];
        let statistics = Statistics { accepted, system_drops, later_drops, delivered };
        self.batch.statistics(interface, t_ns, &statistics);
    }

    /// Passes on a batch that is old enough.
    pub(crate) fn hand_on_if_due(&mut self, now: Instant) {
        if self.batch.is_empty() {
            return;
        }
        if now.since(*self.begun.get_or_insert(now)) >= GATHERING {
            self.hand_on();
        }
    }

    /// Packets of an interface that are passed on or in the batch, and that were dropped.
    pub(crate) fn counts(&self, interface: usize) -> (u64, u64) {
        (self.delivered[interface] + self.batch.per_interface()[interface], self.dropped[interface])
    }

    /// True while packets are kept; otherwise the result of [`Outlet::finish`] has the reason.
    pub(crate) fn is_kept(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Passes on the last packets and waits until they are kept.
    pub(crate) fn finish(mut self) -> (Kept, Vec<(u64, u64)>) {
        self.hand_on();
        self.queue.close();
        let kept = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (kept, self.delivered.into_iter().zip(self.dropped).collect())
    }

    fn hand_on(&mut self) {
        self.begun = None;
        let packets = self.batch.packets();
        let total = self.total.fetch_add(packets, Ordering::AcqRel) + packets;
        let fresh = || Batch::new(self.delivered.len(), self.batch_bytes);
        let empty = self.queue.spare().unwrap_or_else(fresh);
        let full = std::mem::replace(&mut self.batch, empty);
        self.batch.begin(total);
        let sums = |into: &mut Vec<u64>, batch: &[u64]| {
            into.iter_mut().zip(batch).for_each(|(sum, packets)| *sum += packets);
        };
        // Counted before it is gone, taken back if it is not.
        let per_interface = full.per_interface().to_vec();
        let outcome = match self.when_full {
            WhenFull::Wait => self.queue.put(full),
            WhenFull::Drop => self.queue.offer(full),
        };
        match outcome {
            Ok(()) => sums(&mut self.delivered, &per_interface),
            Err(back) => {
                sums(&mut self.dropped, &per_interface);
                self.queue.give_back(back);
            }
        }
    }
}

fn keep(mut files: Files, queue: &Queue) -> Kept {
    let failure = loop {
        match queue.take(TURN) {
            Taken::Batch(mut batch) => {
                if let padding @ 1.. = files.padding_behind(batch.bytes().len()) {
                    batch.pad(padding);
                }
                if let Err(error) = files.write(batch.bytes(), clock::now()) {
                    break Some(error.to_string());
                }
                queue.give_back(batch);
            }
            Taken::Nothing => {}
            Taken::Closed => break None,
        }
    };
    let paths = files.paths().map(|path| path.display().to_string()).collect();
    Kept { files: paths, removed_files: files.removed(), recorder: None, failure }
}
