//! Memory-mapped receive ring of a packet socket: no system call for a packet, and no limit by the socket buffer sizes
//! of unprivileged users.
//!
//! Version 2 of the rings in the kernel's Documentation/networking/packet_mmap.rst: frames of one size, several to a
//! block, each with a status word that names its owner.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::memory::mapping::Mapping;
use crate::syscall::check;

/// Size of a block, the kernel's unit of allocation.
const BLOCK_BYTES: usize = 1 << 20;
/// Space before a packet's first byte: struct tpacket2_hdr, an address, padding and the virtio header.
const ROOM_BEFORE_BYTES: usize = 128;
const ALIGNMENT_BYTES: usize = 16;
const TP_STATUS_KERNEL: u32 = 0;
const TP_STATUS_USER: u32 = 1;

/// Receive ring of one packet socket.
#[derive(Debug)]
pub(crate) struct PacketRing {
    memory: Mapping,
    blocks: usize,
    frames_per_block: usize,
    frame_bytes: usize,
    next: AtomicUsize,
}

/// A packet in the ring; its frame is returned to the kernel on drop.
pub(crate) struct Frame<'a> {
    start: NonNull<u8>,
    frame_bytes: usize,
    _ring: &'a PacketRing,
}

impl PacketRing {
    /// Sets up a ring for packets of at most `packet_max_bytes` for `socket`, which is not bound yet.
    pub(crate) fn new(
        socket: &OwnedFd,
        packet_max_bytes: usize,
        memory_bytes: usize,
    ) -> io::Result<PacketRing> {
        let frame_bytes = (ROOM_BEFORE_BYTES + packet_max_bytes).next_multiple_of(ALIGNMENT_BYTES);
        let frames_per_block = BLOCK_BYTES / frame_bytes;
        assert!(frames_per_block > 0, "a packet is much smaller than a block");
        let blocks = (memory_bytes / BLOCK_BYTES).max(1);
        let fd = socket.as_raw_fd();
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        set(fd, libc::PACKET_VERSION, &version)?;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: frame_bytes as u32,
            tp_frame_nr: (blocks * frames_per_block) as u32,
        };
        set(fd, libc::PACKET_RX_RING, &request)?;
        let memory = Mapping::new(socket.as_fd(), blocks * BLOCK_BYTES)?;
        Ok(PacketRing { memory, blocks, frames_per_block, frame_bytes, next: AtomicUsize::new(0) })
    }

    /// The next packet, if one has arrived.
    pub(crate) fn next(&self) -> Option<Frame<'_>> {
        let at = self.next.load(Ordering::Relaxed);
        let following = (at + 1) % (self.blocks * self.frames_per_block);
        let offset = at / self.frames_per_block * BLOCK_BYTES + at % self.frames_per_block * self.frame_bytes;
        let start = self.memory.at(offset);
        let frame = Frame { start, frame_bytes: self.frame_bytes, _ring: self };
        let has_come = frame.status().load(Ordering::Acquire) & TP_STATUS_USER != 0;
        // The thread that advances `next` atomically gets the frame; a concurrent thread gets none.
        let is_ours = has_come
            && self.next.compare_exchange(at, following, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if !is_ours {
            std::mem::forget(frame);
            return None;
        }
        Some(frame)
    }
}

impl Frame<'_> {
    /// The `header_bytes` before the packet, and the packet without its first `skip_bytes`; `None` if the packet did
    /// not fit into its frame.
    pub(crate) fn parts(&self, header_bytes: usize, skip_bytes: usize) -> Option<(&[u8], &[u8])> {
        // struct tpacket2_hdr: status, length, length that is there, and where the link-layer header begins
        let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| self.bytes()[at + byte]));
        let (len, there) = (word(4) as usize, word(8) as usize);
        let begin = usize::from(u16::from_ne_bytes([self.bytes()[12], self.bytes()[13]]));
        let header = self.bytes().get(begin.checked_sub(header_bytes)?..begin)?;
        let packet = self.bytes().get(begin + skip_bytes..begin.checked_add(there)?)?;
        (len == there).then_some((header, packet))
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the kernel has filled the frame and leaves it alone until its status says otherwise.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.frame_bytes) }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: a frame begins, aligned to 16 bytes, with this word, which both sides change atomically.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().cast()) }
    }
}

impl Drop for Frame<'_> {
    fn drop(&mut self) {
        self.status().store(TP_STATUS_KERNEL, Ordering::Release);
    }
}

/// Sets an option of the packet layer to a plain value of the type that the option reads.
pub(crate) fn set<T>(fd: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the callers pass the type that the option reads.
    check(unsafe { libc::setsockopt(fd, libc::SOL_PACKET, option, std::ptr::from_ref(value).cast(), len) })
        .map(|_| ())
}
