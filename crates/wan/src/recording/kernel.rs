//! The table `kernel`: tracepoints of the kernel on the connections of the path.
//!
//! A thread of its own reads the tracepoints; the path and the commands never wait for it. Its setup in the kernel
//! ends with this process.

use std::collections::HashMap;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use event::{CongestionState, Instant, KernelEvent, KernelPoint, Op};
use net::tracing::{BlockKind, Happened, Point, Tracer};
use net::{Events, Interest, Poll, Wake, scheduling};
use serde::Serialize;
use tables::Writer;

use super::connections::{Connection, Connections, Known};
use crate::{HostName, Side, Spec, WanError};

/// Interval between reads of the rings, unless one is half full before.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Rows that wait until their connection is known to be of this path: after some thousand packets, or at the end.
const WAITING_MAX: usize = 1 << 20;
const RING: u64 = 0;
const STOP: u64 = 1;

/// Extent of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct KernelTraced {
    /// Rows of the table.
    pub rows: u64,
    /// Events of the whole machine that were not seen, because a ring was full.
    pub lost_events: u64,
    /// Events that were not recorded, because the path has carried no packet of their connections: they are those of
    /// another path, or of this one before it has carried a few.
    pub unclaimed_events: u64,
}

/// The recording thread. Dropped early, it stops by itself and leaves a `.partial` file.
pub(crate) struct KernelTrace {
    connections: Arc<Connections>,
    stop: Wake,
    thread: Option<JoinHandle<Result<KernelTraced, WanError>>>,
}

impl KernelTrace {
    /// Starts to record the connections of the hosts of `spec` into `dir`.
    pub(crate) fn start(spec: &Spec, dir: &Path) -> Result<KernelTrace, WanError> {
        let tracer = Tracer::start().map_err(WanError::Tracing)?;
        let writer = Writer::<KernelPoint>::create(dir.join("kernel.parquet"))?;
        let failed = |source| WanError::System { what: "wait for the kernel's tracepoints", source };
        let (poll, stop) = (Poll::new().map_err(failed)?, Wake::new().map_err(failed)?);
        for ring in tracer.descriptors() {
            poll.add(ring, RING, Interest::READ).map_err(failed)?;
        }
        poll.add(stop.as_fd(), STOP, Interest::READ).map_err(failed)?;
        let connections = Arc::new(Connections::default());
        let recording = Recording {
            tracer,
            names: addresses(spec),
            connections: connections.clone(),
            writer,
            waiting: Vec::new(),
            known: Known::default(),
            dropped: 0,
        };
        let work = move || {
            // Without the right to step back it competes with the commands.
            let _ = scheduling::background();
            recording.run(&poll)
        };
        let thread = thread::Builder::new().name("kernel".to_owned()).spawn(work).map_err(failed)?;
        Ok(KernelTrace { connections, stop, thread: Some(thread) })
    }

    /// The connections of the path, for the collector to fill.
    pub(crate) fn connections(&self) -> Arc<Connections> {
        self.connections.clone()
    }

