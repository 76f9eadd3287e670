//! Version 3 of the kernel's packet rings: blocks of packets of any length, each handed over as a whole.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::device::packet_ring::set;
use crate::memory::mapping::Mapping;
use crate::stamps::Stamp;

/// Size of a block. At 150 000 headers a second one fills in 38 ms, so that a wake-up for each costs little; the
/// longest packet fits in.
const BLOCK_BYTES: usize = 1 << 20;
/// Frame size, which has no effect in this version but must be valid.
const FRAME_BYTES: usize = 2048;
const TP_STATUS_KERNEL: u32 = 0;
const TP_STATUS_USER: u32 = 1;
const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;
const TP_STATUS_TS_RAW_HARDWARE: u32 = 1 << 31;
/// Default TPID of a VLAN tag, if the kernel does not report it.
const VLAN: u16 = 0x8100;

/// struct tpacket_block_desc
mod block {
    pub(super) const STATUS: usize = 8;
    pub(super) const PACKETS: usize = 12;
    pub(super) const FIRST: usize = 16;
}

/// struct tpacket3_hdr
mod field {
    pub(super) const NEXT: usize = 0;
    pub(super) const SECONDS: usize = 4;
    pub(super) const NANOSECONDS: usize = 8;
    pub(super) const KEPT: usize = 12;
    pub(super) const LEN: usize = 16;
    pub(super) const STATUS: usize = 20;
    pub(super) const START: usize = 24;
    pub(super) const VLAN_TAG: usize = 32;
    pub(super) const VLAN_TYPE: usize = 36;
}
const HEADER_BYTES: usize = 48;

/// Blocks of the ring, and the position of the reader.
#[derive(Debug)]
pub(super) struct Ring {
    memory: Mapping,
    blocks: usize,
    /// Block that is being read, or is next.
    at: usize,
    reading: Option<Reading>,
    /// Packets without a hardware timestamp are omitted, and counted.
    is_only_of_hardware: bool,
    unstamped: u64,
}

/// Remaining packets of a block, and the offset of the first.
#[derive(Clone, Copy, Debug)]
struct Reading {
    left: u32,
    offset: usize,
}

/// A packet in the ring.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Time at which the packet crossed the device.
    pub stamp: Stamp,
    /// Length on the wire in bytes.
    pub len: u32,
    /// Captured bytes, from the first on.
    pub bytes: &'a [u8],
    /// VLAN tag, type and value, which the device or the kernel has removed from the packet.
    pub vlan: Option<[u8; 4]>,
}

impl Ring {
    /// Sets up a packet ring of about `bytes` for `socket`.
    pub(super) fn new(socket: BorrowedFd<'_>, bytes: usize, retire: Duration) -> io::Result<Ring> {
        let blocks = (bytes / BLOCK_BYTES).max(2);
        let fd = socket.as_raw_fd();
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        set(fd, libc::PACKET_VERSION, &version)?;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as libc::c_uint,
            tp_block_nr: blocks as libc::c_uint,
            tp_frame_size: FRAME_BYTES as libc::c_uint,
            tp_frame_nr: (blocks * (BLOCK_BYTES / FRAME_BYTES)) as libc::c_uint,
            tp_retire_blk_tov: retire.as_millis().clamp(1, 1000) as libc::c_uint,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(fd, libc::PACKET_RX_RING, &request)?;
        let memory = Mapping::new(socket, blocks * BLOCK_BYTES)?;
        Ok(Ring { memory, blocks, at: 0, reading: None, is_only_of_hardware: false, unstamped: 0 })
    }

    /// Omits packets without a hardware timestamp from now on: other timestamps are on another clock.
    pub(super) fn only_of_hardware(&mut self) {
        self.is_only_of_hardware = true;
    }

    /// Number of packets omitted because they lack a hardware timestamp.
    pub(super) const fn unstamped(&self) -> u64 {
        self.unstamped
    }

