//! A path without commands, with sockets of this process at both ends.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use event::{Instant, Packet};
use net::{clock, tcp};
use tables::Packets;
use tempfile::TempDir;

use crate::emulator::{Emulated, Emulator};
use crate::forwarding::Cost;
use crate::namespaces::Host;
use crate::recording::Traffic;
use crate::{HostName, Side, Spec, WanError};

/// A path that runs.
pub(super) struct Rig {
    near: Arc<Host>,
    far: Arc<Host>,
    emulator: Emulator,
    trace: TempDir,
    began: Instant,
}

/// Result of a measurement.
pub(super) struct Seen {
    pub(super) packets: Packets,
    pub(super) traffic: Traffic,
    pub(super) device_drops: u64,
    pub(super) cost: Cost,
    pub(super) others_busy: f64,
    pub(super) elapsed: Duration,
}

/// A TCP stream of bulk data from one side to the other. Dropped, it ends.
pub(super) struct Stream {
    received_bytes: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Of every stream; fills a queue that is no smaller than the path.
pub(super) const CONGESTION: &str = "cubic";
const STREAM_PORT: u16 = 5201;
const WRITE_BYTES: usize = 256 << 10;
const READ_BYTES: usize = 1 << 20;

impl Rig {
    pub(super) fn new(spec: &Spec) -> Result<Rig, WanError> {
        spec.check()?;
        let failed = |source| WanError::System { what: "make a temporary directory", source };
        let near = Arc::new(Host::create(Side::Near, spec)?);
        let far = Arc::new(Host::create(Side::Far, spec)?);
        let trace = TempDir::new().map_err(failed)?;
        let mut emulator =
            Emulator::start(spec, from_ref(&near), from_ref(&far), Some(trace.path()), None, None)?;
        emulator.begin()?;
        Ok(Rig { near, far, emulator, trace, began: clock::now() })
    }

    fn host(&self, side: Side) -> &Host {
        match side {
            Side::Near => &self.near,
            Side::Far => &self.far,
        }
    }

    /// A datagram socket at `side`, connected to `port` of the other side.
    pub(super) fn datagrams(&self, side: Side, port: u16) -> Result<UdpSocket, WanError> {
        let other = if side == Side::Near { Side::Far } else { Side::Near };
        let make = || {
            let socket = UdpSocket::bind((HostName::from(side).ipv4(), port))?;
            socket.connect((HostName::from(other).ipv4(), port))?;
            Ok(socket)
        };
        self.host(side).namespace.run(make).map_err(socket_failed)
    }

    /// Starts a stream from `from` to the other side, paced at `pace_bytes_per_s`, if given.
    pub(super) fn stream(&self, from: Side, pace_bytes_per_s: Option<u64>) -> Result<Stream, WanError> {
        let to = if from == Side::Near { Side::Far } else { Side::Near };
        let address = SocketAddr::from((HostName::from(to).ipv4(), STREAM_PORT));
        let listener = self.host(to).namespace.run(|| TcpListener::bind(address)).map_err(socket_failed)?;
        let connect = || {
            let stream = tcp::start_connect(address, Some(CONGESTION))?;
            if let Some(pace) = pace_bytes_per_s {
                tcp::set_max_pacing_rate(&stream, pace)?;
            }
            stream.set_nonblocking(false)?;
            Ok(stream)
        };
        let sender = self.host(from).namespace.run(connect).map_err(socket_failed)?;
        // It stands as soon as the other side has it.
        let (receiver, _) = listener.accept().map_err(socket_failed)?;
        Ok(Stream::start(sender, receiver))
    }

    /// Ends the path.
    pub(super) fn finish(mut self) -> Result<Seen, WanError> {
        self.emulator.end()?;
        let elapsed = clock::now().since(self.began);
        let Emulated { traffic, drops, machine, cost } = self.emulator.finish()?;
        let others_busy = machine.map_or(0.0, |machine| machine.others_busy);
        let device_drops = drops.ring + drops.unasked;
        let packets = tables::read::<Packet>(self.trace.path())?;
        Ok(Seen { packets, traffic, device_drops, cost, others_busy, elapsed })
    }
}

impl Stream {
    fn start(mut sender: TcpStream, mut receiver: TcpStream) -> Stream {
        use std::io::{Read, Write};
        let (received_bytes, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let sending = over.clone();
        let send = move || {
            let data = vec![0xa5; WRITE_BYTES];
            while !sending.load(Ordering::Relaxed) && sender.write_all(&data).is_ok() {}
        };
        let (counted, receiving) = (received_bytes.clone(), over.clone());
        let receive = move || {
            let mut data = vec![0; READ_BYTES];
            while !receiving.load(Ordering::Relaxed) {
                match receiver.read(&mut data) {
                    Ok(bytes @ 1..) => counted.fetch_add(bytes as u64, Ordering::Relaxed),
                    // Closed with data unread: the sender's next write fails, which ends it.
                    _ => return,
                };
            }
        };
        Stream { received_bytes, over, threads: vec![thread::spawn(send), thread::spawn(receive)] }
    }

    /// Bytes of payload that have arrived.
    pub(super) fn received_bytes(&self) -> u64 {
        self.received_bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    }
}

pub(super) fn socket_failed(source: io::Error) -> WanError {
    WanError::System { what: "use a socket on the path", source }
}
