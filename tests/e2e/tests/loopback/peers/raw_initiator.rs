//! An initiator that does what it is told, right or wrong, on a blocking socket.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};

use e2e::ours::Target;
use wire::iscsi::{
    DataOut, LogoutRequest, Lun, NopOut, Pdu, RESERVED_TAG, ScsiCommand, TaskAttribute, login_stage,
    logout_reason, split_sense,
};
use wire::scsi::{BlockForm, Cdb, Sense};

use super::pdu;
use super::raw_login::{self, Badge};

/// Bytes of a block of the LUNs of our target.
pub(crate) const BLOCK_BYTES: u32 = 512;

/// Which way a command's data goes, and how much the initiator says it expects.
#[derive(Clone, Copy)]
pub(crate) enum Flow {
    Nothing,
    In(u32),
    Out(u32),
}

/// A session in the full feature phase.
pub(crate) struct Session {
    stream: TcpStream,
    /// CmdSN of the next command.
    pub(crate) cmd_sn: u32,
    /// Tag of the next command.
    pub(crate) itt: u32,
}

/// A login in one request, for the session `tsih` (0 is a new one).
pub(crate) fn login_request(target: &Target, tsih: u16) -> Vec<u8> {
    login_request_as(target, isid(), tsih)
}

/// The same with this session id.
fn login_request_as(target: &Target, isid: [u8; 6], tsih: u16) -> Vec<u8> {
    let keys = [
        ("InitiatorName", "iqn.2026-11.org.example:raw"),
        ("SessionType", "Normal"),
        ("TargetName", target.iqn()),
        ("InitialR2T", "Yes"),
        ("ImmediateData", "Yes"),
        ("FirstBurstLength", "65536"),
        ("MaxBurstLength", "262144"),
        ("MaxRecvDataSegmentLength", "262144"),
    ];
    let (request, text) = raw_login::request(Badge { isid, tsih, cid: 0, cmd_sn: 1 }, &keys);
    pdu::bytes(request, &text)
}

/// A NOP-Out with the I bit, which wants `data` back.
pub(crate) fn ping(itt: u32, data: &[u8]) -> Vec<u8> {
    let nop = NopOut {
        immediate: true,
        data_segment_len: 0,
        lun: Lun(0),
        itt,
        ttt: RESERVED_TAG,
        cmd_sn: 0,
        exp_stat_sn: 0,
    };
    pdu::bytes(nop, data)
}

/// Data-Out that is the last of its burst.
pub(crate) fn data_out(itt: u32, ttt: u32, buffer_offset: u32, data: &[u8]) -> Vec<u8> {
    let lun = Lun::from_number(0);
    let pdu = DataOut {
        is_final: true,
        data_segment_len: 0,
        lun,
        itt,
        ttt,
        exp_stat_sn: 0,
        data_sn: 0,
        buffer_offset,
    };
    pdu::bytes(pdu, data)
}

/// READ (10) of whole blocks.
pub(crate) fn read(lba: u64, bytes: u32) -> Cdb {
    Cdb::Read { form: BlockForm::Ten, lba, blocks: bytes / BLOCK_BYTES, dpo: false, fua: false }
}

/// WRITE (10) of whole blocks.
pub(crate) fn write(lba: u64, bytes: u32) -> Cdb {
    Cdb::Write { form: BlockForm::Ten, lba, blocks: bytes / BLOCK_BYTES, dpo: false, fua: false }
}

/// A connection on which nothing has been said.
pub(crate) fn connect(target: &Target) -> TcpStream {
    pdu::patient(TcpStream::connect(target.address()).expect("the target accepts"))
}

/// Reads until the target closes; what came before that.
#[track_caller]
pub(crate) fn until_closed(stream: &mut TcpStream) -> Vec<(Pdu, Vec<u8>)> {
    let mut before = Vec::new();
    loop {
        match pdu::read(stream) {
            Ok(None) => return before,
            Ok(Some(found)) => before.push(found),
            Err(error) if pdu::is_end(&error) => return before,
            Err(error) => panic!("the target did not close the connection: {error}; before: {before:?}"),
        }
    }
}

