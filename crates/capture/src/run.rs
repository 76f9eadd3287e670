//! A capture of devices of this machine, from its begin to its end.

use std::os::fd::AsFd;
use std::time::Duration;

use event::Instant;
use net::stamps::Stamp;
use net::tap::{Condition, Counts, Device, Listening, Packet};
use net::{EndSignals, Events, Interest, Poll, clock, interface, wait};
use serde::Serialize;

use crate::filter::{Filter, Keep};
use crate::header::{self, Described};
use crate::outlet::{Destination, Kept, Outlet, WhenFull};
use crate::sources::{RETIRE, Sources, system_ns};
use crate::{CaptureError, Notices};

/// Interval of counting and reporting losses.
const LOOK: Duration = Duration::from_secs(1);
/// Packets taken in one turn.
const TURN: u64 = 4096;
/// Poll interval while packets of one device wait for those of another.
const HOLD: Duration = Duration::from_millis(10);
/// Time limit for the rest of the kernel's packets at the end.
const REST: Duration = Duration::from_secs(1);
const SIGNAL: u64 = u64::MAX;

/// Request for a capture.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Names of devices.
    pub devices: Vec<String>,
    /// Filter of the packets.
    pub filter: Filter,
    /// Part of each packet that is kept.
    pub keep: Keep,
    /// The stamps of network cards instead of the kernel's.
    pub hardware_stamps: bool,
    /// Memory of each device's ring.
    pub ring_bytes: usize,
    /// Ends after this time.
    pub time: Option<Duration>,
    /// Ends after so many packets.
    pub packets: Option<u64>,
    /// Destination of the packets.
    pub destination: Destination,
}

/// Counters of one device's packets.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Captured {
    /// Its name.
    pub name: String,
    /// Packets that passed the filter.
    pub accepted: u64,
    /// Packets passed on to a file or a recorder.
    pub packets: u64,
    /// Packets that the kernel's ring had no room for.
    pub dropped_kernel: u64,
    /// Packets that the queue before the file or the recorder had no room for.
    pub dropped_queue: u64,
    /// Packets that were left out because the network card had not stamped them, if it was to.
    pub unstamped: u64,
}

/// Result of a capture.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Outcome {
    /// Counters of its devices.
    pub interfaces: Vec<Captured>,
    /// Duration.
    pub seconds: f64,
    /// CPU time of this process, user and system.
    pub cpu_ns: u64,
    /// Result of keeping the packets.
    #[serde(flatten)]
    pub kept: Kept,
}

/// Progress of a running capture.
pub enum Progress<'a> {
    /// Capturing has begun: packets of the devices are recorded from now on.
    Ready,
    /// Counters up to now, once a second.
    Running(&'a [Captured]),
}

