//! One connection of a session: its socket, its digests and its numbers.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

use e2e::ours::Target;
use wire::iscsi::{BHS_LEN, Bhs, LoginResponse, Pdu, RESERVED_TAG, padding, text};

use super::dice::Dice;
use crate::peers::pdu;
use crate::peers::raw_login;

/// What the target takes in one data segment, whatever it declares.
pub(crate) const SEGMENT: usize = 8192;
const DIGEST_BYTES: usize = 4;
pub(crate) const INITIATOR: &str = "iqn.2026-11.org.example:dice";

/// Who logs in, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Badge {
    /// Tells one port of the initiator from another: it is in the ISID.
    pub(crate) port: u32,
    /// 0 for a new session.
    pub(crate) tsih: u16,
    pub(crate) cid: u16,
    pub(crate) cmd_sn: u32,
}

/// A connection.
pub(crate) struct Line {
    stream: TcpStream,
    pub(crate) cid: u16,
    /// What we take in one data segment.
    pub(crate) segment: usize,
    pub(crate) header_digest: bool,
    pub(crate) data_digest: bool,
    /// The next StatSN; ExpCmdSN and MaxCmdSN as last told here.
    pub(crate) stat_sn: u32,
    exp_cmd_sn: u32,
    max_cmd_sn: u32,
    /// Bytes to send in this round, PDU by PDU, and unsolicited data that follows later.
    pub(crate) queued: Vec<Vec<u8>>,
    pub(crate) late: Vec<Vec<u8>>,
    /// Numbers of what was sent here in this round.
    pub(crate) numbers: Vec<u32>,
}

impl Line {
    /// Logs in with `keys` besides those that every connection has; the response and its keys come along.
    #[track_caller]
    pub(crate) fn log_in(
        target: &Target,
        dice: &mut Dice,
        badge: Badge,
        keys: &[(&str, String)],
    ) -> (Line, LoginResponse, Vec<(String, String)>) {
        let Badge { port, tsih, cid, cmd_sn } = badge;
        let stream = pdu::patient(TcpStream::connect(target.address()).expect("the target accepts"));
        let segment = dice.pick(&[512, 1000, 8192, 65536]);
        let length = segment.to_string();
        let mut all = vec![("InitiatorName", INITIATOR), ("SessionType", "Normal")];
        all.extend([("TargetName", target.iqn()), ("MaxRecvDataSegmentLength", length.as_str())]);
        for key in ["HeaderDigest", "DataDigest"] {
            if dice.chance(40) {
                all.push((key, dice.pick(&["CRC32C", "CRC32C", "None,CRC32C"])));
            }
        }
        all.extend(keys.iter().map(|(key, value)| (*key, value.as_str())));
        let [a, b, c, d] = port.to_be_bytes();
        let badge = raw_login::Badge { isid: [0x80, 1, a, b, c, d], tsih, cid, cmd_sn };
        let (request, text) = raw_login::request(badge, &all);
        let mut line = Line {
            stream,
            cid,
            segment,
            header_digest: false,
            data_digest: false,
            stat_sn: 0,
            exp_cmd_sn: cmd_sn,
            max_cmd_sn: cmd_sn,
            queued: Vec::new(),
            late: Vec::new(),
            numbers: Vec::new(),
        };
        let request = line.seal(request, &text);
        line.send(&request);
        let found = line.read().expect("an answer to the login");
        let Some((Pdu::LoginResponse(response), data)) = found else { panic!("{found:?}") };
        assert!(response.transit && response.status_class == 0, "{response:?} {badge:?}");
        line.stat_sn = response.stat_sn.wrapping_add(1);
        (line.exp_cmd_sn, line.max_cmd_sn) = (response.exp_cmd_sn, response.max_cmd_sn);
        let answers = text::pairs(&data).map(|pair| {
            let (key, value) = pair.expect("text");
            (key.to_owned(), value.to_owned())
        });
        let answers: Vec<_> = answers.collect();
        let is_on = |key: &str| answers.iter().any(|(found, value)| found == key && value == "CRC32C");
        (line.header_digest, line.data_digest) = (is_on("HeaderDigest"), is_on("DataDigest"));
        (line, response, answers)
    }