    /// Reads the rest and closes the table. All connections of the path must be known by now.
    pub(crate) fn finish(mut self) -> Result<KernelTraced, WanError> {
        self.stop.wake();
        let thread = self.thread.take().expect("a recording finishes once");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for KernelTrace {
    fn drop(&mut self) {
        self.stop.wake();
    }
}

struct Recording {
    tracer: Tracer,
    names: HashMap<IpAddr, HostName>,
    connections: Arc<Connections>,
    writer: Writer<KernelPoint>,
    /// Rows of connections that may belong to another path, and the connections that they were compared with.
    waiting: Vec<KernelPoint>,
    known: Known,
    dropped: u64,
}

impl Recording {
    fn run(mut self, poll: &Poll) -> Result<KernelTraced, WanError> {
        let mut events = Events::new();
        let mut is_over = false;
        while !is_over {
            let failed = |source| WanError::System { what: "wait for the kernel's tracepoints", source };
            poll.wait(&mut events, Some(LOOK_EVERY)).map_err(failed)?;
            is_over = events.iter().any(|ready| ready.token == STOP);
            let Recording { tracer, names, connections, writer, waiting, known, dropped } = &mut self;
            let compared = waiting.len();
            tracer.read(|t, point| waiting.extend(row(names, t, &point)));
            let first = if connections.update(known) { 0 } else { compared };
            let mut rows = known.claim(waiting, first, connection_of);
            // The rings are one processor's each.
            rows.sort_by_key(|row| row.t);
            for row in &rows {
                writer.push(row)?;
            }
            let excess = waiting.len().saturating_sub(WAITING_MAX);
            waiting.drain(..excess);
            *dropped += excess as u64;
        }
        Ok(KernelTraced {
            rows: self.writer.finish()?,
            lost_events: self.tracer.lost(),
            unclaimed_events: self.dropped + self.waiting.len() as u64,
        })
    }
}

/// Hosts by address.
fn addresses(spec: &Spec) -> HashMap<IpAddr, HostName> {
    let names = [Side::Near, Side::Far].into_iter().flat_map(|side| spec.hosts(side));
    names.flat_map(|name| [(name.ipv4().into(), name), (name.ipv6().into(), name)]).collect()
}

/// Row of an event, if it concerns the path or a block device.
fn row(names: &HashMap<IpAddr, HostName>, t: Instant, point: &Point) -> Option<KernelPoint> {
    Some(match point {
        Point::Tcp(tcp) => {
            let (name, peer) = (names.get(&tcp.local.ip())?, names.get(&tcp.remote.ip())?);
            let host = match name.side() {
                Side::Near => event::Host::Near,
                Side::Far => event::Host::Far,
            };
            KernelPoint {
                host: Some(host),
                host_number: name.number(),
                peer_number: peer.number(),
                local_port: tcp.local.port(),
                remote_port: tcp.remote.port(),
                cwnd_packets: tcp.cwnd_packets,
                ssthresh_packets: tcp.ssthresh_packets,
                srtt_ns: u64::from(tcp.srtt_us) * 1000,
                snd_wnd_bytes: tcp.snd_wnd_bytes,
                rcv_wnd_bytes: tcp.rcv_wnd_bytes,
                snd_nxt: tcp.snd_nxt,
                snd_una: tcp.snd_una,
                data_bytes: tcp.data_bytes,
                state: (tcp.happened == Happened::State).then(|| CongestionState::from_kernel(tcp.state)),
                ..KernelPoint::new(t, event_of(tcp.happened))
            }
        }
        Point::Block(block) => KernelPoint {
            device: block.device,
            op: op_of(block.kind),
            offset_bytes: block.offset_bytes,
            len_bytes: block.len_bytes,
            ..KernelPoint::new(t, event_of(block.happened))
        },
    })
}

/// The connection that a row is of; `None` for block devices.
fn connection_of(row: &KernelPoint) -> Option<Connection> {
    let (local, remote) = ((row.host_number, row.local_port), (row.peer_number, row.remote_port));
    Some(match row.host? {
        event::Host::Near => Connection { near: local, far: remote },
        event::Host::Far => Connection { near: remote, far: local },
    })
}

fn op_of(kind: BlockKind) -> Option<Op> {
    match kind {
        BlockKind::Read => Some(Op::Read),
        BlockKind::Write => Some(Op::Write),
        BlockKind::Other => None,
    }
}

fn event_of(happened: Happened) -> KernelEvent {
    match happened {
        Happened::Received => KernelEvent::Received,
        Happened::State => KernelEvent::State,
        Happened::Retransmitted => KernelEvent::Retransmitted,
        Happened::BlockIssued => KernelEvent::BlockIssued,
        Happened::BlockCompleted => KernelEvent::BlockCompleted,
    }
}
