//! A session that sends one command at a time and hears exactly what the target says.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};

use e2e::ours::Target;
use wire::iscsi::{Lun, Pdu, ScsiCommand, TaskAttribute, split_sense};
use wire::scsi::{BlockForm, Cdb, ReserveOut, ReserveParameters, Sense};

use crate::peers::pdu;
use crate::peers::raw_login::{self, Badge};

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
        let stream = pdu::patient(TcpStream::connect(target.address()).expect("the target accepts"));
        let mut session = Session { stream, cmd_sn: 1 };
        let (request, text) = raw_login::request(
            Badge { isid: [0x80, 0, a, b, c, d], tsih: 0, cid: 0, cmd_sn: 1 },
            &[
                ("InitiatorName", "iqn.2026-11.org.example:files"),
                ("SessionType", "Normal"),
                ("TargetName", target.iqn()),
                ("InitialR2T", "Yes"),
                ("ImmediateData", "Yes"),
                ("FirstBurstLength", "65536"),
                ("MaxRecvDataSegmentLength", "262144"),
            ],
        );
        session.send(request, &text).expect("the target reads");
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
        self.send(command, sent)?;
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

    fn send(&mut self, pdu: impl Into<Pdu>, data: &[u8]) -> io::Result<()> {
        self.stream.write_all(&pdu::bytes(pdu, data))
    }

    fn receive(&mut self) -> io::Result<(Pdu, Vec<u8>)> {
        pdu::read(&mut self.stream)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
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
