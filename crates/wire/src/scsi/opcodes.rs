//! Data of REPORT SUPPORTED OPERATION CODES: SPC-5 section 6.35.

use crate::be;

/// Time limits of a command: a timeouts descriptor (SPC-5 section 6.35.4). In seconds; 0 means not reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandTimeouts {
    /// NOMINAL COMMAND PROCESSING TIMEOUT: when an answer is late.
    pub nominal_s: u32,
    /// RECOMMENDED COMMAND TIMEOUT: when to give up.
    pub recommended_s: u32,
}

/// A command in the list of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpcodeDescriptor {
    /// Operation code.
    pub opcode: u8,
    /// Service action, if the operation code has some.
    pub service_action: Option<u16>,
    /// Bytes of its CDB.
    pub cdb_len: u16,
    /// Present if the initiator requested it.
    pub timeouts: Option<CommandTimeouts>,
}

/// SUPPORT of one command (SPC-5 table 260).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum OpcodeSupport {
    /// Not supported.
    No = 1,
    /// Supported as in the standard.
    Standard = 3,
}

/// The answer about one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpcodeUsage {
    /// Support of the command.
    pub support: OpcodeSupport,
    /// CDB USAGE DATA: the operation code and service action, and ones where a bit of the CDB counts.
    pub usage: Vec<u8>,
    /// Present if the initiator requested it.
    pub timeouts: Option<CommandTimeouts>,
}

/// Bytes of a timeouts descriptor behind its length field.
const TIMEOUTS_LEN: u8 = 10;
const CTDP_IN_LIST: u8 = 0x02;
const SERVACTV: u8 = 0x01;
const CTDP_IN_ONE: u8 = 0x80;

impl OpcodeDescriptor {
    /// Writes the list of all commands.
    pub fn emit_all(commands: &[OpcodeDescriptor]) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        for command in commands {
            let mut flags = 0;
            if command.timeouts.is_some() {
                flags |= CTDP_IN_LIST;
            }
            if command.service_action.is_some() {
                flags |= SERVACTV;
            }
            bytes.extend_from_slice(&[command.opcode, 0]);
            bytes.extend_from_slice(&command.service_action.unwrap_or(0).to_be_bytes());
            bytes.extend_from_slice(&[0, flags]);
            bytes.extend_from_slice(&command.cdb_len.to_be_bytes());
            put_timeouts(command.timeouts, &mut bytes);
        }
        let len = u32::try_from(bytes.len() - 4).expect("there are not that many commands");
        be::put_u32(&mut bytes, 0, len);
        bytes
    }
}

impl OpcodeUsage {
    /// Writes the data.
    pub fn emit(&self) -> Vec<u8> {
        let flags = if self.timeouts.is_some() { CTDP_IN_ONE } else { 0 };
        let mut bytes = vec![0, flags | self.support as u8, 0, self.usage.len() as u8];
        bytes.extend_from_slice(&self.usage);
        put_timeouts(self.timeouts, &mut bytes);
        bytes
    }
}

fn put_timeouts(timeouts: Option<CommandTimeouts>, bytes: &mut Vec<u8>) {
    if let Some(timeouts) = timeouts {
        bytes.extend_from_slice(&[0, TIMEOUTS_LEN, 0, 0]);
        bytes.extend_from_slice(&timeouts.nominal_s.to_be_bytes());
        bytes.extend_from_slice(&timeouts.recommended_s.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scsi::check::bytes;

    #[test]
    fn all_and_one() {
        let timeouts = Some(CommandTimeouts { nominal_s: 1, recommended_s: 30 });
        let commands = [
            OpcodeDescriptor { opcode: 0x28, service_action: None, cdb_len: 10, timeouts: None },
            OpcodeDescriptor { opcode: 0x9e, service_action: Some(0x10), cdb_len: 16, timeouts },
        ];
        let hex = "0000001c 2800000000 00 000a 9e00001000 03 0010 000a0000 00000001 0000001e";
        assert_eq!(OpcodeDescriptor::emit_all(&commands), bytes(hex));
        let usage = OpcodeUsage { support: OpcodeSupport::Standard, usage: vec![0x12, 1, 0xff], timeouts };
        assert_eq!(usage.emit(), bytes("00 83 0003 1201ff 000a0000 00000001 0000001e"));
        let none = OpcodeUsage { support: OpcodeSupport::No, usage: Vec::new(), timeouts: None };
        assert_eq!(none.emit(), bytes("00 01 0000"));
    }
}
