//! Result of a login: the operational parameters of one connection and its session, and the wishes that each side
//! brings to the negotiation.
//!
//! Plain data. `keys` combines two wishes into one parameter; this file holds only the defaults of RFC 7143 section 13
//! and of farlun.

use event::{Host, Instant, Login};

/// A digest over PDU headers or data (RFC 7143 section 13.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Digest {
    /// No digest.
    #[default]
    None,
    /// CRC32C, the Castagnoli polynomial.
    Crc32c,
}

impl Digest {
    /// The value of the key: `None` or `CRC32C`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Digest::None => "None",
            Digest::Crc32c => "CRC32C",
        }
    }
}

/// The parameters in force after a login. Names follow the keys of RFC 7143 section 13.
///
/// "Our" and "peer" are seen from the side that holds the struct, so the two ends of one session
/// hold the two `max_recv_data_segment_len` fields exchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// `InitialR2T` (13.10): the initiator waits for an R2T before any data outside the command PDU.
    pub initial_r2t: bool,
    /// `ImmediateData` (13.11): data may travel in the command PDU.
    pub immediate_data: bool,
    /// `MaxRecvDataSegmentLength` (13.12) of this side: the longest data segment it accepts, in bytes.
    pub our_max_recv_data_segment_len: u32,
    /// `MaxRecvDataSegmentLength` (13.12) of the peer: the longest data segment that may be sent, in bytes.
    pub peer_max_recv_data_segment_len: u32,
    /// `MaxBurstLength` (13.13): the longest Data-In or solicited Data-Out sequence, in bytes.
    pub max_burst_len: u32,
    /// `FirstBurstLength` (13.14): the most unsolicited data of one command, immediate data included, in
    /// bytes. Never above `max_burst_len`.
    pub first_burst_len: u32,
    /// `MaxOutstandingR2T` (13.17): R2Ts outstanding for one task.
    pub max_outstanding_r2t: u16,
    /// `MaxConnections` (13.2) of the session.
    pub max_connections: u16,
    /// `ErrorRecoveryLevel` (13.20), 0 to 2.
    pub error_recovery_level: u8,
    /// `DefaultTime2Wait` (13.15): seconds to wait before a reconnect or task reassignment.
    pub default_time2wait_s: u16,
    /// `DefaultTime2Retain` (13.16): seconds that the session state is kept after the wait; 0 keeps nothing.
    pub default_time2retain_s: u16,
    /// `HeaderDigest` (13.1) of every PDU after the login.
    pub header_digest: Digest,
    /// `DataDigest` (13.1) of every PDU with data after the login.
    pub data_digest: Digest,
    /// `DataPDUInOrder` (13.18): the PDUs of a sequence come at increasing offsets.
    pub data_pdu_in_order: bool,
    /// `DataSequenceInOrder` (13.19): the sequences of a task come at increasing offsets.
    pub data_sequence_in_order: bool,
    /// `iSCSIProtocolLevel` (13.24): 0 no claim, 1 RFC 7143, 2 RFC 7144.
    pub protocol_level: u8,
    /// Software and version of a farlun peer, such as `farlun/0.1.0`; `None` for any other peer.
    pub peer_software: Option<String>,
}

impl Params {
    /// The values in force when no key is negotiated (the defaults of RFC 7143 section 13).
    pub const RFC_DEFAULT: Params = Params {
        initial_r2t: true,
        immediate_data: true,
        our_max_recv_data_segment_len: 8192,
        peer_max_recv_data_segment_len: 8192,
        max_burst_len: 262_144,
        first_burst_len: 65_536,
        max_outstanding_r2t: 1,
        max_connections: 1,
        error_recovery_level: 0,
        default_time2wait_s: 2,
        default_time2retain_s: 20,
        header_digest: Digest::None,
        data_digest: Digest::None,
        data_pdu_in_order: true,
        data_sequence_in_order: true,
        protocol_level: 1,
        peer_software: None,
    };

    /// The parameters of a further connection of a session with `session`: its own segments and digests, and the
    /// session keys as negotiated by the leading connection.
    pub fn of_connection(self, session: Params) -> Params {
        Params {
            our_max_recv_data_segment_len: self.our_max_recv_data_segment_len,
            peer_max_recv_data_segment_len: self.peer_max_recv_data_segment_len,
            header_digest: self.header_digest,
            data_digest: self.data_digest,
            ..session
        }
    }

