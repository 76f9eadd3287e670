//! Login negotiation: the keys of RFC 7143 section 13 that determine data transfer and framing.
//!
//! The last valid value of each key counts, because the answer to an offer is the result. The sequence of the login is
//! not checked.

use std::ops::RangeInclusive;

use serde::Serialize;

use crate::iscsi::role::Role;

/// Operational parameters that a login negotiated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct NegotiatedParameters {
    /// ImmediateData.
    pub immediate_data: bool,
    /// InitialR2T.
    pub initial_r2t: bool,
    /// FirstBurstLength in bytes.
    pub first_burst_bytes: u64,
    /// MaxBurstLength in bytes.
    pub max_burst_bytes: u64,
    /// MaxOutstandingR2T.
    pub max_outstanding_r2t: u64,
    /// MaxRecvDataSegmentLength of the initiator, and of the target, in bytes.
    pub segment_bytes: [u64; 2],
    /// Number of the first five that were not said by both sides: the defaults of RFC 7143 hold.
    pub defaults: u8,
}

/// Negotiation of a connection, as far as the capture has its text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Login {
    parameters: NegotiatedParameters,
    header_digest: Option<bool>,
    data_digest: Option<bool>,
    /// PDUs of the initiator, and of the target, are in the capture.
    is_seen: [bool; 2],
    /// Some text of the initiator, and of the target, is not in the capture.
    is_hidden: [bool; 2],
    /// Keys that the initiator, and the target, has said; a bit for each of [`AGREED`].
    said: [u8; 2],
    progress: Progress,
    /// The connection was added to a session, whose parameters another login has negotiated.
    joins: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Progress {
    /// The beginning of the connection is not in the capture.
    #[default]
    Unknown,
    /// The connection has begun.
    Begun,
    /// The target has accepted the login.
    Accepted,
    /// Something else followed before the target had accepted it.
    LeftOpen,
}

/// Keys whose value both sides agree on: RFC 7143 section 13.
const AGREED: [&str; 5] =
    ["ImmediateData", "InitialR2T", "FirstBurstLength", "MaxBurstLength", "MaxOutstandingR2T"];

impl Default for Login {
    /// Default values of RFC 7143 section 13.
    fn default() -> Self {
        let parameters = NegotiatedParameters {
            immediate_data: true,
            initial_r2t: true,
            first_burst_bytes: 65_536,
            max_burst_bytes: 262_144,
            max_outstanding_r2t: 1,
            segment_bytes: [8_192; 2],
            defaults: 0,
        };
        Self {
            parameters,
            header_digest: None,
            data_digest: None,
            is_seen: [false; 2],
            is_hidden: [false; 2],
            said: [0; 2],
            progress: Progress::default(),
            joins: false,
        }
    }
}

const BURST: RangeInclusive<u64> = 512..=0xff_ffff;
const R2TS: RangeInclusive<u64> = 1..=0xffff;

impl Login {
    /// Takes the beginning of the connection.
    pub(super) fn begin(&mut self) {
        if self.progress == Progress::Unknown {
            self.progress = Progress::Begun;
        }
    }

    /// True if a login request is in the capture.
    pub(super) fn is_seen(&self) -> bool {
        self.is_seen[0]
    }

    /// Takes a request; `has_handle` if it names a session.
    pub(super) fn request(&mut self, text: &[u8], len: u64, has_handle: bool) {
        self.joins |= !self.is_seen[0] && has_handle;
        self.take(Role::Initiator, text, len);
    }

    /// Takes a response; `is_last` if it accepts the login.
    pub(super) fn response(&mut self, text: &[u8], len: u64, is_last: bool) {
        self.take(Role::Target, text, len);
        if is_last && self.progress == Progress::Begun {
            self.progress = Progress::Accepted;
        }
    }

    /// Takes a PDU that is none of a login; true if it is the first one and the login was not accepted.
    pub(super) fn end(&mut self) -> bool {
        let is_open = self.progress == Progress::Begun;
        if is_open {
            self.progress = Progress::LeftOpen;
        }
        is_open
    }

    /// Takes a login PDU of `sender` with `len` bytes of data, the first of which are known as `text`.
    fn take(&mut self, sender: Role, text: &[u8], len: u64) {
        let side = usize::from(sender == Role::Target);
        self.is_seen[side] = true;
        self.is_hidden[side] |= (text.len() as u64) < len;
        let text = text.get(..len as usize).unwrap_or(text);
        let pairs = text.split(|byte| *byte == 0).filter_map(|pair| std::str::from_utf8(pair).ok());
        for (key, value) in pairs.filter_map(|pair| pair.split_once('=')) {
            self.key(sender, key, value);
        }
    }

    fn key(&mut self, sender: Role, key: &str, value: &str) {
        if let Some(place) = AGREED.iter().position(|agreed| *agreed == key) {
            self.said[usize::from(sender == Role::Target)] |= 1 << place;
        }
        let parameters = &mut self.parameters;
        let own_segment = &mut parameters.segment_bytes[usize::from(sender == Role::Target)];
        match key {
            // The initiator offers a list, the target answers with its choice.
            "HeaderDigest" if sender == Role::Target => self.header_digest = Some(value == "CRC32C"),
            "DataDigest" if sender == Role::Target => self.data_digest = Some(value == "CRC32C"),
            "ImmediateData" => set(&mut parameters.immediate_data, truth(value)),
            "InitialR2T" => set(&mut parameters.initial_r2t, truth(value)),
            "FirstBurstLength" => set(&mut parameters.first_burst_bytes, number(value, BURST)),
            "MaxBurstLength" => set(&mut parameters.max_burst_bytes, number(value, BURST)),
            "MaxOutstandingR2T" => set(&mut parameters.max_outstanding_r2t, number(value, R2TS)),
            "MaxRecvDataSegmentLength" => set(own_segment, number(value, BURST)),
            _ => {}
        }
    }

