//! Targets for SCSI commands and the data they return.

use wire::scsi::{
    BlockDeviceCharacteristics, BlockLimits, Capacity10, Capacity16, Cdb, DeviceIdentification, ModeForm,
    ModeParameters, ReportLuns, Sense, StandardInquiry, SupportedPages, UnitSerialNumber, VpdPage,
};

/// A command descriptor block.
pub(crate) fn cdb(data: &[u8]) {
    let Some(cdb) = data.first_chunk() else { return };
    if let Ok(command) = Cdb::parse(cdb) {
        assert_eq!(Cdb::parse(&command.emit()), Ok(command));
    }
}

/// Sense data of either format.
pub(crate) fn sense(data: &[u8]) {
    let Ok(sense) = Sense::parse(data) else { return };
    assert!(!sense.to_string().is_empty());
    assert_eq!(Sense::parse(&sense.emit_descriptor()), Ok(sense));
    let fits = sense.information.is_none_or(|information| u32::try_from(information).is_ok());
    if fits {
        assert_eq!(Sense::parse(&sense.emit_fixed()), Ok(sense));
    }
}

/// A byte that chooses the kind, then at most 4096 bytes of data. Written data can be longer than what was read.
pub(crate) fn data(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    let data = &data[..data.len().min(4096)];
    match kind % 10 {
        0 => check(data, StandardInquiry::parse, |value| value.emit().to_vec()),
        1 => check(data, SupportedPages::parse, SupportedPages::emit),
        2 => check(data, UnitSerialNumber::parse, UnitSerialNumber::emit),
        3 => check(data, DeviceIdentification::parse, DeviceIdentification::emit),
        4 => check(data, BlockLimits::parse, BlockLimits::emit),
        5 => check(data, BlockDeviceCharacteristics::parse, BlockDeviceCharacteristics::emit),
        6 => check(data, Capacity10::parse, |value| value.emit().to_vec()),
        7 => check(data, Capacity16::parse, |value| value.emit().to_vec()),
        8 => check(data, ReportLuns::parse, ReportLuns::emit),
        _ => {
            let _ = ModeParameters::parse(ModeForm::Six, data);
            check(data, |data| ModeParameters::parse(ModeForm::Ten, data), |value| value.emit(ModeForm::Ten));
        }
    }
}

fn check<T: PartialEq + std::fmt::Debug, E: PartialEq + std::fmt::Debug>(
    data: &[u8],
    parse: impl Fn(&[u8]) -> Result<T, E>,
    emit: impl Fn(&T) -> Vec<u8>,
) {
    if let Ok(value) = parse(data) {
        assert_eq!(parse(&emit(&value)), Ok(value));
    }
}
