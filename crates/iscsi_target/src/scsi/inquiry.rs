//! INQUIRY: standard data of a LUN, and the vital product data pages 00, 80, 83, 86, B0, B1, B2.
//!
//! SPC-4 sections 6.6 and 7.8, SBC-4 section 6.6. A missing LUN answers with peripheral qualifier 3 and device type
//! 1Fh, because initiators scan for LUNs with INQUIRY.

use block::TRANSFER_MAX_BYTES;
use wire::scsi::{
    Association, BlockDeviceCharacteristics, BlockLimits, Designator, DesignatorId, DeviceIdentification,
    ExtendedInquiry, LogicalBlockProvisioning, Sense, StandardInquiry, SupportedPages, UnitSerialNumber,
    VpdPage, page,
};

use super::compare::COMPARE_AND_WRITE_MAX;
use super::provision::{UNMAP_RANGES_MAX, range_max_blocks};
use crate::lun::{Lun, PORTAL_GROUP_TAG};

const VENDOR: &str = "FARLUN";
const REVISION: &str = concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));

/// Qualifier and type of a LUN that is not there, and the byte they make.
const ABSENT_QUALIFIER: u8 = 3;
const ABSENT_TYPE: u8 = 0x1f;
const ABSENT: u8 = ABSENT_QUALIFIER << 5 | ABSENT_TYPE;

/// SPC-4.
const VERSION: u8 = 6;

/// SAM-5, SPC-4, SBC-3, iSCSI, none with a revision claimed (SPC-4 table 143).
const VERSION_DESCRIPTORS: [u16; 8] = [0x00a0, 0x0460, 0x04c0, 0x0960, 0, 0, 0, 0];

/// Protocol identifier of iSCSI (SPC-4 section 7.6.1).
const ISCSI: u8 = 5;

/// The only port of a target (SAM-5 section 4.6.5.3).
pub(super) const RELATIVE_PORT: u16 = 1;

/// Optimal transfer granularity: a page, of memory as of the cache behind a file.
const PAGE_BYTES: u32 = 4096;

/// Optimal transfer length: large enough for any line, small enough to interleave.
const TRANSFER_OPTIMAL_BYTES: u32 = 1 << 20;

/// PROVISIONING TYPE (SBC-4 section 6.6.7).
const THIN: u8 = 2;

/// No rotating medium (SBC-4 section 6.6.2).
const NON_ROTATING: u16 = 1;

const PAGES: [u8; 7] = [
    page::SUPPORTED_PAGES,
    page::UNIT_SERIAL_NUMBER,
    page::DEVICE_IDENTIFICATION,
    page::EXTENDED_INQUIRY,
    page::BLOCK_LIMITS,
    page::BLOCK_DEVICE_CHARACTERISTICS,
    page::LOGICAL_BLOCK_PROVISIONING,
];

/// Standard INQUIRY data, or the vital product data page `wanted`.
pub(super) fn inquiry(lun: Option<&Lun>, wanted: Option<u8>) -> Result<Vec<u8>, Sense> {
    match (lun, wanted) {
        (lun, None) => Ok(standard(lun)),
        (Some(lun), Some(wanted)) => vital(lun, wanted),
        (None, Some(page::SUPPORTED_PAGES)) => {
            let mut bytes = SupportedPages { pages: vec![page::SUPPORTED_PAGES] }.emit();
            bytes[0] = ABSENT;
            Ok(bytes)
        }
        (None, Some(_)) => Err(unsupported_page()),
    }
}

fn standard(lun: Option<&Lun>) -> Vec<u8> {
    let (qualifier, device_type) = if lun.is_some() { (0, 0) } else { (ABSENT_QUALIFIER, ABSENT_TYPE) };
    let data = StandardInquiry {
        qualifier,
        device_type,
        removable: false,
        version: VERSION,
        hierarchical: true,
        protect: false,
        command_queue: true,
        vendor: VENDOR.to_owned(),
        product: lun.map_or("farlun".to_owned(), |lun| format!("farlun {}", lun.kind())),
        revision: REVISION.to_owned(),
        version_descriptors: VERSION_DESCRIPTORS,
    };
    data.emit().to_vec()
}

fn vital(lun: &Lun, wanted: u8) -> Result<Vec<u8>, Sense> {
    Ok(match wanted {
        page::SUPPORTED_PAGES => SupportedPages { pages: PAGES.to_vec() }.emit(),
        page::UNIT_SERIAL_NUMBER => UnitSerialNumber { serial: lun.identity().serial.to_string() }.emit(),
        page::DEVICE_IDENTIFICATION => identification(lun).emit(),
        page::EXTENDED_INQUIRY => {
            // ORDERED and HEAD OF QUEUE are taken, and mean no more than SIMPLE.
            let volatile_cache = lun.backend().has_write_cache();
            ExtendedInquiry { simple_tasks: true, volatile_cache }.emit()
        }
        page::BLOCK_LIMITS => limits(lun).emit(),
        page::BLOCK_DEVICE_CHARACTERISTICS => {
            BlockDeviceCharacteristics { rotation_rate: NON_ROTATING, form_factor: 0 }.emit()
        }
        page::LOGICAL_BLOCK_PROVISIONING => provisioning().emit(),
        _ => return Err(unsupported_page()),
    })
}

fn identification(lun: &Lun) -> DeviceIdentification {
    let identity = lun.identity();
    let of = |association, protocol, id| Designator { association, protocol, id };
    let port_name = format!("{},t,0x{PORTAL_GROUP_TAG:04x}", identity.iqn);
    DeviceIdentification {
        designators: vec![
            of(Association::LogicalUnit, None, DesignatorId::Naa(identity.naa.as_bytes().to_vec())),
            of(
                Association::LogicalUnit,
                None,
                DesignatorId::T10VendorId { vendor: VENDOR.to_owned(), id: identity.serial.to_string() },
            ),
            of(Association::TargetPort, Some(ISCSI), DesignatorId::RelativePort(RELATIVE_PORT)),
            of(Association::TargetPort, Some(ISCSI), DesignatorId::ScsiName(port_name)),
            of(Association::TargetDevice, Some(ISCSI), DesignatorId::ScsiName(identity.iqn.clone())),
        ],
    }
}

fn limits(lun: &Lun) -> BlockLimits {
    let blocks = |bytes: u32| bytes / lun.block_len_bytes();
    BlockLimits {
        granularity: blocks(PAGE_BYTES) as u16,
        transfer_max: blocks(TRANSFER_MAX_BYTES),
        transfer_optimal: blocks(TRANSFER_OPTIMAL_BYTES),
        compare_and_write_max: COMPARE_AND_WRITE_MAX,
        unmap_max: range_max_blocks(lun),
        unmap_descriptors_max: UNMAP_RANGES_MAX,
        unmap_granularity: (lun.backend().granularity_bytes() / lun.block_len_bytes()).max(1),
        unmap_alignment: Some(0),
        write_same_max: range_max_blocks(lun).into(),
        ..BlockLimits::default()
    }
}

fn provisioning() -> LogicalBlockProvisioning {
    LogicalBlockProvisioning {
        unmap: true,
        write_same_16: true,
        write_same_10: false,
        reads_zero: 1,
        kind: THIN,
    }
}

fn unsupported_page() -> Sense {
    Sense::invalid_field(2, None)
}
