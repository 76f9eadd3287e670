//! SCSI commands and the data they return: SAM-5, SPC-5, SBC-4.
//!
//! Formats only: `iscsi_target` and `initiator` know the commands of a logical unit, and the meaning of a status for a
//! task.

mod block_limits;
mod capacity;
mod cdb;
mod data;
mod device_id;
mod inquiry;
mod lun;
mod mode;
mod mode_page;
mod opcodes;
mod provisioning;
mod report_luns;
mod reservation;
mod sense;
mod sense_names;
mod status;
mod vpd;

#[cfg(test)]
mod check;

pub use block_limits::BlockLimits;
pub use capacity::{Capacity10, Capacity16};
pub use cdb::{
    BlockForm, ByteCheck, Cdb, CdbError, ModeForm, PageControl, ReserveIn, ReserveOut, cdb_len, opcode,
};
pub use data::DataError;
pub use device_id::{Association, Designator, DesignatorId, DeviceIdentification};
pub use inquiry::StandardInquiry;
pub use lun::Lun;
pub use mode::{BlockDescriptor, ModeParameters};
pub use mode_page::ModePage;
pub use opcodes::{CommandTimeouts, OpcodeDescriptor, OpcodeSupport, OpcodeUsage};
pub use provisioning::{LbaStatus, LogicalBlockProvisioning, UnmapRange, emit_unmap, parse_unmap};
pub use report_luns::ReportLuns;
pub use reservation::{
    Registrant, ReservationType, ReserveCapabilities, ReserveKeys, ReserveParameters, emit_full_status,
    emit_reservation,
};
pub use sense::{FieldPointer, Sense, SenseError, SenseKey};
pub use status::Status;
pub use vpd::{BlockDeviceCharacteristics, ExtendedInquiry, SupportedPages, UnitSerialNumber, VpdPage, page};