    /// Negotiated parameters, if all text of both sides is in the capture, and the target has accepted the login.
    pub(super) fn parameters(&self) -> Option<NegotiatedParameters> {
        let is_whole = self.is_seen == [true; 2] && self.is_hidden == [false; 2];
        let is_own = self.progress == Progress::Accepted && !self.joins;
        let [offered, answered] = self.said;
        let unsaid = AGREED.iter().enumerate().filter(|(n, _)| (offered & answered) >> n & 1 == 0).count();
        let parameters = NegotiatedParameters { defaults: unsaid as u8, ..self.parameters };
        (is_whole && is_own).then_some(parameters)
    }

    /// Presence of header and data digests; `None` if the target's choice is not in the capture.
    pub(super) fn digests(&self) -> Option<(bool, bool)> {
        match (self.header_digest, self.data_digest) {
            (Some(header), Some(data)) => Some((header, data)),
            _ if self.is_hidden[1] => None,
            (header, data) => Some((header.unwrap_or(false), data.unwrap_or(false))),
        }
    }
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

fn truth(value: &str) -> Option<bool> {
    match value {
        "Yes" => Some(true),
        "No" => Some(false),
        _ => None,
    }
}

/// A numerical value in decimal or hexadecimal digits: RFC 7143 section 6.1.
fn number(value: &str, range: RangeInclusive<u64>) -> Option<u64> {
    let hexadecimal = value.strip_prefix("0x").or_else(|| value.strip_prefix("0X"));
    let number = match hexadecimal {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => value.parse(),
    };
    number.ok().filter(|number| range.contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A login with these texts, of which the capture has so many bytes.
    fn login(offer: &[u8], answer: &[u8], kept: [usize; 2]) -> Login {
        let mut login = Login::default();
        login.begin();
        let [offered, answered] = kept;
        login.request(&offer[..offered.min(offer.len())], offer.len() as u64, false);
        login.response(&answer[..answered.min(answer.len())], answer.len() as u64, true);
        login
    }

    const OFFER: &[u8] =
        b"InitialR2T=No\0ImmediateData=Yes\0FirstBurstLength=0x40000\0MaxBurstLength=16776192\0\
                           MaxOutstandingR2T=8\0MaxRecvDataSegmentLength=262144\0HeaderDigest=None,CRC32C\0";
    const ANSWER: &[u8] =
        b"InitialR2T=Yes\0ImmediateData=Yes\0FirstBurstLength=65536\0MaxBurstLength=262144\0\
                            MaxOutstandingR2T=Reject\0MaxRecvDataSegmentLength=8192\0HeaderDigest=CRC32C\0";

    #[test]
    fn the_last_answer_is_the_result() {
        let mut whole = login(OFFER, ANSWER, [1_000; 2]);
        let expected = NegotiatedParameters {
            immediate_data: true,
            initial_r2t: true,
            first_burst_bytes: 65_536,
            max_burst_bytes: 262_144,
            max_outstanding_r2t: 8,
            segment_bytes: [262_144, 8_192],
            defaults: 0,
        };
        assert_eq!(whole.parameters(), Some(expected));
        assert_eq!(whole.digests(), Some((true, false)), "without a word there is none");
        whole.response(b"InitialR2T=N", 40, false);
        assert_eq!((whole.parameters(), whole.digests()), (None, None));
        whole.response(b"DataDigest=None", 40, false);
        assert_eq!((whole.parameters(), whole.digests()), (None, Some((true, false))));
    }

    #[test]
    fn nothing_is_agreed_on_by_one_side_alone() {
        let mut one = Login::default();
        one.begin();
        one.request(OFFER, OFFER.len() as u64, false);
        assert_eq!(one.parameters(), None);
        assert_eq!(login(OFFER, ANSWER, [30, 1_000]).parameters(), None);
        assert_eq!(login(OFFER, ANSWER, [1_000, 30]).parameters(), None);
        let silent = login(OFFER, b"InitialR2T=Yes\0", [1_000; 2]).parameters();
        assert_eq!(silent.map(|agreed| agreed.defaults), Some(4));
    }

    #[test]
    fn a_login_that_is_left_open_is_noticed_once() {
        let mut open = Login::default();
        assert!(!open.end(), "nothing is known of its beginning");
        open.begin();
        assert!(open.end() && !open.end());
        assert!(!login(OFFER, ANSWER, [0; 2]).end());
    }

    #[test]
    fn invalid_values_are_ignored() {
        let text = b"\0\0=\0X\0FirstBurstLength=1\0MaxBurstLength=99999999999999999999\0InitialR2T=yes\0=Yes";
        let found = login(text, text, [1_000; 2]).parameters().expect("a login");
        assert_eq!(NegotiatedParameters { defaults: 0, ..found }, Login::default().parameters);
    }
}
