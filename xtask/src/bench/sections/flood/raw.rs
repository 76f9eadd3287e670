//! A session on a blocking socket that sends single requests: as many as a flood wants, without a driver's limits.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use wire::iscsi::{
    BHS_LEN, Bhs, Lun, Pdu, RESERVED_TAG, ScsiCommand, TaskAttribute, TaskManagementRequest, padding,
    task_function,
};
use wire::scsi::{BlockForm, Cdb, ReserveIn, ReserveOut, ReserveParameters};

use raw_login::Badge;

/// The builder of login requests that the end-to-end tests have, which no crate offers to others.
#[path = "../../../../../tests/e2e/tests/loopback/peers/raw_login.rs"]
mod raw_login;

/// Longest silence of the target.
const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes of a block of the LUNs.
const BLOCK_BYTES: u32 = 512;

/// A session in the full feature phase.
pub(super) struct Session {
    stream: TcpStream,
    cmd_sn: u32,
    itt: u32,
}

impl Session {
    /// Logs in as the initiator port with this number.
    pub(super) fn open(address: &str, iqn: &str, port: u32) -> Result<Session> {
        let mut stream = TcpStream::connect(address).context("the target does not accept")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let name = "iqn.2026-11.org.example:flood";
        let keys = [("InitiatorName", name), ("SessionType", "Normal"), ("TargetName", iqn)];
        let [a, b, c, d] = port.to_be_bytes();
        let badge = Badge { isid: [0x80, 0, a, b, c, d], tsih: 0, cid: 0, cmd_sn: 1 };
        let (request, bytes) = raw_login::request(badge, &keys);
        stream.write_all(&pdu(request, &bytes))?;
        let mut session = Session { stream, cmd_sn: 1, itt: 0 };
        let Pdu::LoginResponse(response) = session.receive()? else { bail!("no answer to a login") };
        ensure!(response.status_class == 0 && response.transit, "a login is refused: {response:?}");
        Ok(session)
    }

    /// Registers with a LUN, and meets its unit attention before that.
    pub(super) fn register(&mut self, lun: u16, key: u64) -> Result<()> {
        self.send_command(lun, Cdb::TestUnitReady, &[], 0)?;
        self.receive()?;
        let parameters = ReserveParameters { action_key: key, ..ReserveParameters::default() }.emit();
        let list_len = parameters.len() as u32;
        let action = ReserveOut::Register;
        self.send_command(
            lun,
            Cdb::PersistentReserveOut { action, scope: 0, kind: 0, list_len },
            &parameters,
            0,
        )?;
        match self.receive()? {
            Pdu::ScsiResponse(response) if response.status == 0 => Ok(()),
            answer => bail!("the registration with key {key} is refused: {answer:?}"),
        }
    }

    /// Requests the first bytes of READ FULL STATUS data.
    pub(super) fn send_full_status(&mut self, lun: u16, allocation_len: u16) -> Result<()> {
        let action = ReserveIn::ReadFullStatus;
        let cdb = Cdb::PersistentReserveIn { action, allocation_len };
        self.send_command(lun, cdb, &[], allocation_len.into())
    }

    /// Requests a reset of all LUNs.
    pub(super) fn send_warm_reset(&mut self) -> Result<()> {
        self.itt += 1;
        self.cmd_sn += 1;
        let request = TaskManagementRequest {
            immediate: false,
            function: task_function::TARGET_WARM_RESET,
            lun: Lun(0),
            itt: self.itt,
            referenced_itt: RESERVED_TAG,
            cmd_sn: self.cmd_sn - 1,
            exp_stat_sn: 0,
            ref_cmd_sn: 0,
            exp_data_sn: 0,
        };
        Ok(self.stream.write_all(&pdu(request, &[]))?)
    }

    /// Requests blocks.
    pub(super) fn send_read(&mut self, lun: u16, lba: u64, bytes: u32) -> Result<()> {
        let blocks = bytes / BLOCK_BYTES;
        let cdb = Cdb::Read { form: BlockForm::Ten, lba, blocks, dpo: false, fua: false };
        self.send_command(lun, cdb, &[], bytes)
    }

    fn send_command(&mut self, lun: u16, cdb: Cdb, data: &[u8], expected_bytes: u32) -> Result<()> {
        self.itt += 1;
        self.cmd_sn += 1;
        let command = ScsiCommand {
            immediate: false,
            is_final: true,
            read: expected_bytes > 0,
            write: !data.is_empty(),
            attribute: TaskAttribute::Simple,
            ahs_len: 0,
            data_segment_len: 0,
            lun: Lun::from_number(lun),
            itt: self.itt,
            expected_data_transfer_len: expected_bytes.max(data.len() as u32),
            cmd_sn: self.cmd_sn - 1,
            exp_stat_sn: 0,
            cdb: cdb.emit(),
        };
        Ok(self.stream.write_all(&pdu(command, data))?)
    }

    /// The next PDU; its data are dropped.
    pub(super) fn receive(&mut self) -> Result<Pdu> {
        let mut header = [0; BHS_LEN];
        self.stream.read_exact(&mut header).context("no answer of the target")?;
        let bhs = Bhs::new(&header);
        let len = bhs.data_segment_len();
        let mut rest = vec![0; bhs.ahs_len() + len + padding(len)];
        self.stream.read_exact(&mut rest)?;
        Pdu::parse(&header).context("a PDU that is none")
    }

    /// Another handle to the socket, by which another thread can end a call that waits on it.
    pub(super) fn handle(&self) -> Result<TcpStream> {
        Ok(self.stream.try_clone()?)
    }

    /// Ends the connection without a logout; the nexus and its registration stay.
    pub(super) fn close(self) {
        // Fails only if the target has closed before.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// The bytes of a PDU with its data segment.
fn pdu(pdu: impl Into<Pdu>, data: &[u8]) -> Vec<u8> {
    let mut bytes = [0; BHS_LEN];
    pdu.into().emit(&mut bytes);
    bytes[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
    let mut bytes = bytes.to_vec();
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len() + padding(data.len()), 0);
    bytes
}
