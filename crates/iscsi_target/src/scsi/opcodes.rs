//! REPORT SUPPORTED OPERATION CODES and REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS: SPC-4 sections 6.35, 6.36.

use wire::scsi::{
    CommandTimeouts, OpcodeDescriptor, OpcodeSupport, OpcodeUsage, Sense, cdb_len, opcode as code,
};

/// A command, and from byte 1 on which bits of its CDB count (CDB USAGE DATA); bytes that are not here are
/// zero, but for the control byte.
struct Command {
    opcode: u8,
    service_action: Option<u8>,
    usage: &'static [u8],
}

const fn plain(opcode: u8, usage: &'static [u8]) -> Command {
    Command { opcode, service_action: None, usage }
}

const fn action(opcode: u8, service_action: u8, usage: &'static [u8]) -> Command {
    Command { opcode, service_action: Some(service_action), usage }
}

/// NACA is not supported, the rest of the control byte is not looked at.
const CONTROL: u8 = 0x00;
const ADDRESS_16: [u8; 13] = [0xff; 13];

/// Byte 1, and address and length behind it.
const fn ten(flags: u8) -> [u8; 8] {
    [flags, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff]
}

const fn twelve(flags: u8) -> [u8; 9] {
    [flags, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]
}

const fn sixteen(flags: u8) -> [u8; 13] {
    let mut usage = ADDRESS_16;
    usage[0] = flags;
    usage
}

const MOVES: u8 = 0x18;
const VERIFIES: u8 = 0x16;
const WRITES_AND_VERIFIES: u8 = 0x12;
const IMMED: u8 = 0x02;

