//! Trace records of one CPU: perf events with a memory-mapped ring of samples (linux/perf_event.h, perf_event_open(2)).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::syscall::check;

// linux/perf_event.h
const PERF_TYPE_TRACEPOINT: u32 = 2;
const PERF_SAMPLE_TIME: u64 = 1 << 2;
const PERF_SAMPLE_RAW: u64 = 1 << 10;
const FLAG_WATERMARK: u64 = 1 << 14;
const FLAG_USE_CLOCKID: u64 = 1 << 25;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
const PERF_EVENT_IOC_SET_OUTPUT: libc::c_ulong = 0x2405;
const PERF_RECORD_LOST: u32 = 2;
const PERF_RECORD_SAMPLE: u32 = 9;
/// Offsets of data_head and data_tail in the first page.
const HEAD_AT: usize = 1024;
const TAIL_AT: usize = 1032;
const HEADER_BYTES: usize = 8;

/// Size of the ring: twenty thousand TCP records, as many as 10 Gb/s generates in a quarter of a second.
const RING_BYTES: usize = 4 << 20;

/// struct perf_event_attr as of PERF_ATTR_SIZE_VER5.
#[repr(C)]
#[derive(Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_watermark: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

/// The ring of one CPU.
#[derive(Debug)]
pub(super) struct Ring {
    map: NonNull<u8>,
    map_bytes: usize,
    page_bytes: usize,
    /// Event descriptors: the first has the ring, the others write into it.
    events: Vec<OwnedFd>,
    /// Buffer for a contiguous record.
    record: Vec<u8>,
}

// SAFETY: the memory belongs to this ring alone, and only one thread at a time has it.
unsafe impl Send for Ring {}

impl Ring {
    /// Samples all events with these numbers on the CPU `processor`.
    pub(super) fn open(processor: u32, ids: &[u16]) -> io::Result<Ring> {
        let mut events = Vec::new();
        for id in ids {
            events.push(open(processor, *id)?);
        }
        // SAFETY: no pointers are passed.
        let page_bytes = check(unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as libc::c_int)? as usize;
        let map_bytes = page_bytes + RING_BYTES;
        let first = events[0].as_raw_fd();
        // SAFETY: a new mapping of the event's memory, at any address.
        let map = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), map_bytes, access, libc::MAP_SHARED, first, 0)
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let map = NonNull::new(map.cast()).expect("a mapping is nowhere but at zero only if asked for");
        let ring = Ring { map, map_bytes, page_bytes, events, record: Vec::new() };
        for event in &ring.events[1..] {
            // SAFETY: no pointers are passed.
            check(unsafe { libc::ioctl(event.as_raw_fd(), PERF_EVENT_IOC_SET_OUTPUT as _, first) })?;
        }
        Ok(ring)
    }

    /// Passes the pending samples to `take`, with their time on CLOCK_MONOTONIC; returns the number of lost samples.
    pub(super) fn read(&mut self, mut take: impl FnMut(u64, &[u8])) -> u64 {
        let mut lost = 0;
        let head = self.position(HEAD_AT).load(Ordering::Acquire);
        let mut tail = self.position(TAIL_AT).load(Ordering::Relaxed);
        while tail < head {
            let mut header = [0; HEADER_BYTES];
            self.copy(tail, &mut header);
            let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
            let (kind, size) = (word(&header) as u32, usize::from((word(&header) >> 48) as u16));
            if size < HEADER_BYTES {
                break;
            }
            let mut record = std::mem::take(&mut self.record);
            record.resize(size - HEADER_BYTES, 0);
            self.copy(tail + HEADER_BYTES as u64, &mut record);
            match (kind, record.len()) {
                // Time, length of the event's record, record.
                (PERF_RECORD_SAMPLE, 12..) => take(word(&record[..8]), &record[12..]),
                // Number of the event, number of losses.
                (PERF_RECORD_LOST, 16..) => lost += word(&record[8..16]),
                _ => {}
            }
            self.record = record;
            tail += size as u64;
        }
        self.position(TAIL_AT).store(head, Ordering::Release);
        lost
    }

    fn position(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the first page of the mapping has an aligned 64-bit number there, which both sides access as one.
        unsafe { AtomicU64::from_ptr(self.map.as_ptr().add(at).cast()) }
    }

    /// Copies bytes from `position`, which continues beyond the end of the ring.
    fn copy(&self, position: u64, to: &mut [u8]) {
        let begin = (position % RING_BYTES as u64) as usize;
        let first = to.len().min(RING_BYTES - begin);
        // SAFETY: the ring lies behind the first page and is RING_BYTES long; the kernel does not write between tail
        // and head until the tail has moved.
        unsafe {
            let ring = self.map.as_ptr().add(self.page_bytes);
            ring.add(begin).copy_to_nonoverlapping(to.as_mut_ptr(), first);
            ring.copy_to_nonoverlapping(to.as_mut_ptr().add(first), to.len() - first);
        }
    }
}

impl AsFd for Ring {
    /// Becomes readable when the ring is half full.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events[0].as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it any more.
        unsafe { libc::munmap(self.map.as_ptr().cast(), self.map_bytes) };
    }
}

fn open(processor: u32, id: u16) -> io::Result<OwnedFd> {
    let attr = Attr {
        kind: PERF_TYPE_TRACEPOINT,
        size: size_of::<Attr>() as u32,
        config: u64::from(id),
        sample_period: 1,
        sample_type: PERF_SAMPLE_TIME | PERF_SAMPLE_RAW,
        flags: FLAG_WATERMARK | FLAG_USE_CLOCKID,
        wakeup_watermark: RING_BYTES as u32 / 2,
        clockid: libc::CLOCK_MONOTONIC,
        ..Attr::default()
    };
    let (anybody, no_group) = (-1, -1);
    // SAFETY: `attr` says its size and lives until the call returns.
    let raw = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            anybody,
            processor as libc::c_int,
            no_group,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    let raw = check(raw as libc::c_int)?;
    // SAFETY: the kernel has just returned this descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}
