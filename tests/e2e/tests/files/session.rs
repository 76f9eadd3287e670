//! A session that sends one command at a time and hears exactly what the target says.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use e2e::ours::Target;
use wire::iscsi::{
    BHS_LEN, Bhs, LoginRequest, Lun, Pdu, ScsiCommand, TaskAttribute, login_stage, split_sense, text,
};
use wire::scsi::{BlockForm, Cdb, ReserveOut, ReserveParameters, Sense};

/// A logged-in session.
pub(crate) struct Session {
    stream: TcpStream,
    cmd_sn: u32,
}

/// What came of a command.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u8,
    pub(crate) sense: Option<Sense>,
    pub(crate) data: Vec<u8>,
}

impl Session {
    /// Logs in under an ISID of its own and hears of the units' attentions.
    pub(crate) fn open(target: &Target) -> Session {
        static LOGINS: AtomicU32 = AtomicU32::new(0);
        let [a, b, c, d] = LOGINS.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let stream = TcpStream::connect(target.address()).expect("the target accepts");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout can be set");
        stream.set_nodelay(true).expect("a socket option");
        let mut session = Session { stream, cmd_sn: 1 };
        let mut keys = Vec::new();
        text::TextWriter::new(&mut keys)
            .push("InitiatorName", "iqn.2026-11.org.example:files")
            .push("SessionType", "Normal")
            .push("TargetName", target.iqn())
            .push("InitialR2T", "Yes")
            .push("ImmediateData", "Yes")
            .push("FirstBurstLength", "65536")
            .push("MaxRecvDataSegmentLength", "262144");
        let request = LoginRequest {
            transit: true,
            is_continued: false,
            csg: login_stage::OPERATIONAL,
            nsg: login_stage::FULL_FEATURE,
            version_max: 0,
            version_min: 0,
            data_segment_len: keys.len() as u32,
            isid: [0x80, 0, a, b, c, d],
            tsih: 0,
            itt: 1,
            cid: 0,
            cmd_sn: 1,
            exp_stat_sn: 0,
        };
        session.send(request.into(), &keys).expect("the target reads");
        let (Pdu::LoginResponse(response), _) = session.receive().expect("a login response") else {
            panic!("no answer to the login")
        };
        assert_eq!(response.status_class, 0, "the login is refused: {response:?}");
        for lun in 0..target.ready["luns"].as_array().expect("LUNs").len() as u16 {
            session.run(lun, Cdb::TestUnitReady, &[], 0);
        }
        session
    }

    /// Sends a command with its data, and waits for its status.
    #[track_caller]
    pub(crate) fn run(&mut self, lun: u16, cdb: Cdb, sent: &[u8], wanted_bytes: u32) -> Answer {
        self.try_run(lun, cdb, sent, wanted_bytes).expect("an answer")
    }

    /// Like [`Session::run`], for a target that may go away.
    pub(crate) fn try_run(
        &mut self,
        lun: u16,
        cdb: Cdb,
        sent: &[u8],
        wanted_bytes: u32,
    ) -> io::Result<Answer> {
        assert!(sent.len() <= 8192, "more than goes along with the command");
        let command = ScsiCommand {
            immediate: false,
            is_final: true,
            read: wanted_bytes > 0,
            write: !sent.is_empty(),
            attribute: TaskAttribute::Simple,
            ahs_len: 0,
            data_segment_len: sent.len() as u32,
            lun: Lun::from_number(lun),
            itt: self.cmd_sn,
            expected_data_transfer_len: if sent.is_empty() { wanted_bytes } else { sent.len() as u32 },
            cmd_sn: self.cmd_sn,
            exp_stat_sn: 0,
            cdb: cdb.emit(),
        };
        self.cmd_sn += 1;
        self.send(command.into(), sent)?;
        let mut data = Vec::new();
        loop {
            match self.receive()? {
                (Pdu::DataIn(part), found) => {
                    data.extend_from_slice(&found);
                    if let Some(status) = part.status {
                        return Ok(Answer { status, sense: None, data });
                    }
                }
                (Pdu::ScsiResponse(response), found) => {
                    let sense = split_sense(&found).map_or(&[][..], |(sense, _)| sense);
                    let sense = (!sense.is_empty()).then(|| Sense::parse(sense).expect("sense data"));
                    return Ok(Answer { status: response.status, sense, data });
                }
                (other, _) => panic!("found {other:?}, expected the answer to {cdb:?}"),
            }
        }
    }

    fn send(&mut self, pdu: Pdu, data: &[u8]) -> io::Result<()> {
        let mut bytes = vec![0; BHS_LEN];
        pdu.emit(bytes.first_chunk_mut().expect("a header"));
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        self.stream.write_all(&bytes)
    }

    fn receive(&mut self) -> io::Result<(Pdu, Vec<u8>)> {
        let mut header = [0; BHS_LEN];
        self.stream.read_exact(&mut header)?;
        let len = Bhs::new(&header).data_segment_len();
        let mut data = vec![0; len.next_multiple_of(4)];
        self.stream.read_exact(&mut data)?;
        data.truncate(len);
        Ok((Pdu::parse(&header).expect("a PDU"), data))
    }
}

impl Answer {
    /// Panics unless the command was done; its data.
    #[track_caller]
    pub(crate) fn good(self) -> Vec<u8> {
        assert_eq!((self.status, self.sense), (0, None));
        self.data
    }

    /// Panics unless it ended with this sense data.
    #[track_caller]
    pub(crate) fn expect(self, sense: Sense) {
        assert_eq!((self.status, self.sense), (2, Some(sense)));
    }
}

/// WRITE (16) of one stretch of blocks.
pub(crate) fn write(lba: u64, blocks: u32, fua: bool) -> Cdb {
    Cdb::Write { form: BlockForm::Sixteen, lba, blocks, dpo: false, fua }
}

/// READ (16) of one stretch of blocks.
pub(crate) fn read(lba: u64, blocks: u32) -> Cdb {
    Cdb::Read { form: BlockForm::Sixteen, lba, blocks, dpo: false, fua: false }
}

/// SYNCHRONIZE CACHE of everything.
pub(crate) fn synchronize() -> Cdb {
    Cdb::SynchronizeCache { form: BlockForm::Ten, lba: 0, blocks: 0, immed: false }
}

/// UNMAP of one stretch, and its parameter list.
pub(crate) fn unmap(lba: u64, blocks: u32) -> (Cdb, Vec<u8>) {
    let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
    list.extend_from_slice(&lba.to_be_bytes());
    list.extend_from_slice(&blocks.to_be_bytes());
    list.extend_from_slice(&[0; 4]);
    (Cdb::Unmap { list_len: 24 }, list)
}

/// REGISTER with APTPL, and its parameter list.
pub(crate) fn register(key: u64) -> (Cdb, [u8; 24]) {
    let cdb = Cdb::PersistentReserveOut { action: ReserveOut::Register, scope: 0, kind: 0, list_len: 24 };
    let list = ReserveParameters { action_key: key, persist: true, ..ReserveParameters::default() };
    (cdb, list.emit())
}