/// Supported commands in order of operation code and service action.
static COMMANDS: &[Command] = &[
    plain(code::TEST_UNIT_READY, &[]),
    plain(code::REQUEST_SENSE, &[0x01, 0, 0, 0xff]),
    plain(code::READ_6, &[0x1f, 0xff, 0xff, 0xff]),
    plain(code::WRITE_6, &[0x1f, 0xff, 0xff, 0xff]),
    plain(code::INQUIRY, &[0x01, 0xff, 0xff, 0xff]),
    plain(code::MODE_SELECT_6, &[0x11, 0, 0, 0xff]),
    plain(code::RESERVE_6, &[]),
    plain(code::RELEASE_6, &[]),
    plain(code::MODE_SENSE_6, &[0x08, 0xff, 0xff, 0xff]),
    plain(code::START_STOP_UNIT, &[0x01, 0, 0, 0xf3]),
    plain(code::PREVENT_ALLOW_MEDIUM_REMOVAL, &[0, 0, 0, 0x03]),
    plain(code::READ_CAPACITY_10, &[]),
    plain(code::READ_10, &ten(MOVES)),
    plain(code::WRITE_10, &ten(MOVES)),
    plain(code::WRITE_AND_VERIFY_10, &ten(WRITES_AND_VERIFIES)),
    plain(code::VERIFY_10, &ten(VERIFIES)),
    plain(code::PRE_FETCH_10, &ten(IMMED)),
    plain(code::SYNCHRONIZE_CACHE_10, &ten(IMMED)),
    plain(code::WRITE_SAME_10, &ten(0)),
    plain(code::UNMAP, &[0, 0, 0, 0, 0, 0, 0xff, 0xff]),
    plain(code::MODE_SELECT_10, &[0x11, 0, 0, 0, 0, 0, 0xff, 0xff]),
    plain(code::RESERVE_10, &[]),
    plain(code::RELEASE_10, &[]),
    plain(code::MODE_SENSE_10, &[0x18, 0xff, 0xff, 0, 0, 0, 0xff, 0xff]),
    action(code::PERSISTENT_RESERVE_IN, 0, &RESERVE_IN),
    action(code::PERSISTENT_RESERVE_IN, 1, &RESERVE_IN),
    action(code::PERSISTENT_RESERVE_IN, 2, &RESERVE_IN),
    action(code::PERSISTENT_RESERVE_IN, 3, &RESERVE_IN),
    action(code::PERSISTENT_RESERVE_OUT, 0, &RESERVE_OUT),
    action(code::PERSISTENT_RESERVE_OUT, 1, &RESERVE_OUT),
    action(code::PERSISTENT_RESERVE_OUT, 2, &RESERVE_OUT),
    action(code::PERSISTENT_RESERVE_OUT, 3, &RESERVE_OUT),
    action(code::PERSISTENT_RESERVE_OUT, 4, &RESERVE_OUT),
    action(code::PERSISTENT_RESERVE_OUT, 5, &RESERVE_OUT),
    action(code::PERSISTENT_RESERVE_OUT, 6, &RESERVE_OUT),
    plain(code::READ_16, &sixteen(MOVES)),
    plain(code::COMPARE_AND_WRITE, &[MOVES, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0xff]),
    plain(code::WRITE_16, &sixteen(MOVES)),
    plain(code::ORWRITE_16, &sixteen(MOVES)),
    plain(code::WRITE_AND_VERIFY_16, &sixteen(WRITES_AND_VERIFIES)),
    plain(code::VERIFY_16, &sixteen(VERIFIES)),
    plain(code::PRE_FETCH_16, &sixteen(IMMED)),
    plain(code::SYNCHRONIZE_CACHE_16, &sixteen(IMMED)),
    plain(code::WRITE_SAME_16, &sixteen(0x09)),
    action(
        code::SERVICE_ACTION_IN_16,
        code::READ_CAPACITY_16,
        &[0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
    ),
    action(code::SERVICE_ACTION_IN_16, code::GET_LBA_STATUS, &sixteen(0x1f)),
    plain(code::REPORT_LUNS, &[0, 0xff, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]),
    action(
        code::MAINTENANCE_IN,
        code::REPORT_SUPPORTED_OPERATION_CODES,
        &[0x1f, 0x87, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    ),
    action(
        code::MAINTENANCE_IN,
        code::REPORT_SUPPORTED_TASK_MANAGEMENT_FUNCTIONS,
        &[0x1f, 0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
    ),
    plain(code::READ_12, &twelve(MOVES)),
    plain(code::WRITE_12, &twelve(MOVES)),
    plain(code::WRITE_AND_VERIFY_12, &twelve(WRITES_AND_VERIFIES)),
    plain(code::VERIFY_12, &twelve(VERIFIES)),
];

const RESERVE_IN: [u8; 8] = [0x1f, 0, 0, 0, 0, 0, 0xff, 0xff];
const RESERVE_OUT: [u8; 8] = [0x1f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff];

/// Fields of a REPORT SUPPORTED OPERATION CODES command; see `wire::scsi::Cdb::ReportOpcodes`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) timeouts: bool,
    pub(super) options: u8,
    pub(super) opcode: u8,
    pub(super) service_action: u16,
}

/// REPORT SUPPORTED OPERATION CODES data. Command timeouts depend on the store and the line, so none is reported.
pub(super) fn report(wanted: Wanted) -> Result<Vec<u8>, Sense> {
    const ALL: u8 = 0;
    const WITHOUT_ACTION: u8 = 1;
    const WITH_ACTION: u8 = 2;
    const EITHER: u8 = 3;
    let timeouts = wanted.timeouts.then(CommandTimeouts::default);
    let same_code = || COMMANDS.iter().filter(|command| command.opcode == wanted.opcode);
    let has_actions = same_code().any(|command| command.service_action.is_some());
    match wanted.options {
        ALL => {
            let all = COMMANDS.iter().map(|command| OpcodeDescriptor {
                opcode: command.opcode,
                service_action: command.service_action.map(u16::from),
                cdb_len: cdb_len(command.opcode) as u16,
                timeouts,
            });
            return Ok(OpcodeDescriptor::emit_all(&all.collect::<Vec<_>>()));
        }
        WITHOUT_ACTION if has_actions => return Err(Sense::invalid_field(2, Some(2))),
        WITH_ACTION if !has_actions && same_code().next().is_some() => {
            return Err(Sense::invalid_field(2, Some(2)));
        }
        WITHOUT_ACTION | WITH_ACTION | EITHER => {}
        _ => return Err(Sense::invalid_field(2, Some(2))),
    }
    let found = same_code().find(|command| match command.service_action {
        Some(action) => u16::from(action) == wanted.service_action,
        None => wanted.options != EITHER || wanted.service_action == 0,
    });
    let usage = match found {
        Some(command) => OpcodeUsage { support: OpcodeSupport::Standard, usage: usage(command), timeouts },
        None => OpcodeUsage { support: OpcodeSupport::No, usage: Vec::new(), timeouts: None },
    };
    Ok(usage.emit())
}

/// CDB USAGE DATA: the numbers that name the command, and ones where a bit counts.
fn usage(command: &Command) -> Vec<u8> {
    let mut usage = vec![0; cdb_len(command.opcode)];
    usage[0] = command.opcode;
    usage[1..=command.usage.len()].copy_from_slice(command.usage);
    if let Some(action) = command.service_action {
        usage[1] = usage[1] & !0x1f | action;
    }
    if let Some(control) = usage.last_mut() {
        *control = CONTROL;
    }
    usage
}

/// REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS data; `serve/session/task_management.rs` executes the functions.
pub(super) fn task_management(extended: bool) -> Vec<u8> {
    const ABORT_TASK: u8 = 0x80;
    const ABORT_TASK_SET: u8 = 0x40;
    const CLEAR_TASK_SET: u8 = 0x10;
    const LOGICAL_UNIT_RESET: u8 = 0x08;
    const TARGET_RESET: u8 = 0x02;
    let mut data = vec![0; if extended { 16 } else { 4 }];
    data[0] = ABORT_TASK | ABORT_TASK_SET | CLEAR_TASK_SET | LOGICAL_UNIT_RESET | TARGET_RESET;
    if extended {
        data[3] = 12;
    }
    data
}

#[cfg(test)]
mod tests {
    use wire::scsi::{Cdb, CdbError};

    use super::*;

    #[test]
    fn the_table_is_what_is_understood() {
        for opcode in 0..=255 {
            for action in 0..32 {
                let mut cdb = [0; 16];
                cdb[..2].copy_from_slice(&[opcode, action]);
                let listed = COMMANDS.iter().filter(|command| command.opcode == opcode);
                let unknown = Cdb::parse(&cdb) == Err(CdbError::UnsupportedOpcode(opcode));
                assert_eq!(listed.clone().next().is_none(), unknown, "{opcode:#04x}");
                if listed.clone().any(|command| command.service_action.is_some()) {
                    let known = listed.clone().any(|command| command.service_action == Some(action));
                    assert_eq!(known, Cdb::parse(&cdb).is_ok(), "{opcode:#04x} {action:#04x}");
                }
            }
        }
        assert!(COMMANDS.is_sorted_by_key(|command| (command.opcode, command.service_action)));
    }

    #[test]
    fn one_command() {
        let ask = |options, opcode, service_action| {
            report(Wanted { timeouts: false, options, opcode, service_action })
        };
        let refused = Err(Sense::invalid_field(2, Some(2)));
        let read_10 = vec![0, 3, 0, 10, 0x28, 0x18, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0];
        assert_eq!(ask(1, 0x28, 0), Ok(read_10.clone()));
        assert_eq!(ask(3, 0x28, 0), Ok(read_10));
        assert_eq!(ask(2, 0x28, 0), refused);
        assert_eq!(ask(1, 0x9e, 0), refused);
        assert_eq!(ask(4, 0x28, 0), refused);
        assert_eq!(ask(2, 0x9e, 0x12).unwrap()[..6], [0, 3, 0, 16, 0x9e, 0x12]);
        for (options, opcode, action) in
            [(1, 0xff, 0), (2, 0xff, 1), (2, 0x9e, 1), (3, 0x28, 1), (3, 0xff, 0)]
        {
            assert_eq!(ask(options, opcode, action), Ok(vec![0, 1, 0, 0]), "{options} {opcode:#x} {action}");
        }
        let with = report(Wanted { timeouts: true, options: 1, opcode: 0, service_action: 0 }).unwrap();
        assert_eq!(with[..4], [0, 0x83, 0, 6]);
        assert_eq!(with[10..], [0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
