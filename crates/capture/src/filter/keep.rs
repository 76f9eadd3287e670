//! Part of each packet that a capture keeps.

/// Part of a packet that is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keep {
    /// Number of its first bytes.
    pub snap_bytes: u32,
    /// With TCP also its headers, however long, and so many bytes of payload.
    pub payload_bytes: Option<u32>,
}

impl Keep {
    /// Bytes kept of a packet. `headers_len` is the length of its headers up to TCP, `None` for other protocols.
    pub fn of(self, headers_len: Option<usize>) -> usize {
        let snap = self.snap_bytes as usize;
        match (self.payload_bytes, headers_len) {
            (Some(payload), Some(headers)) => snap.max(headers + payload as usize),
            _ => snap,
        }
    }
}
