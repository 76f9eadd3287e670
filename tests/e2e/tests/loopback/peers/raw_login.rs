//! The login of initiators of our own making: one request that asks for the full feature phase at once.

use wire::iscsi::{LoginRequest, login_stage, text};

/// Who logs in, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Badge {
    pub(crate) isid: [u8; 6],
    /// 0 for a new session.
    pub(crate) tsih: u16,
    pub(crate) cid: u16,
    pub(crate) cmd_sn: u32,
}

/// The request and its text.
pub(crate) fn request(badge: Badge, keys: &[(&str, &str)]) -> (LoginRequest, Vec<u8>) {
    let Badge { isid, tsih, cid, cmd_sn } = badge;
    let mut bytes = Vec::new();
    let mut writer = text::TextWriter::new(&mut bytes);
    for (key, value) in keys {
        writer.push(key, value);
    }
    let request = LoginRequest {
        transit: true,
        is_continued: false,
        csg: login_stage::OPERATIONAL,
        nsg: login_stage::FULL_FEATURE,
        version_max: 0,
        version_min: 0,
        data_segment_len: bytes.len() as u32,
        isid,
        tsih,
        itt: 1,
        cid,
        cmd_sn,
        exp_stat_sn: 0,
    };
    (request, bytes)
}
