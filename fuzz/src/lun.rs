//! The targets `lun` and `reservations`: SCSI commands of several sessions on LUNs in memory, and files of reservations.

use std::collections::BTreeMap;
use std::fs;

use block::TRANSFER_MAX_BYTES;
use iscsi_target::lun::{LunSpec, Luns, Nexus, Opening, Port};
use iscsi_target::scsi::{Outcome, Transfer, execute, execute_with};
use tempfile::TempDir;
use wire::iscsi::Lun as Address;
use wire::scsi::{Cdb, ReserveIn};

use crate::folder::folder;
use crate::input::Input;

const IQN: &str = "iqn.2026-11.io.farlun:fuzz";
const SESSIONS: u64 = 3;
const LUN_BYTES: u64 = 64 << 10;
/// Bytes of parameters that are made up; one who wants more gets none.
const PARAMETERS_MAX: u32 = 64 << 10;

fn port(nexus: u64) -> Port {
    // The first two are one initiator with two sessions.
    Port { name: format!("iqn.2026-11.org.example:{}", nexus / 2), isid: [nexus as u8; 6], user: None }
}

/// Commands of three sessions on two LUNs, with resets and logouts between them.
pub(crate) fn lun(data: &[u8]) {
    let specs: BTreeMap<u16, LunSpec> = [(0, "memory:64KiB"), (1, "memory:64KiB,block=4096,ro")]
        .map(|(n, spec)| (n, spec.parse().expect("a LUN")))
        .into();
    let mut luns = Luns::open(&specs, Opening::of(IQN, None)).expect("memory can be served");
    // Nexus numbers are used once.
    let (mut nexuses, mut last) = ([0; SESSIONS as usize], 0);
    for (place, nexus) in nexuses.iter_mut().enumerate() {
        last += 1;
        *nexus = last;
        luns.begin(Nexus(last), port(place as u64));
    }
    let mut input = Input::new(data);
    while !input.is_empty() {
        let pick = input.byte();
        let place = usize::from(pick) % nexuses.len();
        let nexus = Nexus(nexuses[place]);
        let address = Address::from_number(u16::from(pick >> 2 & 1));
        match pick >> 3 {
            0 => luns.reset(None),
            1 => luns.reset(Some(address)),
            2 | 3 => {
                luns.end(nexus, pick >> 3 == 2);
                last += 1;
                nexuses[place] = last;
                luns.begin(Nexus(last), port(place as u64));
            }
            _ => command(&mut luns, &mut input, address, nexus),
        }
    }
}

fn command(luns: &mut Luns, input: &mut Input<'_>, address: Address, nexus: Nexus) {
    let mut cdb = [0; 16];
    cdb.fill_with(|| input.byte());
    let outcome = match execute(luns, address, nexus, &cdb) {
        Outcome::Parameters { len_bytes } if len_bytes <= PARAMETERS_MAX => {
            let mut list = vec![0; len_bytes as usize];
            list.iter_mut().take(64).for_each(|byte| *byte = input.byte());
            execute_with(luns, address, nexus, &cdb, &list)
        }
        outcome => outcome,
    };
    match outcome {
        Outcome::Read(transfer) | Outcome::Write(transfer) => check(transfer),
        Outcome::Sync | Outcome::Keep(_) => panic!("memory is neither synced nor kept: {cdb:02x?}"),
        Outcome::DataIn(data) => assert!(data.len() <= 1 << 20, "{} bytes for {cdb:02x?}", data.len()),
        _ => {}
    }
}

fn check(Transfer { offset_bytes, len_bytes, .. }: Transfer) {
    assert!(len_bytes > 0 && len_bytes <= TRANSFER_MAX_BYTES);
    assert!(offset_bytes + u64::from(len_bytes) <= LUN_BYTES);
}

/// A file LUN beside which a file of reservations lies.
struct Room {
    folder: TempDir,
    specs: BTreeMap<u16, LunSpec>,
}

impl Room {
    fn new() -> Room {
        let folder = folder();
        let disk = folder.path().join("disk");
        fs::File::create(&disk).and_then(|file| file.set_len(4096)).expect("a file");
        let spec = format!("file:{}", disk.display()).parse().expect("a LUN");
        Room { folder, specs: [(0, spec)].into() }
    }

    /// Serves the LUN with a file of reservations. Damage is an error; what is taken is shown to initiators.
    fn open(&self, text: &[u8]) {
        fs::write(self.folder.path().join("disk.farlun-reservations"), text)
            .expect("the file can be written");
        let opening = Opening { is_look: true, ..Opening::of(IQN, Some(self.folder.path())) };
        let Ok(mut luns) = Luns::open(&self.specs, opening) else { return };
        luns.begin(Nexus(1), port(0));
        for action in [ReserveIn::ReadFullStatus, ReserveIn::ReadKeys, ReserveIn::ReadReservation] {
            let cdb = Cdb::PersistentReserveIn { action, allocation_len: u16::MAX }.emit();
            // The first command meets the unit attention.
            for _ in 0..2 {
                let outcome = execute(&mut luns, Address::from_number(0), Nexus(1), &cdb);
                assert!(matches!(outcome, Outcome::DataIn(_) | Outcome::Check(_)), "{outcome:?}");
            }
        }
    }
}

/// Files of reservations as they are, and as the body of one without a checksum.
pub(crate) fn reservations(data: &[u8]) {
    let room = Room::new();
    room.open(data);
    room.open(&[b"farlun reservations 1\n", data, b"\nend\n"].concat());
}
