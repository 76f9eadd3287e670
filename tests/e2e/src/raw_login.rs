//! The login of initiators of our own making: one request that asks for the full feature phase at once.

use wire::iscsi::{LoginRequest, login_stage, text};

/// Session and connection of a login.
#[derive(Clone, Copy, Debug)]
pub struct Badge {
    /// ISID.
    pub isid: [u8; 6],
    /// TSIH, 0 for a new session.
    pub tsih: u16,
    /// CID of the connection.
    pub cid: u16,
    /// CmdSN of the session's first command.
    pub cmd_sn: u32,
}

/// The request and its text.
pub fn request(badge: Badge, keys: &[(&str, &str)]) -> (LoginRequest, Vec<u8>) {
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
