//! Frames of one iSCSI connection made of real PDUs, at one tap.

use wire::iscsi::{
    BHS_LEN, DataIn, LoginRequest, LoginResponse, Lun, Pdu, ScsiCommand, TaskAttribute, padding,
};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const BLOCK: usize = 8192;

/// Both ends of a connection and the frames that they have sent.
pub(crate) struct Tap {
    /// Time in ns and bytes.
    pub(crate) frames: Vec<(u64, Vec<u8>)>,
    /// Sequence numbers of the next bytes.
    pub(crate) seq: [u32; 2],
    /// Time of the last frame in ns.
    pub(crate) t_ns: u64,
    /// Port of the initiator.
    pub(crate) port: u16,
    pub(crate) digests: (bool, bool),
    pub(crate) stat_sn: u32,
    /// Command window of the target.
    pub(crate) window: u32,
}

impl Tap {
    /// A connection after its handshake and a login that negotiates header and data digests.
    pub(crate) fn new(digests: (bool, bool)) -> Tap {
        let mut tap = Tap::begun();
        tap.login(digests);
        tap
    }

    /// A connection after its handshake.
    pub(crate) fn begun() -> Tap {
        let mut tap = Tap::idle();
        for (direction, flags) in [(0, 0x02), (1, 0x12), (0, 0x10)] {
            tap.segment(direction, flags, &[]);
        }
        tap
    }

    /// A connection before its handshake.
    pub(crate) fn idle() -> Tap {
        Tap {
            frames: Vec::new(),
            seq: [0xffff_f000, 77],
            t_ns: MS,
            port: 40_000,
            digests: (false, false),
            stat_sn: 1,
            window: 32,
        }
    }

    fn login(&mut self, digests: (bool, bool)) {
        let value = |on| if on { "CRC32C" } else { "None" };
        let text =
            format!("HeaderDigest={}\0DataDigest={}\0", value(digests.0), value(digests.1)).into_bytes();
        let mut request = [0; BHS_LEN];
        (request[0], request[1], request[7], request[19]) = (0x43, 0x87, text.len() as u8, 1);
        // The CmdSN of the first command.
        request[27] = 1;
        let request = LoginRequest::parse(&request).expect("a login");
        let mut response = [0; BHS_LEN];
        (response[0], response[1], response[7], response[19]) = (0x23, 0x87, text.len() as u8, 1);
        response[35] = 31;
        let response = LoginResponse::parse(&response).expect("a login");
        self.pdus(0, &[(request.into(), text.clone())]);
        self.pdus(1, &[(response.into(), text)]);
        self.digests = digests;
    }

    /// Sends PDUs after a millisecond, in segments of 1448 bytes that are 10 µs apart.
    pub(crate) fn pdus(&mut self, direction: usize, pdus: &[(Pdu, Vec<u8>)]) {
        let bytes = self.bytes(pdus);
        self.t_ns += MS;
        for piece in bytes.chunks(1448) {
            self.segment(direction, 0x18, piece);
        }
    }

    /// Bytes of PDUs with their padding and digests.
    pub(crate) fn bytes(&self, pdus: &[(Pdu, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (pdu, data) in pdus {
            let mut header = [0; BHS_LEN];
            pdu.emit(&mut header);
            bytes.extend(header);
            bytes.extend(vec![0xcc; if self.digests.0 { 4 } else { 0 }]);
            bytes.extend(data);
            bytes.extend(vec![0; padding(data.len())]);
            bytes.extend(vec![0xdd; if self.digests.1 && !data.is_empty() { 4 } else { 0 }]);
        }
        bytes
    }

    /// Sends a segment.
    pub(crate) fn segment(&mut self, direction: usize, flags: u8, payload: &[u8]) {
        let mut frame = vec![0; 14];
        (frame[12], frame[13]) = (8, 0);
        let mut ip = [0_u8; 20];
        (ip[0], ip[9]) = (0x45, 6);
        ip[2..4].copy_from_slice(&((40 + payload.len()) as u16).to_be_bytes());
        (ip[12], ip[15], ip[16], ip[19]) = (10, direction as u8, 10, 1 - direction as u8);
        let mut tcp = [0_u8; 20];
        let ports = [self.port, 3260];
        tcp[..2].copy_from_slice(&ports[direction].to_be_bytes());
        tcp[2..4].copy_from_slice(&ports[1 - direction].to_be_bytes());
        tcp[4..8].copy_from_slice(&self.seq[direction].to_be_bytes());
        tcp[8..12].copy_from_slice(&self.seq[1 - direction].to_be_bytes());
        (tcp[12], tcp[13], tcp[14]) = (0x50, flags, 0xff);
        frame.extend(ip);
        frame.extend(tcp);
        frame.extend(payload);
        self.t_ns += 10_000;
        self.frames.push((self.t_ns, frame));
        let marks = u32::from(flags & 0x02 != 0);
        self.seq[direction] = self.seq[direction].wrapping_add(payload.len() as u32 + marks);
    }

    /// Data-In PDUs of a read of `pieces` blocks, the last one with the status.
    pub(crate) fn answer(&mut self, cmd_sn: u32, pieces: usize) -> Vec<(Pdu, Vec<u8>)> {
        let mut answer = Vec::new();
        for n in 0..pieces {
            let mut header = [0; BHS_LEN];
            let status = n + 1 == pieces;
            (header[0], header[1]) = (0x25, if status { 0x81 } else { 0 });
            header[5..8].copy_from_slice(&(BLOCK as u32).to_be_bytes()[1..]);
            header[16..20].copy_from_slice(&(cmd_sn | 0x100).to_be_bytes());
            header[20..24].fill(0xff);
            header[24..28].copy_from_slice(&self.stat_sn.to_be_bytes());
            header[28..32].copy_from_slice(&(cmd_sn + 1).to_be_bytes());
            header[32..36].copy_from_slice(&(cmd_sn + self.window).to_be_bytes());
            header[40..44].copy_from_slice(&((n * BLOCK) as u32).to_be_bytes());
            answer.push((DataIn::parse(&header).expect("data").into(), vec![0x5a; BLOCK]));
        }
        self.stat_sn += 1;
        answer
    }
}

/// A READ (10) or WRITE (10).
pub(crate) fn command(cmd_sn: u32, read: bool, bytes: usize, immediate: usize) -> Pdu {
    let mut cdb = [0; 16];
    cdb[0] = if read { 0x28 } else { 0x2a };
    let command = ScsiCommand {
        immediate: false,
        is_final: true,
        read,
        write: !read,
        attribute: TaskAttribute::Simple,
        ahs_len: 0,
        data_segment_len: immediate as u32,
        lun: Lun::from_number(0),
        itt: cmd_sn | 0x100,
        expected_data_transfer_len: bytes as u32,
        cmd_sn,
        exp_stat_sn: 1,
        cdb,
    };
    command.into()
}
