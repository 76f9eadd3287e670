//! Synthetic captures: frames of connections that read, as a tap beside the target shows them.

use std::io::{self, Write};

use wire::iscsi::{BHS_LEN, DataIn, Lun, Pdu, ScsiCommand, TaskAttribute};

/// Header of a pcap file in nanoseconds, Ethernet.
pub(crate) const FILE_HEADER: [u8; 24] =
    [0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 1];

const MSS: usize = 1448;
const PIECE: usize = 8 << 10;
const PIECES: usize = 8;
const ACK: u8 = 0x10;
const PSH_ACK: u8 = 0x18;
const SYN: u8 = 0x02;

/// Writes a packet of a pcap file.
pub(crate) fn record(out: &mut impl Write, t_ns: u64, frame: &[u8], keep: usize) -> io::Result<()> {
    let kept = &frame[..frame.len().min(keep)];
    for word in [t_ns / 1_000_000_000, t_ns % 1_000_000_000, kept.len() as u64, frame.len() as u64] {
        out.write_all(&(word as u32).to_be_bytes())?;
    }
    out.write_all(kept)
}

/// A connection of an initiator that reads.
pub(crate) struct Reads {
    port: u16,
    seq: [u32; 2],
    cmd_sn: u32,
    lost_one_in: u64,
    segments: u64,
    /// Sequence number and payload of the lost segment.
    lost: Option<(u32, Vec<u8>)>,
    frame: Vec<u8>,
}

impl Reads {
    pub(crate) fn new(port: u16, lost_one_in: u64) -> Reads {
        Reads { port, seq: [1, 1], cmd_sn: 0, lost_one_in, segments: 0, lost: None, frame: Vec::new() }
    }

    /// One read, from its command to its status.
    pub(crate) fn turn(&mut self, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        if self.cmd_sn == 0 {
            self.begin(&mut each)?;
        }
        self.cmd_sn += 1;
        let mut bytes = vec![0; BHS_LEN];
        Pdu::from(read(self.cmd_sn, PIECE * PIECES)).emit(bytes.first_chunk_mut().expect("a header"));
        self.segment(0, PSH_ACK, &bytes, &mut each)?;
        let mut answer = Vec::new();
        for piece in 0..PIECES {
            answer.extend(data_in(self.cmd_sn, piece));
            answer.resize(answer.len() + PIECE, 0x5a);
        }
        for (n, payload) in answer.chunks(MSS).enumerate() {
            self.segments += 1;
            if self.lost.is_none() && self.segments.is_multiple_of(self.lost_one_in) {
                self.lost = Some((self.seq[1], payload.to_vec()));
            }
            self.segment(1, ACK, payload, &mut each)?;
            if n % 2 == 1 {
                self.acknowledge(&mut each)?;
            }
        }
        self.repair(&mut each)?;
        self.acknowledge(&mut each)
    }

    fn begin(&mut self, each: &mut impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        self.segment(0, SYN, &[], each)?;
        self.segment(1, SYN | ACK, &[], each)?;
        self.segment(0, ACK, &[], each)
    }

    /// Retransmits the lost segment.
    fn repair(&mut self, each: &mut impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let Some((seq, payload)) = self.lost.take() else { return Ok(()) };
        let next = std::mem::replace(&mut self.seq[1], seq);
        self.segment(1, ACK, &payload, each)?;
        self.seq[1] = next;
        Ok(())
    }

    /// Acknowledges everything, selectively after the lost segment.
    fn acknowledge(&mut self, each: &mut impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let next = self.seq[1];
        let Some((seq, payload)) = &self.lost else { return self.segment(0, ACK, &[], each) };
        let behind = seq.wrapping_add(payload.len() as u32);
        let mut options = vec![1, 1, 5, 10];
        options.extend(behind.to_be_bytes());
        options.extend(next.to_be_bytes());
        let seq = *seq;
        if behind == next {
            options.clear();
        }
        self.made(0, ACK, seq, &options, &[], each)
    }

    fn segment(
        &mut self,
        from: usize,
        flags: u8,
        payload: &[u8],
        each: &mut impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        self.made(from, flags, self.seq[1 - from], &[], payload, each)
    }

    fn made(
        &mut self,
        from: usize,
        flags: u8,
        ack: u32,
        options: &[u8],
        payload: &[u8],
        each: &mut impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let ports = [self.port, 3260];
        let (ip_len, header_len) = (40 + options.len() + payload.len(), 20 + options.len());
        let frame = &mut self.frame;
        frame.clear();
        frame.extend([0; 12]);
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((ip_len as u16).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1 + from as u8, 10, 0, 0, 2 - from as u8]);
        frame.extend(ports[from].to_be_bytes());
        frame.extend(ports[1 - from].to_be_bytes());
        frame.extend(self.seq[from].to_be_bytes());
        frame.extend(ack.to_be_bytes());
        frame.extend([((header_len / 4) << 4) as u8, flags, 0xff, 0xff, 0, 0, 0, 0]);
        frame.extend(options);
        frame.extend(payload);
        let marks = u32::from(flags & SYN != 0);
        self.seq[from] = self.seq[from].wrapping_add(payload.len() as u32 + marks);
        each(frame)
    }
}

/// A READ (10).
pub(crate) fn read(cmd_sn: u32, bytes: usize) -> ScsiCommand {
    let mut cdb = [0; 16];
    cdb[0] = 0x28;
    ScsiCommand {
        immediate: false,
        is_final: true,
        read: true,
        write: false,
        attribute: TaskAttribute::Simple,
        ahs_len: 0,
        data_segment_len: 0,
        lun: Lun::from_number(0),
        itt: cmd_sn,
        expected_data_transfer_len: bytes as u32,
        cmd_sn,
        exp_stat_sn: 1,
        cdb,
    }
}

fn data_in(cmd_sn: u32, piece: usize) -> [u8; BHS_LEN] {
    let mut header = [0; BHS_LEN];
    let last = piece + 1 == PIECES;
    (header[0], header[1]) = (0x25, if last { 0x81 } else { 0 });
    header[5..8].copy_from_slice(&(PIECE as u32).to_be_bytes()[1..]);
    header[16..20].copy_from_slice(&cmd_sn.to_be_bytes());
    header[20..24].fill(0xff);
    header[24..28].copy_from_slice(&cmd_sn.to_be_bytes());
    header[28..32].copy_from_slice(&(cmd_sn + 1).to_be_bytes());
    header[32..36].copy_from_slice(&(cmd_sn + 32).to_be_bytes());
    header[40..44].copy_from_slice(&((piece * PIECE) as u32).to_be_bytes());
    DataIn::parse(&header).expect("data");
    header
}