/// Captures until a signal arrives, or a limit is reached.
pub fn run(
    settings: &Settings,
    signals: &EndSignals,
    notices: Notices,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Outcome, CaptureError> {
    let begun = clock::now();
    let devices = settings.devices.iter().map(|name| open(name)).collect::<Result<Vec<_>, _>>()?;
    let snap_bytes = settings.keep.of(Some(HEADERS_MAX)) as u32;
    let described: Vec<Described> = devices.iter().map(describe).collect();
    let header = header::blocks("", &described, snap_bytes, settings.filter.text());
    let taps = devices.into_iter().map(|device| {
        let name = device.name().to_owned();
        let listening = Listening {
            ring_bytes: settings.ring_bytes,
            retire: RETIRE,
            filter: &settings.filter.program(device.link(), settings.keep),
            hardware_stamps: settings.hardware_stamps,
        };
        device.listen(&listening).map_err(|source| CaptureError::Device { name, source })
    });
    let sources = Sources::new(taps.collect::<Result<_, _>>()?, !settings.hardware_stamps);
    let outlet =
        Outlet::start(&settings.destination, header, described.len(), WhenFull::Wait, notices.clone())?;
    let mut capture = Capture { sources, outlet, notices, taken: 0, last: Stamp(0) };
    progress(Progress::Ready);
    capture.run(settings, signals, begun, progress)?;
    capture.finish(begun, settings.packets.unwrap_or(u64::MAX))
}

/// The longest headers of Ethernet, IPv4 with options or IPv6, and TCP with options.
const HEADERS_MAX: usize = 14 + 60 + 60;

struct Capture {
    sources: Sources,
    outlet: Outlet,
    notices: Notices,
    taken: u64,
    /// Stamp of the packet that was taken last.
    last: Stamp,
}

impl Capture {
    fn run(
        &mut self,
        settings: &Settings,
        signals: &EndSignals,
        begun: Instant,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), CaptureError> {
        let poll = Poll::new()?;
        for (token, tap) in (0..).zip(self.sources.iter()) {
            poll.add(tap.as_fd(), token, Interest::READ)?;
        }
        poll.add(signals.as_fd(), SIGNAL, Interest::READ)?;
        let mut events = Events::new();
        let end = settings.time.map(|time| begun + time);
        let most = settings.packets.unwrap_or(u64::MAX);
        let mut look = begun + LOOK;
        loop {
            let taken = self.take(most, true);
            let now = clock::now();
            self.outlet.hand_on_if_due(now);
            if now >= look {
                look = now + LOOK;
                let captured = self.look(false)?;
                progress(Progress::Running(&captured));
            }
            let is_over = self.taken >= most || end.is_some_and(|end| now >= end) || !self.outlet.is_kept();
            if is_over || signals.came() {
                return Ok(());
            }
            if taken > 0 {
                continue;
            }
            if self.sources.is_holding() {
                wait::readable([signals.as_fd()], Some(HOLD))?;
                continue;
            }
            let until = end.map_or(look, |end| end.min(look)).since(now);
            // The received packets are passed on soon.
            poll.wait(&mut events, Some(until.min(RETIRE * 2)))?;
            if !self.are_there()? {
                return Ok(());
            }
        }
    }

    /// True if all devices are still there; reports changes.
    fn are_there(&self) -> Result<bool, CaptureError> {
        let mut are_there = true;
        for tap in self.sources.iter() {
            let name = tap.device().name();
            match tap.check()? {
                Condition::Same => {}
                Condition::Down => {
                    self.notices.say(&format!("{name} is down: nothing is heard there until it is up again"));
                }
                Condition::Gone => {
                    self.notices.say(&format!("{name} is gone: the capture ends"));
                    are_there = false;
                }
            }
        }
        Ok(are_there)
    }

    /// Takes the received packets, up to packet number `most`; returns their number.
    fn take(&mut self, most: u64, is_to_come: bool) -> u64 {
        let Capture { sources, outlet, taken, last, .. } = self;
        let count = sources.take(TURN.min(most - *taken), is_to_come, |interface, packet| {
            let Packet { stamp, len, bytes, vlan } = packet;
            *last = *stamp;
            match vlan {
                None => outlet.packet(interface, stamp.0, *len, &[bytes]),
                // The tag goes back to its place behind the two addresses.
                Some(tag) => {
                    let (addresses, rest) = bytes.split_at(bytes.len().min(12));
                    outlet.packet(interface, stamp.0, len + 4, &[addresses, tag, rest]);
                }
            }
        });
        *taken += count;
        count
    }

    /// Counts, and writes the counters into the file. At the end, packets in the rings count as lost.
    fn look(&mut self, is_end: bool) -> Result<Vec<Captured>, CaptureError> {
        let t_ns = system_ns().max(self.last.0);
        let mut captured = Vec::new();
        for (interface, tap) in self.sources.taps().iter_mut().enumerate() {
            let left = if is_end { tap.waiting()? } else { 0 };
            let Counts { packets: accepted, drops, unstamped } = tap.counts()?;
            let (drops, not_kept) = (drops + left, drops + left + unstamped);
            self.outlet.statistics(interface, t_ns, accepted, not_kept);
            let (packets, dropped_queue) = self.outlet.counts(interface);
            let name = tap.device().name().to_owned();
            captured.push(Captured {
                name,
                accepted,
                packets,
                dropped_kernel: drops,
                dropped_queue,
                unstamped,
            });
        }
        Ok(captured)
    }

    /// Takes the rest of the kernel's packets, and waits until everything is kept.
    fn finish(mut self, begun: Instant, most: u64) -> Result<Outcome, CaptureError> {
        let until = clock::now() + REST;
        for tap in self.sources.taps() {
            tap.close()?;
        }
        while clock::now() < until && self.outlet.is_kept() {
            while self.take(most, false) > 0 {}
            if self.taken >= most {
                break;
            }
            let mut waiting = 0;
            for tap in self.sources.taps() {
                waiting += tap.waiting()?;
            }
            if waiting == 0 {
                break;
            }
            std::thread::sleep(HOLD);
        }
        // Packets behind the last requested one are not missing.
        let mut interfaces = self.look(self.taken < most)?;
        let (kept, counts) = self.outlet.finish();
        for (captured, (packets, dropped_queue)) in interfaces.iter_mut().zip(counts) {
            *captured = Captured { packets, dropped_queue, ..std::mem::take(captured) };
        }
        let seconds = clock::now().since(begun).as_secs_f64();
        Ok(Outcome { interfaces, seconds, cpu_ns: clock::process_cpu_ns(), kept })
    }
}

fn open(name: &str) -> Result<Device, CaptureError> {
    Device::open(name).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => {
            CaptureError::NoDevice { name: name.to_owned(), there: interface::names().unwrap_or_default() }
        }
        std::io::ErrorKind::PermissionDenied => CaptureError::Denied { name: name.to_owned() },
        _ => CaptureError::Device { name: name.to_owned(), source },
    })
}

fn describe(device: &Device) -> Described {
    Described { name: device.name().to_owned(), description: "", link: device.link() }
}
