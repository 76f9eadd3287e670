//! The running path: the thread that moves packets and the thread that counts them.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use event::Direction;
use net::{Wake, clock};

use crate::forwarding::{Cost, Lane, Pump, Signals, Taps};
use crate::machine::{HostProcessors, Machine, Meter, Processors};
use crate::namespaces::{Drops, Host};
use crate::recording::{Collector, Connections, Traffic, Window};
use crate::{Spec, WanError};

/// A path that is being emulated. Dropped early, it stops.
pub(crate) struct Emulator {
    hosts: Vec<Arc<Host>>,
    window: Arc<Window>,
    signals: Arc<Signals>,
    stopped: Wake,
    threads: Option<(JoinHandle<std::io::Result<Cost>>, Collector)>,
    drops_before: Drops,
    drops: Drops,
    /// Namespaces that are the run's alone.
    inodes: Vec<u64>,
    processors: Processors,
    meter: Option<Meter>,
    machine: Option<Machine>,
    _restriction: HostProcessors,
}

/// Result of an emulation.
#[derive(Debug)]
pub(crate) struct Emulated {
    /// Packets that arrived while COMMAND ran, and their fates.
    pub(crate) traffic: Traffic,
    /// Packets that the devices dropped before the path saw them.
    pub(crate) drops: Drops,
    /// Load of this machine meanwhile; `None` if the kernel does not report it.
    pub(crate) machine: Option<Machine>,
    /// CPU time of moving the packets.
    pub(crate) cost: Cost,
}

impl Emulator {
    /// Starts to move packets between the hosts of the two ends; writes the table `packets` into `trace`. From now on
    /// the calling thread and its children run on the processors of the hosts.
    pub(crate) fn start(
        spec: &Spec,
        near: &[Arc<Host>],
        far: &[Arc<Host>],
        trace: Option<&Path>,
        connections: Option<Arc<Connections>>,
        taps: Option<Taps>,
    ) -> Result<Emulator, WanError> {
        let window = Window::new();
        let failed = |source| WanError::System { what: "start a thread of the emulator", source };
        let own = near.iter().chain(far).filter(|host| host.own);
        let inodes = own.map(|host| host.namespace.inode()).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let signals = Signals::new().map_err(failed)?;
        let processors = Processors::of(spec).map_err(failed)?;
        let restriction = processors.leave_to_pump().map_err(failed)?;
        let (collector, [to_far, to_near]) = Collector::start(trace, window.clone(), connections)?;
        let out = Lane::new(Direction::NearToFar, [near, far], spec, to_far).map_err(failed)?;
        let back = Lane::new(Direction::FarToNear, [far, near], spec, to_near).map_err(failed)?;
        let pump =
            Pump::new([out, back], taps, signals.clone(), spec.drain_time(), &processors).map_err(failed)?;
        let stopped = Wake::new().map_err(failed)?;
        let stops = Stops(stopped.clone());
        let work = move || {
            let _stops = stops;
            pump.run()
        };
        let pump = thread::Builder::new().name("pump".to_owned()).spawn(work).map_err(failed)?;
        Ok(Emulator {
            hosts: [near, far].concat(),
            window,
            signals,
            stopped,
            threads: Some((pump, collector)),
            drops_before: Drops::default(),
            drops: Drops::default(),
            inodes,
            processors,
            meter: None,
            machine: None,
            _restriction: restriction,
        })
    }

    /// COMMAND starts: packets count from here.
    pub(crate) fn begin(&mut self) -> Result<(), WanError> {
        self.drops_before = self.device_drops()?;
        self.meter = Some(Meter::start(&self.inodes, &self.processors));
        let now = clock::now();
        self.window.begin(now);
        self.signals.begin(now);
        Ok(())
    }

    /// COMMAND has ended: packets count no longer.
    pub(crate) fn end(&mut self) -> Result<(), WanError> {
        self.window.end(clock::now());
        self.machine = self.meter.as_ref().and_then(|meter| meter.read(&self.inodes));
        self.drops = self.device_drops()? - self.drops_before;
        Ok(())
    }

    /// Stops the emulation and returns its result.
    pub(crate) fn finish(mut self) -> Result<Emulated, WanError> {
        self.signals.stop();
        let (pump, collector) = self.threads.take().expect("an emulator finishes once");
        let outcome = pump.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let cost = outcome.map_err(WanError::Stopped)?;
        Ok(Emulated { traffic: collector.finish()?, drops: self.drops, machine: self.machine, cost })
    }

    fn device_drops(&self) -> Result<Drops, WanError> {
        self.hosts.iter().try_fold(Drops::default(), |sum, host| Ok(sum + host.drops()?))
    }
}

impl AsFd for Emulator {
    /// Readable when no packet is moved any more.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stopped.as_fd()
    }
}

/// Signals the end of its thread when dropped, also after a panic.
struct Stops(Wake);

impl Drop for Stops {
    fn drop(&mut self) {
        self.0.wake();
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.signals.stop();
    }
}
