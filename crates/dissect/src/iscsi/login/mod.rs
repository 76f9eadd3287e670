//! Login: its progress, and the keys of RFC 7143 section 13 that determine data transfer and framing.
//!
//! The last value of each key counts, because the answer to an offer is the result. The sequence of the login is not
//! checked.

pub(crate) mod negotiation;

use crate::iscsi::login::negotiation::{Keys, Negotiation};
use crate::iscsi::pdu::FramedPdu;
use crate::iscsi::role::Role;

/// C bit of a login PDU: RFC 7143 section 11.12.2.
const CONTINUES: u8 = 0x40;

/// Negotiation of a connection, as far as the capture has its text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Login {
    keys: Keys,
    header_digest: Option<bool>,
    data_digest: Option<bool>,
    /// PDUs of the initiator, and of the target, are in the capture.
    is_seen: [bool; 2],
    /// Some text of the initiator, and of the target, is not in the capture.
    is_hidden: [bool; 2],
    progress: Progress,
    /// The connection was added to a session, whose parameters another login has negotiated.
    joins: bool,
}

/// Text of one login PDU.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoginText<'a> {
    /// Its first bytes.
    pub(super) known: &'a [u8],
    /// Its length in bytes.
    pub(super) len: u64,
    /// The text goes on in the next PDU.
    pub(super) goes_on: bool,
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

impl<'a> LoginText<'a> {
    /// Text of a login PDU, of which these bytes are known.
    pub(super) fn new(pdu: &FramedPdu, known: &'a [u8]) -> Self {
        let goes_on = pdu.byte(1).is_some_and(|flags| flags & CONTINUES != 0);
        Self { known, len: pdu.data_len, goes_on }
    }
}

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
    pub(super) fn request(&mut self, text: LoginText<'_>, has_handle: bool) {
        self.joins |= !self.is_seen[0] && has_handle;
        self.take(Role::Initiator, text);
    }

    /// Takes a response; `is_last` if it accepts the login.
    pub(super) fn response(&mut self, text: LoginText<'_>, is_last: bool) {
        self.take(Role::Target, text);
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

    /// Takes the text of a login PDU of `sender`.
    fn take(&mut self, sender: Role, text: LoginText<'_>) {
        let side = usize::from(sender == Role::Target);
        self.is_seen[side] = true;
        let LoginText { known, len, goes_on } = text;
        let is_cut = (known.len() as u64) < len;
        // A value ends with a null byte: the last one without may be cut, or go on in the next PDU.
        let ended = known.iter().rposition(|byte| *byte == 0).map_or(0, |last| last + 1);
        let whole = if is_cut || goes_on { &known[..ended] } else { known };
        self.is_hidden[side] |= is_cut || whole.len() < known.len();
        let pairs = whole.split(|byte| *byte == 0).filter_map(|pair| std::str::from_utf8(pair).ok());
        for (key, value) in pairs.filter_map(|pair| pair.split_once('=')) {
            match key {
                // The initiator offers a list, the target answers with its choice.
                "HeaderDigest" if sender == Role::Target => self.header_digest = Some(value == "CRC32C"),
                "DataDigest" if sender == Role::Target => self.data_digest = Some(value == "CRC32C"),
                _ => self.keys.take(sender, key, value),
            }
        }
    }

    /// Result of the negotiation.
    pub(super) fn negotiation(&self) -> Negotiation {
        let is_whole = self.is_seen == [true; 2] && self.is_hidden == [false; 2];
        self.keys.result(is_whole && self.progress == Progress::Accepted && !self.joins)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::login::negotiation::LoginParameters;

    /// A login with these texts, of which the capture has so many bytes.
    fn login(offer: &[u8], answer: &[u8], kept: [usize; 2]) -> Login {
        let mut login = Login::default();
        login.begin();
        let [offered, answered] = kept;
        login.request(text(&offer[..offered.min(offer.len())], offer.len()), false);
        login.response(text(&answer[..answered.min(answer.len())], answer.len()), true);
        login
    }

    fn text(known: &[u8], len: usize) -> LoginText<'_> {
        LoginText { known, len: len as u64, goes_on: false }
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
        let agreed = LoginParameters {
            immediate_data: Some(true),
            initial_r2t: Some(true),
            first_burst_bytes: Some(65_536),
            max_burst_bytes: Some(262_144),
            max_outstanding_r2t: None,
        };
        let found = whole.negotiation();
        assert_eq!((found.agreed, found.offered), (Some(agreed), None));
        assert_eq!(found.in_force(), LoginParameters { max_outstanding_r2t: Some(1), ..agreed }, "rejected");
        assert_eq!(found.segment_bytes, [Some(262_144), Some(8_192)]);
        assert_eq!(whole.digests(), Some((true, false)), "without a word there is none");
        whole.response(text(b"InitialR2T=N", 40), false);
        assert_eq!((whole.negotiation().agreed, whole.digests()), (Some(agreed), None), "half a value");
        assert_eq!(whole.negotiation().defaults, None);
        whole.response(text(b"DataDigest=None\0", 40), false);
        assert_eq!(whole.digests(), Some((true, false)));
    }

    #[test]
    fn nothing_is_agreed_on_by_one_side_alone() {
        let mut one = Login::default();
        one.begin();
        one.request(text(OFFER, OFFER.len()), false);
        let found = one.negotiation();
        assert_eq!((found.agreed, found.defaults), (None, None));
        assert_eq!(found.offered.and_then(|offered| offered.first_burst_bytes), Some(0x40000));
        // Of the offer only the first key is known whole, of the answer only a part of the third.
        let cut = login(OFFER, ANSWER, [30, 50]).negotiation();
        let initial_r2t = Some(true);
        assert_eq!(cut.agreed, Some(LoginParameters { initial_r2t, ..LoginParameters::default() }));
        assert_eq!((cut.offered, cut.defaults), (None, None));
        let silent = login(OFFER, b"InitialR2T=Yes\0", [1_000; 2]).negotiation();
        let offered = silent.offered.expect("four keys without an answer");
        assert_eq!((offered.initial_r2t, offered.max_burst_bytes), (None, Some(16_776_192)));
        assert_eq!(silent.defaults.and_then(|defaults| defaults.max_burst_bytes), Some(262_144));
    }

    #[test]
    fn a_value_that_goes_on_in_the_next_request_is_not_known() {
        let mut split = Login::default();
        split.begin();
        split.request(LoginText { goes_on: true, ..text(b"FirstBurstLength=262", 20) }, false);
        split.request(text(b"144\0", 4), false);
        split.response(text(b"FirstBurstLength=65536\0", 23), true);
        assert_eq!((split.negotiation().agreed, split.negotiation().defaults), (None, None));
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
        let invalid =
            b"\0\0=\0X\0FirstBurstLength=1\0MaxBurstLength=99999999999999999999\0InitialR2T=yes\0=Yes\0";
        let found = login(invalid, invalid, [1_000; 2]).negotiation();
        assert_eq!((found.agreed, found.offered), (None, None));
        assert_eq!(found.in_force().first_burst_bytes, Some(65_536));
    }
}