impl Session {
    /// Logs in and hears of the units' attentions, so that the next command is executed.
    #[track_caller]
    pub(crate) fn open(target: &Target) -> Session {
        let mut session = Session::open_as(target, isid());
        let luns = target.ready["luns"].as_array().expect("the ready line lists LUNs").len();
        for lun in 0..luns as u16 {
            let command = session.command(lun, Cdb::TestUnitReady, Flow::Nothing);
            session.send(command, &[]);
            assert!(matches!(session.receive(), (Pdu::ScsiResponse(_), _)));
        }
        session
    }

    /// Logs in with this session id, and asks nothing.
    #[track_caller]
    pub(crate) fn open_as(target: &Target, isid: [u8; 6]) -> Session {
        let mut stream = connect(target);
        stream.write_all(&login_request_as(target, isid, 0)).expect("the target reads");
        let mut session = Session { stream, cmd_sn: 1, itt: 0x100 };
        let (Pdu::LoginResponse(response), _) = session.receive() else { panic!("no answer to the login") };
        assert_eq!((response.status_class, response.status_detail), (0, 0), "the login is refused");
        assert!(response.transit && response.nsg == login_stage::FULL_FEATURE, "{response:?}");
        session
    }

    /// Logs out, and waits until the target has closed.
    #[track_caller]
    pub(crate) fn log_out(mut self) {
        let (immediate, reason, cmd_sn) = (true, logout_reason::CLOSE_SESSION, self.cmd_sn);
        self.send(LogoutRequest { immediate, reason, itt: 7, cid: 0, cmd_sn, exp_stat_sn: 0 }, &[]);
        let rest = self.until_closed();
        assert!(rest.iter().any(|(pdu, _)| matches!(pdu, Pdu::LogoutResponse(_))), "{rest:?}");
    }

    /// Sends a command without data; the additional sense of the answer, if there is any.
    #[track_caller]
    pub(crate) fn ready(&mut self, lun: u16) -> Option<(u8, u8)> {
        let command = self.command(lun, Cdb::TestUnitReady, Flow::Nothing);
        self.send(command, &[]);
        self.sense()
    }

    /// Writes blocks that go along with the command; the additional sense of the answer, if there is any.
    #[track_caller]
    pub(crate) fn write(&mut self, lun: u16, lba: u64, data: &[u8]) -> Option<(u8, u8)> {
        let bytes = data.len() as u32;
        let command = self.command(lun, write(lba, bytes), Flow::Out(bytes));
        self.send(command, data);
        self.sense()
    }

    #[track_caller]
    fn sense(&mut self) -> Option<(u8, u8)> {
        let (Pdu::ScsiResponse(response), data) = self.answer() else { panic!("no answer") };
        (response.status != 0).then(|| {
            let sense = Sense::parse(split_sense(&data).expect("sense data").0).expect("sense data");
            (sense.asc, sense.ascq)
        })
    }

    /// A command with the next CmdSN and tag.
    pub(crate) fn command(&mut self, lun: u16, cdb: Cdb, flow: Flow) -> ScsiCommand {
        self.cmd_sn += 1;
        self.itt += 1;
        ScsiCommand {
            immediate: false,
            is_final: true,
            read: matches!(flow, Flow::In(_)),
            write: matches!(flow, Flow::Out(_)),
            attribute: TaskAttribute::Simple,
            ahs_len: 0,
            data_segment_len: 0,
            lun: Lun::from_number(lun),
            itt: self.itt,
            expected_data_transfer_len: match flow {
                Flow::Nothing => 0,
                Flow::In(bytes) | Flow::Out(bytes) => bytes,
            },
            cmd_sn: self.cmd_sn - 1,
            exp_stat_sn: 0,
            cdb: cdb.emit(),
        }
    }

