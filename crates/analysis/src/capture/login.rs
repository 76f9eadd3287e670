//! What a connection's login agrees on: the keys of RFC 7143 section 13 that decide how data is sent and framed.
//!
//! Whoever answers last says the result, so that of each key the last value stands that can be one. How a login goes on
//! is not checked here.

use std::ops::RangeInclusive;

use serde::Serialize;

use super::plausible::Side;

/// What was agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Agreed {
    /// Data may go with the command.
    pub immediate_data: bool,
    /// Nothing else may go before an R2T.
    pub initial_r2t: bool,
    /// FirstBurstLength.
    pub first_burst_bytes: u64,
    /// MaxBurstLength.
    pub max_burst_bytes: u64,
    /// MaxOutstandingR2T.
    pub max_outstanding_r2t: u64,
    /// MaxRecvDataSegmentLength of the initiator, and of the target.
    pub segment_bytes: [u64; 2],
}

/// The text of a login as far as it was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Login {
    agreed: Agreed,
    header_digest: Option<bool>,
    data_digest: Option<bool>,
    /// Some of the text of the initiator, and of the target, is not in the capture.
    is_hidden: [bool; 2],
}

impl Default for Login {
    /// What holds if nothing is said: RFC 7143 section 13.
    fn default() -> Self {
        let agreed = Agreed {
            immediate_data: true,
            initial_r2t: true,
            first_burst_bytes: 65_536,
            max_burst_bytes: 262_144,
            max_outstanding_r2t: 1,
            segment_bytes: [8_192; 2],
        };
        Self { agreed, header_digest: None, data_digest: None, is_hidden: [false; 2] }
    }
}

const BURST: RangeInclusive<u64> = 512..=0xff_ffff;
const R2TS: RangeInclusive<u64> = 1..=0xffff;

impl Login {
    /// Takes the text of a PDU that `side` sent, with `len` bytes of data, of which those of `text` are known.
    pub(super) fn take(&mut self, side: Side, text: &[u8], len: u64) {
        self.is_hidden[usize::from(side == Side::Target)] |= (text.len() as u64) < len;
        let text = text.get(..len as usize).unwrap_or(text);
        let pairs = text.split(|byte| *byte == 0).filter_map(|pair| std::str::from_utf8(pair).ok());
        for (key, value) in pairs.filter_map(|pair| pair.split_once('=')) {
            self.key(side, key, value);
        }
    }

    fn key(&mut self, side: Side, key: &str, value: &str) {
        let agreed = &mut self.agreed;
        let own_segment = &mut agreed.segment_bytes[usize::from(side == Side::Target)];
        match key {
            // An offer is a list; what the target says is its choice.
            "HeaderDigest" if side == Side::Target => self.header_digest = Some(value == "CRC32C"),
            "DataDigest" if side == Side::Target => self.data_digest = Some(value == "CRC32C"),
            "ImmediateData" => set(&mut agreed.immediate_data, truth(value)),
            "InitialR2T" => set(&mut agreed.initial_r2t, truth(value)),
            "FirstBurstLength" => set(&mut agreed.first_burst_bytes, number(value, BURST)),
            "MaxBurstLength" => set(&mut agreed.max_burst_bytes, number(value, BURST)),
            "MaxOutstandingR2T" => set(&mut agreed.max_outstanding_r2t, number(value, R2TS)),
            "MaxRecvDataSegmentLength" => set(own_segment, number(value, BURST)),
            _ => {}
        }
    }

    /// What was agreed on, if all of its text was seen.
    pub(super) fn agreed(&self) -> Option<Agreed> {
        (self.is_hidden == [false; 2]).then_some(self.agreed)
    }

    /// Which digests follow headers and data; `None` if the target's choice is not in the capture.
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

/// A numerical value, which may be in hexadecimal digits: RFC 7143 section 6.1.
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
    fn who_answers_last_says_the_result() {
        let mut login = Login::default();
        let offer = b"InitialR2T=No\0ImmediateData=Yes\0FirstBurstLength=0x40000\0MaxBurstLength=16776192\0\
                      MaxOutstandingR2T=8\0MaxRecvDataSegmentLength=262144\0HeaderDigest=None,CRC32C\0";
        login.take(Side::Initiator, offer, offer.len() as u64);
        let answer = b"InitialR2T=Yes\0ImmediateData=Yes\0FirstBurstLength=65536\0MaxBurstLength=262144\0\
                       MaxOutstandingR2T=Reject\0MaxRecvDataSegmentLength=8192\0HeaderDigest=CRC32C\0";
        login.take(Side::Target, answer, answer.len() as u64);
        let expected = Agreed {
            immediate_data: true,
            initial_r2t: true,
            first_burst_bytes: 65_536,
            max_burst_bytes: 262_144,
            max_outstanding_r2t: 8,
            segment_bytes: [262_144, 8_192],
        };
        assert_eq!(login.agreed(), Some(expected));
        assert_eq!(login.digests(), Some((true, false)), "without a word there is none");
        login.take(Side::Target, b"InitialR2T=N", 40);
        assert_eq!((login.agreed(), login.digests()), (None, None));
        login.take(Side::Target, b"DataDigest=None", 40);
        assert_eq!((login.agreed(), login.digests()), (None, Some((true, false))));
    }

    #[test]
    fn what_no_login_can_say_is_passed_over() {
        let mut login = Login::default();
        let text = b"\0\0=\0X\0FirstBurstLength=1\0MaxBurstLength=99999999999999999999\0InitialR2T=yes\0=Yes";
        login.take(Side::Initiator, text, text.len() as u64);
        assert_eq!(login.agreed(), Login::default().agreed());
    }
}