    /// The bytes of a PDU with the digests that were agreed on.
    pub(crate) fn seal(&self, pdu: impl Into<Pdu>, data: &[u8]) -> Vec<u8> {
        let mut bytes = pdu::bytes(pdu, data);
        let segment = bytes.split_off(BHS_LEN);
        if self.header_digest {
            bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        }
        bytes.extend(&segment);
        if self.data_digest && !segment.is_empty() {
            bytes.extend(crc32c::crc32c(&segment).to_le_bytes());
        }
        bytes
    }

    #[track_caller]
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the target reads");
    }

    /// Sends what a target that has closed does not take.
    pub(crate) fn send_anyway(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    pub(crate) fn end_sending(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Whatever still comes, until the target closes.
    #[track_caller]
    pub(crate) fn drain(mut self) {
        let mut rest = Vec::new();
        if let Err(error) = self.stream.read_to_end(&mut rest) {
            assert!(pdu::is_end(&error), "the target does not close: {error}");
        }
    }

    /// The next PDU, whose numbers have been checked; `cmd_sn` is the session's next. `None` when the target has
    /// closed.
    #[track_caller]
    pub(crate) fn receive(&mut self, cmd_sn: u32) -> Option<(Pdu, Vec<u8>)> {
        let found = match self.read() {
            Ok(found) => found?,
            Err(error) if pdu::is_end(&error) => return None,
            Err(error) => panic!("connection {}: {error}", self.cid),
        };
        let mut header = [0; BHS_LEN];
        found.0.emit(&mut header);
        let number =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let carries = match &found.0 {
            Pdu::DataIn(data) => data.status.is_some(),
            Pdu::NopIn(nop) if nop.itt == RESERVED_TAG => false,
            Pdu::R2t(_) => {
                assert_eq!(number(24), self.stat_sn, "an R2T carries the next StatSN: {found:?}");
                false
            }
            _ => true,
        };
        if carries {
            assert_eq!(number(24), self.stat_sn, "a StatSN is missing or twice: {found:?}");
            self.stat_sn = self.stat_sn.wrapping_add(1);
        }
        let moved = |now: u32, before: u32| now.wrapping_sub(before) as i32 >= 0;
        assert!(moved(number(28), self.exp_cmd_sn) && moved(cmd_sn, number(28)), "ExpCmdSN: {found:?}");
        assert!(moved(number(32), self.max_cmd_sn), "MaxCmdSN moves back: {found:?}");
        assert!(moved(number(32).wrapping_add(1), number(28)), "MaxCmdSN < ExpCmdSN - 1: {found:?}");
        (self.exp_cmd_sn, self.max_cmd_sn) = (number(28), number(32));
        Some(found)
    }

    fn read(&mut self) -> io::Result<Option<(Pdu, Vec<u8>)>> {
        if !self.header_digest && !self.data_digest {
            return pdu::read(&mut self.stream);
        }
        let mut header = [0; BHS_LEN];
        if pdu::again(|| self.stream.read(&mut header[..1]))? == 0 {
            return Ok(None);
        }
        self.stream.read_exact(&mut header[1..])?;
        assert_eq!(Bhs::new(&header).ahs_len(), 0, "no additional header is expected");
        if self.header_digest {
            self.check_digest(&header)?;
        }
        let len = Bhs::new(&header).data_segment_len();
        let mut data = vec![0; len + padding(len)];
        self.stream.read_exact(&mut data)?;
        if self.data_digest && len > 0 {
            self.check_digest(&data)?;
        }
        data.truncate(len);
        let pdu = Pdu::parse(&header).map_err(io::Error::other)?;
        Ok(Some((pdu, data)))
    }

    fn check_digest(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut digest = [0; DIGEST_BYTES];
        self.stream.read_exact(&mut digest)?;
        assert_eq!(digest, crc32c::crc32c(bytes).to_le_bytes(), "the digest of {bytes:02x?}");
        Ok(())
    }
}
