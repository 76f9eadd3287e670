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
}

/// Negotiation of a connection, as far as the capture has its text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Login {
    parameters: NegotiatedParameters,
    header_digest: Option<bool>,
    data_digest: Option<bool>,
    /// Some text of the initiator, and of the target, is not in the capture.
    is_hidden: [bool; 2],
}

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
        };
        Self { parameters, header_digest: None, data_digest: None, is_hidden: [false; 2] }
    }
}

const BURST: RangeInclusive<u64> = 512..=0xff_ffff;
const R2TS: RangeInclusive<u64> = 1..=0xffff;

impl Login {
    /// Takes a login PDU of `sender` with `len` bytes of data, the first of which are known as `text`.
    pub(super) fn take(&mut self, sender: Role, text: &[u8], len: u64) {
        self.is_hidden[usize::from(sender == Role::Target)] |= (text.len() as u64) < len;
        let text = text.get(..len as usize).unwrap_or(text);
        let pairs = text.split(|byte| *byte == 0).filter_map(|pair| std::str::from_utf8(pair).ok());
        for (key, value) in pairs.filter_map(|pair| pair.split_once('=')) {
            self.key(sender, key, value);
        }
    }

    fn key(&mut self, sender: Role, key: &str, value: &str) {
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

    /// Negotiated parameters, if all text is in the capture.
    pub(super) fn parameters(&self) -> Option<NegotiatedParameters> {
        (self.is_hidden == [false; 2]).then_some(self.parameters)
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

    #[test]
    fn the_last_answer_is_the_result() {
        let mut login = Login::default();
        let offer = b"InitialR2T=No\0ImmediateData=Yes\0FirstBurstLength=0x40000\0MaxBurstLength=16776192\0\
                      MaxOutstandingR2T=8\0MaxRecvDataSegmentLength=262144\0HeaderDigest=None,CRC32C\0";
        login.take(Role::Initiator, offer, offer.len() as u64);
        let answer = b"InitialR2T=Yes\0ImmediateData=Yes\0FirstBurstLength=65536\0MaxBurstLength=262144\0\
                       MaxOutstandingR2T=Reject\0MaxRecvDataSegmentLength=8192\0HeaderDigest=CRC32C\0";
        login.take(Role::Target, answer, answer.len() as u64);
        let expected = NegotiatedParameters {
            immediate_data: true,
            initial_r2t: true,
            first_burst_bytes: 65_536,
            max_burst_bytes: 262_144,
            max_outstanding_r2t: 8,
            segment_bytes: [262_144, 8_192],
        };
        assert_eq!(login.parameters(), Some(expected));
        assert_eq!(login.digests(), Some((true, false)), "without a word there is none");
        login.take(Role::Target, b"InitialR2T=N", 40);
        assert_eq!((login.parameters(), login.digests()), (None, None));
        login.take(Role::Target, b"DataDigest=None", 40);
        assert_eq!((login.parameters(), login.digests()), (None, Some((true, false))));
    }

    #[test]
    fn invalid_values_are_ignored() {
        let mut login = Login::default();
        let text = b"\0\0=\0X\0FirstBurstLength=1\0MaxBurstLength=99999999999999999999\0InitialR2T=yes\0=Yes";
        login.take(Role::Initiator, text, text.len() as u64);
        assert_eq!(login.parameters(), Login::default().parameters());
    }
}
