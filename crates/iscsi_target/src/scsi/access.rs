//! Access that each command needs to a reserved LUN: SPC-4 table 66, SBC-4 table 13.

use wire::scsi::Cdb;

use crate::lun::Need;

pub(super) fn need(cdb: &Cdb) -> Need {
    match *cdb {
        Cdb::Inquiry { .. } | Cdb::ReportLuns { .. } | Cdb::RequestSense { .. } => Need::Nothing,
        Cdb::TestUnitReady
        | Cdb::ReadCapacity10
        | Cdb::ReadCapacity16 { .. }
        | Cdb::PreventAllow { prevent: 0 }
        | Cdb::StartStop { start: true, power_condition: 0, .. } => Need::Presence,
        Cdb::Read { .. }
        | Cdb::Verify { .. }
        | Cdb::PreFetch { .. }
        | Cdb::GetLbaStatus { .. }
        | Cdb::ReportOpcodes { .. }
        | Cdb::ReportTaskManagement { .. } => Need::Read,
        Cdb::Write { .. }
        | Cdb::WriteAndVerify { .. }
        | Cdb::WriteSame { .. }
        | Cdb::Unmap { .. }
        | Cdb::CompareAndWrite { .. }
        | Cdb::OrWrite { .. }
        | Cdb::SynchronizeCache { .. }
        | Cdb::ModeSense { .. }
        | Cdb::ModeSelect { .. }
        | Cdb::StartStop { .. }
        | Cdb::PreventAllow { .. } => Need::Write,
        Cdb::Reserve { .. } => Need::Reserve,
        Cdb::Release { .. } => Need::Release,
        Cdb::PersistentReserveIn { .. } | Cdb::PersistentReserveOut { .. } => Need::Persistent,
    }
}
