//! Relief: a second thread that empties short rings while the thread that moves packets is stalled.
//!
//! A network card sends from its ring independent of the host's processors. Here a thread empties the ring. If a
//! hypervisor takes its processor away for 4 ms, a ring of 80 packets overflows at 1 Gb/s within one: congestion that
//! no card has. So a second thread, on one of the hosts' processors, checks periodically that the first one polls. If
//! not, it reads at the rate of the wire and buffers the packets with the times at which they left the ring. It
//! delivers nothing: packets that cross the path then are late, and count as such.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use event::Instant;
use net::tun::{Cut, HEADER_BYTES, MAX_BYTES};
use net::{Wake, clock, scheduling, wait};

use super::ring::Ring;
use super::share::PRIORITY;
use crate::namespaces::Host;

/// Time without a poll after which the first thread counts as stalled.
const STILL_AFTER: Duration = Duration::from_micros(200);
/// Checks per fill time of a ring, and their shortest interval.
const LOOKS: u32 = 8;
const LOOK_MIN: Duration = Duration::from_micros(100);
/// Longer rings outlast the usual stalls.
const RING_MAX: Duration = Duration::from_millis(20);
/// Size of the relief buffer: 20 ms at 1 Gb/s.
const RELIEF_BUFFER_BYTES: usize = 2 << 20;

/// Input of a ring.
pub(crate) trait Source {
    /// Reads one with its header into `buffer`, which has [`MAX_BYTES`]; `None` if none waits.
    fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>>;
}

impl Source for Arc<Host> {
    fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.device.read(buffer)
    }
}

/// The rings of a direction, shared by both threads.
pub(crate) struct Rings<S = Arc<Host>> {
    sources: Vec<S>,
    inner: Mutex<Inner>,
    /// True if the relief buffer has packets.
    has_buffered: AtomicBool,
}

pub(crate) struct Inner {
    pub(crate) rings: Vec<Ring>,
    buffer: ReliefBuffer,
}

/// Relief buffer: packets that have left a ring and were not given to the model.
#[derive(Default)]
struct ReliefBuffer {
    bytes: Vec<u8>,
    packets: VecDeque<Taken>,
}

/// One of them.
pub(crate) struct Taken {
    pub(crate) at: Instant,
    /// Number of the host that sent it.
    pub(crate) from: usize,
    /// Uncertainty of `at`: time since the ring was last polled.
    pub(crate) unseen_ns: u64,
    place: Range<usize>,
}

/// Liveness signal of the thread that moves packets.
#[derive(Default)]
pub(crate) struct Liveness {
    /// Time of its next poll, at the latest.
    until_ns: AtomicU64,
}

impl<S: Source> Rings<S> {
    /// The rings of these hosts.
    pub(crate) fn new(sources: Vec<S>, rings: Vec<Ring>) -> Rings<S> {
        let inner = Inner { rings, buffer: ReliefBuffer::default() };
        Rings { sources, inner: Mutex::new(inner), has_buffered: AtomicBool::new(false) }
    }

    /// Locks the rings. Both threads hold the lock for one packet at a time.
    pub(crate) fn hold(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the relief buffer has packets: they come before any that is read now.
    pub(crate) fn has_buffered(&self) -> bool {
        self.has_buffered.load(Ordering::Acquire)
    }

    /// The next packet of the relief buffer, copied into `room`, with its length.
    pub(crate) fn take(&self, room: &mut [u8]) -> Option<(Taken, usize)> {
        let buffer = &mut self.hold().buffer;
        let Some(taken) = buffer.packets.pop_front() else {
            buffer.bytes.clear();
            self.has_buffered.store(false, Ordering::Release);
            return None;
        };
        let bytes = &buffer.bytes[taken.place.clone()];
        room[..bytes.len()].copy_from_slice(bytes);
        let len = bytes.len();
        Some((taken, len))
    }

    /// Reads the packets that each wire has room for at `now`; `looked` is the time of the last poll.
    fn relieve(&self, now: Instant, looked: Instant) {
        for from in 0..self.sources.len() {
            while self.relieve_one(from, now, looked) {}
        }
    }

    fn relieve_one(&self, from: usize, now: Instant, looked: Instant) -> bool {
        // A lock that is taken means that the other thread works.
        let Ok(mut inner) = self.inner.try_lock() else { return false };
        let Inner { rings, buffer } = &mut *inner;
        let ring = &mut rings[from];
        let looked = looked.max(ring.wants_at());
        if ring.is_closed(now, None) || buffer.bytes.len() + MAX_BYTES > RELIEF_BUFFER_BYTES {
            return false;
        }
        let at = buffer.bytes.len();
        buffer.bytes.resize(at + MAX_BYTES, 0);
        // An error is met by the thread that reads otherwise, and ends the run there.
        let bytes = self.sources[from].read(&mut buffer.bytes[at..]).ok().flatten().unwrap_or(0);
        buffer.bytes.truncate(at + bytes);
        if bytes == 0 {
            return false;
        }
        let packet = &buffer.bytes[at..];
        let cut = Cut::of(packet);
        let wire_bytes = link::wire_bytes((bytes - HEADER_BYTES) as u32, cut.segments, cut.header_bytes);
        ring.takes(looked, wire_bytes.into());
        let unseen_ns = now.since(looked).as_nanos() as u64;
        buffer.packets.push_back(Taken { at: now, from, unseen_ns, place: at..at + bytes });
        self.has_buffered.store(true, Ordering::Release);
        true
    }
}

impl Liveness {
    /// Announces the next poll, at `until` at the latest.
    pub(crate) fn show(&self, until: Instant) {
        self.until_ns.store(until.as_nanos(), Ordering::Release);
    }

