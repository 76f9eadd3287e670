//! Fates of packets: a thread that may be late counts them and writes the table `packets`.
//!
//! The directions send batches and never wait. If this thread falls too far behind, rows are lost; they are counted,
//! and the run is invalid.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use event::{Fate, Instant, Packet};
use hdrhistogram::Histogram;
use net::scheduling;
use tables::{TableError, Writer};

use super::connections::Connections;

const BATCH_ROWS: usize = 2048;
const BATCHES_WAITING: usize = 512;
/// Lateness is counted up to a minute, in steps of 0.1 %.
const LATENESS_MAX_NS: u64 = 60_000_000_000;
const LATENESS_DIGITS: u8 = 3;

/// Packets that arrived while COMMAND ran, and their fates.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    /// Packets as the devices delivered them, super-packets counted once.
    pub(crate) packets: u64,
    /// Packets in units of MTU size; so are the drops.
    pub(crate) segments: u64,
    /// Dropped by the model on a full queue.
    pub(crate) queue_full: u64,
    /// Lost by the model on the line.
    pub(crate) lost: u64,
    /// Dropped by a policer.
    pub(crate) policed: u64,
    /// Dropped during an outage.
    pub(crate) line_down: u64,
    /// Delivered a second time.
    pub(crate) duplicated: u64,
    /// Dropped by the emulator for lack of memory.
    pub(crate) no_buffer: u64,
    /// Refused by the receiving device.
    pub(crate) device_refused: u64,
    /// Rows of the table that were lost.
    pub(crate) lost_rows: u64,
    /// Actual minus scheduled delivery, plus the uncertainty of the arrival.
    pub(crate) lateness: Histogram<u64>,
}

/// Interval in which COMMAND runs. Both instants are set once, by the thread that runs it.
#[derive(Debug)]
pub(crate) struct Window {
    begin_ns: AtomicU64,
    end_ns: AtomicU64,
}

/// A direction's sender to the collector.
pub(crate) struct Feed {
    is_traced: bool,
    rows: Vec<Packet>,
    batches: SyncSender<Vec<Packet>>,
    lost_rows: Arc<AtomicU64>,
}

/// The collecting thread.
pub(crate) struct Collector {
    thread: JoinHandle<Result<Traffic, TableError>>,
}

impl Window {
    /// A window that has not begun.
    pub(crate) fn new() -> Arc<Window> {
        Arc::new(Window { begin_ns: AtomicU64::new(u64::MAX), end_ns: AtomicU64::new(u64::MAX) })
    }

    pub(crate) fn begin(&self, now: Instant) {
        self.begin_ns.store(now.as_nanos(), Ordering::Release);
    }

    pub(crate) fn end(&self, now: Instant) {
        self.end_ns.store(now.as_nanos(), Ordering::Release);
    }

    /// Rows arrive here after the packet came, so a bound that is not set yet is one the packet is before.
    fn holds(&self, t: Instant) -> bool {
        let t = t.as_nanos();
        self.begin_ns.load(Ordering::Acquire) <= t && t <= self.end_ns.load(Ordering::Acquire)
    }
}

impl Feed {
    /// True if rows go to a table; otherwise packets are only counted.
    pub(crate) const fn is_traced(&self) -> bool {
        self.is_traced
    }

    /// Takes one row; hands a full batch on.
    pub(crate) fn record(&mut self, row: Packet) {
        self.rows.push(row);
        if self.rows.len() == BATCH_ROWS {
            let batch = std::mem::replace(&mut self.rows, Vec::with_capacity(BATCH_ROWS));
            if self.batches.try_send(batch).is_err() {
                self.lost_rows.fetch_add(BATCH_ROWS as u64, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for Feed {
    /// Sends the last rows. The direction has ended and may wait now.
    fn drop(&mut self) {
        // A collector that has met an error has hung up, and reports that error itself.
        let _ = self.batches.send(std::mem::take(&mut self.rows));
    }
}

impl Collector {
    /// Starts the thread, with a table in `trace` if there is one; `connections` collects the TCP connections. The
    /// feeds are for the two directions.
    pub(crate) fn start(
        trace: Option<&Path>,
        window: Arc<Window>,
        connections: Option<Arc<Connections>>,
    ) -> Result<(Collector, [Feed; 2]), TableError> {
        let mut table = trace.map(|dir| Writer::<Packet>::create(dir.join("packets.parquet"))).transpose()?;
        let (batches, incoming) = sync_channel(BATCHES_WAITING);
        let lost_rows = Arc::new(AtomicU64::new(0));
        let is_traced = table.is_some();
        let feed = || Feed {
            is_traced,
            rows: Vec::with_capacity(BATCH_ROWS),
            batches: batches.clone(),
            lost_rows: lost_rows.clone(),
        };
        let feeds = [feed(), feed()];
        let lost = lost_rows.clone();
        let thread = std::thread::spawn(move || {
            // Without the right to step back it competes with the commands; the directions come first anyway.
            let _ = scheduling::background();
            let mut traffic = Traffic::none();
            collect(&incoming, &window, &mut traffic, table.as_mut(), connections.as_deref())?;
            if let Some(table) = table {
                table.finish()?;
            }
            traffic.lost_rows = lost.load(Ordering::Relaxed);
            Ok(traffic)
        });
        Ok((Collector { thread }, feeds))
    }

    /// Waits for the last rows; both feeds must be gone.
    pub(crate) fn finish(self) -> Result<Traffic, TableError> {
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn collect(
    incoming: &Receiver<Vec<Packet>>,
    window: &Window,
    traffic: &mut Traffic,
    mut table: Option<&mut Writer<Packet>>,
    connections: Option<&Connections>,
) -> Result<(), TableError> {
    for batch in incoming {
        if let Some(connections) = connections {
            connections.learn(&batch);
        }
        for packet in &batch {
            if let Some(table) = &mut table {
                table.push(packet)?;
            }
            if window.holds(packet.ingress) {
                traffic.add(packet);
            }
        }
    }
    Ok(())
}

impl Traffic {
    pub(crate) fn none() -> Traffic {
        let lateness = Histogram::new_with_max(LATENESS_MAX_NS, LATENESS_DIGITS);
        Traffic {
            packets: 0,
            segments: 0,
            queue_full: 0,
            lost: 0,
            policed: 0,
            line_down: 0,
            duplicated: 0,
            no_buffer: 0,
            device_refused: 0,
            lost_rows: 0,
            lateness: lateness.expect("the bounds are those of a histogram"),
        }
    }

    pub(crate) fn add(&mut self, packet: &Packet) {
        let segments = u64::from(packet.segments);
        if packet.fate != Fate::Duplicate {
            self.packets += 1;
            self.segments += segments;
        }
        match packet.fate {
            Fate::Delivered => {
                let late = packet.egress.since(packet.scheduled).as_nanos() as u64;
                self.lateness.saturating_record(late + packet.unseen_ns);
            }
            Fate::Duplicate => self.duplicated += segments,
            Fate::Lost => self.lost += segments,
            Fate::Policed => self.policed += segments,
            Fate::LineDown => self.line_down += segments,
            Fate::QueueFull => self.queue_full += segments,
            Fate::NoBuffer => self.no_buffer += segments,
            Fate::DeviceRefused => self.device_refused += segments,
            // Of captures only.
            Fate::Seen => {}
        }
    }
}