    /// Sends one PDU.
    #[track_caller]
    pub(crate) fn send(&mut self, pdu: impl Into<Pdu>, data: &[u8]) {
        self.send_bytes(&pdu::bytes(pdu, data));
    }

    /// Sends bytes. That the target has closed is found out by who reads on.
    #[track_caller]
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        if let Err(error) = self.stream.write_all(bytes) {
            assert!(pdu::is_end(&error), "the target reads no more: {error}");
        }
    }

    /// The next PDU.
    #[track_caller]
    pub(crate) fn receive(&mut self) -> (Pdu, Vec<u8>) {
        match pdu::read(&mut self.stream) {
            Ok(Some(found)) => found,
            Ok(None) => panic!("the target closed the connection"),
            Err(error) => panic!("nothing comes: {error}"),
        }
    }

    /// The next PDU that is no ping of the target's. It pings who has been silent for ten seconds, and those are soon over on
    /// a machine that is busy with others.
    #[track_caller]
    fn answer(&mut self) -> (Pdu, Vec<u8>) {
        loop {
            match self.receive() {
                (Pdu::NopIn(ping), _) if ping.itt == RESERVED_TAG && ping.ttt != RESERVED_TAG => {
                    let pong = NopOut {
                        immediate: true,
                        data_segment_len: 0,
                        lun: ping.lun,
                        itt: RESERVED_TAG,
                        ttt: ping.ttt,
                        cmd_sn: self.cmd_sn,
                        exp_stat_sn: 0,
                    };
                    self.send(pong, &[]);
                }
                found => return found,
            }
        }
    }

    /// Pings, and returns what came before the answer: everything that was answered at once.
    #[track_caller]
    pub(crate) fn until_pong(&mut self) -> Vec<(Pdu, Vec<u8>)> {
        const TAG: u32 = 0xabcd_0000;
        self.send_bytes(&ping(TAG, b"here?"));
        let mut before = Vec::new();
        loop {
            match self.answer() {
                (Pdu::NopIn(nop), data) if nop.itt == TAG => {
                    assert_eq!(data, b"here?", "the ping comes back changed");
                    return before;
                }
                found => before.push(found),
            }
        }
    }

    /// Reads blocks; panics unless the target says GOOD.
    #[track_caller]
    pub(crate) fn read(&mut self, lun: u16, lba: u64, bytes: u32) -> Vec<u8> {
        let command = self.command(lun, read(lba, bytes), Flow::In(bytes));
        self.send(command, &[]);
        let mut data = Vec::new();
        loop {
            let (Pdu::DataIn(part), found) = self.answer() else { panic!("no data is read") };
            assert_eq!((part.itt, part.buffer_offset as usize), (command.itt, data.len()));
            data.extend_from_slice(&found);
            if let Some(status) = part.status {
                assert_eq!((status, data.len()), (0, bytes as usize));
                return data;
            }
        }
    }

    /// Reads until the target closes; what came before that.
    #[track_caller]
    pub(crate) fn until_closed(&mut self) -> Vec<(Pdu, Vec<u8>)> {
        until_closed(&mut self.stream)
    }

    /// Waits until the first byte of an answer is there, and leaves it where it is.
    #[track_caller]
    pub(crate) fn wait_for_a_byte(&self) {
        let found = pdu::again(|| self.stream.peek(&mut [0])).expect("something comes");
        assert_eq!(found, 1, "the target closed the connection");
    }

    /// The socket itself.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }
}

/// Another session id for each login, so that none reinstates another (RFC 7143 section 6.3.5).
fn isid() -> [u8; 6] {
    static LOGINS: AtomicU32 = AtomicU32::new(0);
    let [a, b, c, d] = LOGINS.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    [0x80, 0, a, b, c, d]
}