    fn until(&self) -> Instant {
        Instant::from_nanos(self.until_ns.load(Ordering::Acquire))
    }
}

/// The relief thread; it ends when this is dropped.
pub(crate) struct Relief {
    thread: Option<JoinHandle<()>>,
    over: Wake,
}

impl Relief {
    /// Starts it on `cpu`, if rings that are filled in `ring` need it.
    pub(crate) fn start(
        ring: Duration,
        rings: Vec<Arc<Rings>>,
        liveness: Arc<Liveness>,
        cpu: usize,
    ) -> io::Result<Option<Relief>> {
        if ring > RING_MAX {
            return Ok(None);
        }
        let over = Wake::new()?;
        let stopped = over.clone();
        let period = (ring / LOOKS).max(LOOK_MIN);
        let work = move || {
            look_after(&rings, &liveness, cpu, || {
                wait::readable([stopped.as_fd()], Some(period)).is_ok_and(|[is_over]| !is_over)
            });
        };
        let thread = thread::Builder::new().name("relief".to_owned()).spawn(work)?;
        Ok(Some(Relief { thread: Some(thread), over }))
    }
}

impl Drop for Relief {
    fn drop(&mut self) {
        self.over.wake();
        // The thread returns nothing.
        self.thread.take().map(JoinHandle::join);
    }
}

/// Work of the relief thread on its processor while `pause` returns true. It runs at real-time priority there: if all
/// processors were away, a sender that is back does not come before it.
fn look_after(rings: &[Arc<Rings>], liveness: &Liveness, cpu: usize, pause: impl Fn() -> bool) {
    // Where it may not, it is late as well now and then, and helps less.
    let _ = scheduling::keep_to(&[cpu]);
    let _ = scheduling::realtime(PRIORITY);
    let _ = scheduling::exact_timers();
    let mut looked = Instant::ZERO;
    while pause() {
        let now = clock::now();
        let until = liveness.until();
        if now >= until + STILL_AFTER {
            rings.iter().for_each(|rings| rings.relieve(now, looked.max(until)));
            looked = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::forwarding::ring::tests::{PACKET, RATE, ring};
    use crate::forwarding::super_packet;

    /// A device that never runs out of packets of MTU size.
    struct Endless(Cell<u32>);

    impl Source for Endless {
        fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
            let mut packet = super_packet(1448);
            packet[..2].copy_from_slice(&[1, 0]);
            let number = self.0.replace(self.0.get() + 1);
            packet[HEADER_BYTES + 24..][..4].copy_from_slice(&number.to_be_bytes());
            buffer[..packet.len()].copy_from_slice(&packet);
            Ok(Some(packet.len()))
        }
    }

    fn us(us: u64) -> Instant {
        Instant::from_nanos(10_000_000 + us * 1_000)
    }

    #[test]
    fn what_the_wire_has_room_for_is_put_aside_in_order_with_its_times() {
        let rings = Rings::new(vec![Endless(Cell::new(0))], vec![ring()]);
        assert!(!rings.has_buffered());
        // No poll since the beginning; for 2 ms the second thread reads.
        for at in (100..=2_100).step_by(100) {
            rings.relieve(us(at), us(0));
        }
        assert!(rings.has_buffered());
        let mut room = vec![0; MAX_BYTES];
        let mut taken = Vec::new();
        while let Some((packet, bytes)) = rings.take(&mut room) {
            assert_eq!((packet.from, bytes), (0, HEADER_BYTES + 1500));
            let number = room[HEADER_BYTES + 24..][..4].try_into().map(u32::from_be_bytes).unwrap();
            assert_eq!(number as usize, taken.len());
            taken.push((packet.at, packet.unseen_ns));
        }
        assert!(!rings.has_buffered());
        let wire = RATE.time_for(PACKET).as_nanos() as usize;
        let least = 2_100_000 / wire;
        assert!((least..least + 17).contains(&taken.len()), "{} of {least}", taken.len());
        assert!(taken.is_sorted_by_key(|(at, _)| *at));
        assert_eq!(taken[0], (us(100), 100_000), "the wire had nothing to do for so long");
        assert!(taken[40..].iter().all(|(_, unseen_ns)| *unseen_ns < 1_000), "{taken:?}");
    }

    #[test]
    fn memory_is_bounded() {
        let rings = Rings::new(vec![Endless(Cell::new(0))], vec![ring()]);
        (0..100_000).step_by(100).for_each(|at| rings.relieve(us(at), us(at)));
        let held = rings.hold();
        assert!(held.buffer.bytes.len() <= RELIEF_BUFFER_BYTES && held.buffer.packets.len() > 1_000);
    }
}