    /// Timestamp of the next packet in the ring.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<Stamp> {
        let reading = self.reading()?;
        Some(stamp(self.header(reading.offset)))
    }

    /// The next packet in the ring. Its block belongs to the reader until the next call.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Packet<'_>> {
        let Reading { left, offset } = self.reading()?;
        let next = word(self.header(offset), field::NEXT) as usize;
        self.reading = Some(Reading { left: left - 1, offset: offset + next });
        Some(packet(self.block(), offset))
    }

    /// Calls `show` for at most `most` packets and returns their number. The position is stored once for a block and
    /// not for each packet.
    #[inline]
    pub(super) fn take_each(&mut self, most: u64, mut show: impl FnMut(&Packet<'_>)) -> u64 {
        let mut count = 0;
        while count < most {
            let Some(Reading { mut left, mut offset }) = self.reading() else { break };
            let (block, mut unstamped) = (self.block(), 0);
            while left > 0 && count < most {
                let header = header(block, offset);
                if !self.is_only_of_hardware || word(header, field::STATUS) & TP_STATUS_TS_RAW_HARDWARE != 0 {
                    show(&packet(block, offset));
                    count += 1;
                } else {
                    unstamped += 1;
                }
                (left, offset) = (left - 1, offset + word(header, field::NEXT) as usize);
            }
            self.reading = Some(Reading { left, offset });
            self.unstamped += unstamped;
        }
        count
    }

    /// Position of the next packet. Returns a block to the kernel when it has been read.
    #[inline]
    fn reading(&mut self) -> Option<Reading> {
        loop {
            let reading = match self.reading {
                Some(reading) if reading.left > 0 => reading,
                _ => self.next_block()?,
            };
            let header = self.header(reading.offset);
            if !self.is_only_of_hardware || word(header, field::STATUS) & TP_STATUS_TS_RAW_HARDWARE != 0 {
                return Some(reading);
            }
            let next = word(header, field::NEXT) as usize;
            self.reading = Some(Reading { left: reading.left - 1, offset: reading.offset + next });
            self.unstamped += 1;
        }
    }

    fn next_block(&mut self) -> Option<Reading> {
        // The kernel sometimes hands over blocks without a packet.
        for _ in 0..self.blocks {
            if self.reading.take().is_some() {
                self.status().store(TP_STATUS_KERNEL, Ordering::Release);
                self.at = (self.at + 1) % self.blocks;
            }
            if self.status().load(Ordering::Acquire) & TP_STATUS_USER == 0 {
                return None;
            }
            let block = self.block();
            let (left, offset) = (word(block, block::PACKETS), word(block, block::FIRST) as usize);
            self.reading = Some(Reading { left, offset });
            if left > 0 {
                return self.reading;
            }
        }
        None
    }

    #[inline]
    fn header(&self, offset: usize) -> &[u8; HEADER_BYTES] {
        header(self.block(), offset)
    }

    /// The block that is being read.
    #[inline]
    fn block(&self) -> &[u8; BLOCK_BYTES] {
        let start = self.memory.at(self.at * BLOCK_BYTES);
        // SAFETY: `at` counts blocks of the ring; the kernel leaves the block alone until its status changes, which
        // cannot happen while it is borrowed.
        unsafe { start.cast().as_ref() }
    }

    fn status(&self) -> &AtomicU32 {
        let word = self.memory.at(self.at * BLOCK_BYTES + block::STATUS);
        // SAFETY: every block has this aligned word, which both sides change atomically.
        unsafe { AtomicU32::from_ptr(word.as_ptr().cast()) }
    }
}

/// The packet whose header is at `offset`.
#[inline]
fn packet(block: &[u8; BLOCK_BYTES], offset: usize) -> Packet<'_> {
    let header = header(block, offset);
    let start = offset + usize::from(half(header, field::START));
    let kept = word(header, field::KEPT) as usize;
    let status = word(header, field::STATUS);
    let vlan = (status & TP_STATUS_VLAN_VALID != 0).then(|| {
        let has_type = status & TP_STATUS_VLAN_TPID_VALID != 0;
        let [kind, tag] = [half(header, field::VLAN_TYPE), half(header, field::VLAN_TAG)];
        let ([a, b], [c, d]) = (if has_type { kind } else { VLAN }.to_be_bytes(), tag.to_be_bytes());
        [a, b, c, d]
    });
    Packet { stamp: stamp(header), len: word(header, field::LEN), bytes: &block[start..start + kept], vlan }
}

#[inline]
fn header(block: &[u8; BLOCK_BYTES], offset: usize) -> &[u8; HEADER_BYTES] {
    block[offset..].first_chunk().expect("the kernel puts whole packets into a block")
}

#[inline]
fn stamp(header: &[u8; HEADER_BYTES]) -> Stamp {
    let [seconds, ns] = [field::SECONDS, field::NANOSECONDS].map(|at| u64::from(word(header, at)));
    Stamp(seconds * 1_000_000_000 + ns)
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline]
fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}