    /// The recorded part of the parameters, seen from the side of `host`; the caller completes the row.
    pub fn recorded(&self, host: Host) -> Login {
        let (ours, peers) = (self.our_max_recv_data_segment_len, self.peer_max_recv_data_segment_len);
        let (near, far) = if host == Host::Near { (ours, peers) } else { (peers, ours) };
        Login {
            t: Instant::ZERO,
            host,
            session: 0,
            cid: 0,
            connection: 0,
            immediate_data: self.immediate_data,
            initial_r2t: self.initial_r2t,
            first_burst_bytes: self.first_burst_len,
            max_burst_bytes: self.max_burst_len,
            max_outstanding_r2t: self.max_outstanding_r2t.into(),
            near_segment_bytes: near,
            far_segment_bytes: far,
            caller_depth: 0,
            queue_limit: 0,
            has_nagle: false,
            send_buffer_max_bytes: 0,
            receive_buffer_max_bytes: 0,
        }
    }

    /// Bytes of data that a command PDU of a write may carry.
    pub fn immediate_data_limit(&self) -> u32 {
        if self.immediate_data { self.first_burst_len.min(self.peer_max_recv_data_segment_len) } else { 0 }
    }
}

impl Default for Params {
    fn default() -> Params {
        Params::RFC_DEFAULT
    }
}

/// Wishes of this side. The meaning of each field is that of the same field in [`Params`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// Requests that the initiator wait for an R2T; false requests unsolicited data.
    pub initial_r2t: bool,
    /// Requests immediate data.
    pub immediate_data: bool,
    /// The longest data segment that this side accepts, in bytes, 512 to 2^24 - 1.
    pub max_recv_data_segment_len: u32,
    /// Bytes, 512 to 2^24 - 1.
    pub max_burst_len: u32,
    /// Bytes, 512 to 2^24 - 1.
    pub first_burst_len: u32,
    /// 1 to 65535. Offered as 1 when `error_recovery_level` is above 0 (RFC 7143 section 13.17).
    pub max_outstanding_r2t: u16,
    /// 1 to 65535.
    pub max_connections: u16,
    /// 0 to 2.
    pub error_recovery_level: u8,
    /// Seconds, 0 to 3600.
    pub default_time2wait_s: u16,
    /// Seconds, 0 to 3600.
    pub default_time2retain_s: u16,
    /// Usable header digests, the preferred one first; never empty.
    pub header_digests: &'static [Digest],
    /// Usable data digests, the preferred one first; never empty.
    pub data_digests: &'static [Digest],
}

impl Wishes {
    /// The longest burst to request: the largest multiple of 4096 that fits the 24 bits of the key.
    pub const LONGEST_BURST: u32 = (1 << 24) - 4096;

    /// No digest, unless the peer insists on one.
    pub const DIGEST_IF_ASKED: &'static [Digest] = &[Digest::None, Digest::Crc32c];

    /// A digest, unless the peer refuses digests.
    pub const DIGEST_IF_POSSIBLE: &'static [Digest] = &[Digest::Crc32c, Digest::None];

    /// A digest, or no session.
    pub const DIGEST_ALWAYS: &'static [Digest] = &[Digest::Crc32c];

    /// The same wish for the digests of headers and of data.
    pub fn with_digests(self, digests: &'static [Digest]) -> Wishes {
        Wishes { header_digests: digests, data_digests: digests, ..self }
    }
}

impl Default for Wishes {
    /// Wishes that save round trips on a long path.
    fn default() -> Wishes {
        Wishes {
            initial_r2t: false,
            immediate_data: true,
            max_recv_data_segment_len: 262_144,
            max_burst_len: Wishes::LONGEST_BURST,
            first_burst_len: Wishes::LONGEST_BURST,
            max_outstanding_r2t: 64,
            max_connections: 1,
            error_recovery_level: 0,
            default_time2wait_s: 2,
            default_time2retain_s: 0,
            header_digests: Wishes::DIGEST_IF_ASKED,
            data_digests: Wishes::DIGEST_IF_ASKED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_burst_is_a_multiple_of_every_block_size_and_fits_the_key() {
        let wishes = Wishes::default();
        assert_eq!(wishes.max_burst_len, 16_773_120);
        assert!(wishes.max_burst_len < 1 << 24 && wishes.max_burst_len.is_multiple_of(4096));
        assert!(wishes.first_burst_len <= wishes.max_burst_len);
    }

    #[test]
    fn immediate_data_is_limited_by_both_lengths() {
        let mut params = Params::RFC_DEFAULT;
        assert_eq!(params.immediate_data_limit(), 8192);
        params.peer_max_recv_data_segment_len = 1 << 20;
        assert_eq!(params.immediate_data_limit(), 65_536);
        params.immediate_data = false;
        assert_eq!(params.immediate_data_limit(), 0);
    }
}
