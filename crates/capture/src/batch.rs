//! Packets on their way from where they are seen to where they are kept: blocks of a pcapng file, many at a time.

use wire::pcap::write;

/// Size of a batch that is passed on to the file: 16 000 headers. A write costs a journal entry of the file system, a
/// disk request and two thread wake-ups, whatever its length; larger batches leave the processor's cache.
pub(crate) const FILE_BATCH_BYTES: usize = 2 << 20;
/// Size of a batch to a recorder: with one more packet of any length it still fits into a message.
pub(crate) const MESSAGE_BATCH_BYTES: usize = 512 << 10;
/// Alignment of a batch in memory: direct I/O needs it for the buffer and the file offset.
pub(crate) const ALIGNMENT: usize = 4096;
/// Room for one more packet, as super-packets usually are.
const PACKET_BYTES: usize = 66 << 10;

/// A batch of whole blocks.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The number of its first packet, counted over all interfaces from 0.
    pub(crate) first: u64,
    /// Packets of each interface.
    packets: Vec<u64>,
    bytes: Vec<u8>,
    /// Offset of its blocks.
    start: usize,
    /// Size at which it is full.
    full_bytes: usize,
}

impl Batch {
    /// An empty one for packets of so many interfaces, that is full with so many bytes.
    pub(crate) fn new(interfaces: usize, full_bytes: usize) -> Batch {
        let mut bytes: Vec<u8> = Vec::with_capacity(full_bytes + PACKET_BYTES + 2 * ALIGNMENT);
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        bytes.resize(start, 0);
        Batch { first: 0, packets: vec![0; interfaces], bytes, start, full_bytes }
    }

    /// Makes it empty again; the next packet is number `first`.
    pub(crate) fn begin(&mut self, first: u64) {
        self.first = first;
        self.packets.fill(0);
        self.bytes.truncate(self.start);
    }

    #[inline]
    pub(crate) fn packet(&mut self, interface: usize, t_ns: u64, len: u32, parts: &[&[u8]]) {
        write::packet(&mut self.bytes, interface as u32, t_ns, len, parts);
        self.packets[interface] += 1;
    }

    pub(crate) fn statistics(&mut self, interface: usize, t_ns: u64, statistics: &write::Statistics) {
        write::statistics(&mut self.bytes, interface as u32, t_ns, statistics);
    }

    /// Makes it as much longer, with nothing.
    pub(crate) fn pad(&mut self, len: usize) {
        write::padding(&mut self.bytes, len);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Packets of each interface.
    pub(crate) fn per_interface(&self) -> &[u64] {
        &self.packets
    }

    pub(crate) fn packets(&self) -> u64 {
        self.packets.iter().sum()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes().len() >= self.full_bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }
}
