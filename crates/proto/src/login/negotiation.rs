//! Operational negotiation, the same for both sides: offers, answers, and the resulting parameters (RFC 7143 sections
//! 6.2, 6.3.3 and 13).
//!
//! PDUs and stages are unknown here, except for "security or not"; the callers first remove names, session type and the
//! other keys that identify a side.

use super::text::{Outbox, Pair};
use super::{Violation, shortened};
use crate::keys::{
    Answer, Key, Kind, Reply, SOFTWARE, Senders, Use, Value, Wish, answer, constant, read_software, reply,
};
use crate::params::{Digest, Params, Wishes};

/// Keys that an initiator offers, in this order; a discovery session needs the first three only, and so do
/// all connections of a session but the first.
const OFFERS: &[Key] = &[
    Key::HeaderDigest,
    Key::DataDigest,
    Key::MaxRecvDataSegmentLength,
    Key::InitialR2T,
    Key::ImmediateData,
    Key::MaxBurstLength,
    Key::FirstBurstLength,
    Key::MaxOutstandingR2T,
    Key::MaxConnections,
    Key::DataPduInOrder,
    Key::DataSequenceInOrder,
    Key::ErrorRecoveryLevel,
    Key::DefaultTime2Wait,
    Key::DefaultTime2Retain,
];

/// One side of a negotiation.
#[derive(Debug)]
pub(super) struct Negotiation {
    wishes: Wishes,
    params: Params,
    is_initiator: bool,
    is_discovery: bool,
    private_key: bool,
    /// The session exists already: only keys of a connection are offered.
    is_joining: bool,
    /// Offers of this side without an answer yet.
    open: Vec<(Key, Wish)>,
    /// One bit per [`Key`] that was offered, answered or stated by the peer.
    settled: u64,
    stated_segment_len: bool,
}

impl Negotiation {
    pub(super) fn new(
        wishes: Wishes,
        is_initiator: bool,
        is_discovery: bool,
        private_key: bool,
    ) -> Negotiation {
        Negotiation {
            wishes,
            params: Params::RFC_DEFAULT,
            is_initiator,
            is_discovery,
            private_key: private_key && !is_discovery,
            is_joining: false,
            open: Vec::new(),
            settled: 0,
            stated_segment_len: false,
        }
    }

    /// The same for a further connection of a session: its leading connection has settled the session keys.
    pub(super) fn joining(self) -> Negotiation {
        Negotiation { is_joining: true, private_key: false, ..self }
    }

    /// Offers the keys of [`OFFERS`] that have a wish; in discovery and on a further connection the digests alone.
    pub(super) fn offer(&mut self, out: &mut Outbox) {
        for &key in OFFERS {
            let is_short = self.is_discovery || self.is_joining;
            let skip = is_short && !matches!(key, Key::HeaderDigest | Key::DataDigest);
            if key == Key::MaxRecvDataSegmentLength {
                self.state_segment_len(out);
                continue;
            }
            if skip || self.is_settled(key) {
                continue;
            }
            let irrelevant =
                key == Key::FirstBurstLength && self.wishes.initial_r2t && !self.wishes.immediate_data;
            if irrelevant {
                continue;
            }
            let wish = self.wish(key, true);
            out.push(key.name(), &wish.to_string());
            self.open.push((key, wish));
        }
        if self.private_key {
            out.push(Key::Peer.name(), SOFTWARE);
            self.open.push((Key::Peer, Wish::Nothing));
        }
    }

    /// States the longest data segment that this side accepts; once, since a statement has no answer.
    pub(super) fn state_segment_len(&mut self, out: &mut Outbox) {
        if !core::mem::replace(&mut self.stated_segment_len, true) {
            let len = self.wishes.max_recv_data_segment_len;
            out.push(Key::MaxRecvDataSegmentLength.name(), &len.to_string());
            self.params.our_max_recv_data_segment_len = len;
        }
    }

    /// Takes answers to the offers of this side and answers the offers of the peer.
    ///
    /// Keys that others depend on are processed first, in any order of the text; the answers keep the order of the
    /// offers. Returns true if the peer must receive an answer, because the answer differs from the offered value.
    pub(super) fn receive(
        &mut self,
        pairs: &[Pair],
        in_security: bool,
        out: &mut Outbox,
    ) -> Result<bool, Violation> {
        let mut order: Vec<usize> = (0..pairs.len()).collect();
        order.sort_by_key(|&i| matches!(pairs[i].0.as_str(), "FirstBurstLength" | "MaxOutstandingR2T"));
        let mut answers: Vec<Option<String>> = vec![None; pairs.len()];
        for i in order {
            let (name, value) = &pairs[i];
            answers[i] = match Key::from_name(name) {
                Some(key) => self.receive_one(key, value, in_security)?,
                // An answer to a key that was not offered: answering again would serve no purpose.
                None if value == constant::NOT_UNDERSTOOD => None,
                None => Some(constant::NOT_UNDERSTOOD.to_owned()),
            };
        }
        let mut must_tell = false;
        for ((name, value), answer) in pairs.iter().zip(answers) {
            if let Some(answer) = answer {
                must_tell |= answer != *value && !constant::ALL.contains(&answer.as_str());
                out.push(name, &answer);
            }
        }
        Ok(must_tell)
    }

    /// The parameters, when both sides are ready for the full feature phase.
    pub(super) fn finish(mut self) -> Result<Params, Violation> {
        // A boolean offer that leaves no choice need not be answered (6.2.2).
        for (key, wish) in core::mem::take(&mut self.open) {
            if let (Kind::And, Wish::Bool(false)) | (Kind::Or, Wish::Bool(true)) = (key.spec().kind, &wish) {
                let Wish::Bool(value) = wish else { continue };
                self.apply(key, &Value::Bool(value));
            }
        }
        // A refused key, or one never offered, keeps its default, which this side may not accept.
        let digests = [
            (Key::HeaderDigest, self.params.header_digest, self.wishes.header_digests),
            (Key::DataDigest, self.params.data_digest, self.wishes.data_digests),
        ];
        for (key, agreed, wanted) in digests {
            if !wanted.contains(&agreed) {
                return Err(Violation::Unagreed { key: key.name(), value: agreed.as_str() });
            }
        }
        let (first, max) = (self.params.first_burst_len, self.params.max_burst_len);
        if first > max {
            // A key answered as irrelevant has its default, which neither side chose.
            if self.is_settled(Key::FirstBurstLength) && !self.is_irrelevant(Key::FirstBurstLength) {
                return Err(Violation::Bursts { first, max });
            }
            self.params.first_burst_len = max;
        }
        Ok(self.params)
    }

    fn receive_one(&mut self, key: Key, value: &str, in_security: bool) -> Result<Option<String>, Violation> {
        let spec = key.spec();
        if in_security && !spec.any_stage {
            return Err(Violation::Stage(spec.name));
        }
        if let Some(index) = self.open.iter().position(|(open, _)| *open == key) {
            let (_, wish) = self.open.remove(index);
            self.settle(key)?;
            match reply(key, &wish, value) {
                Reply::Agreed(value) => self.apply(key, &value),
                Reply::Refused => {}
                Reply::Violation => {
                    return Err(Violation::Answer {
                        key: spec.name,
                        offered: wish.to_string(),
                        value: shortened(value),
                    });
                }
            }
            return Ok(None);
        }
        self.settle(key)?;
        self.answer_one(key, value)
    }

    fn answer_one(&mut self, key: Key, value: &str) -> Result<Option<String>, Violation> {
        let spec = key.spec();
        let stranger = if self.is_initiator { Senders::Initiator } else { Senders::Target };
        let misplaced = spec.senders == stranger || matches!(spec.when, Use::Security | Use::FullFeature);
        if key == Key::Peer {
            return Ok(Some(self.answer_peer(value)));
        }
        if misplaced {
            return Ok(Some(constant::REJECT.to_owned()));
        }
        // Session keys settled by the leading connection must not change (section 13, LO). tgt sends them nevertheless,
        // and again after a Reject; its values for session keys are then ignored.
        if self.is_joining && !self.is_initiator && spec.when == Use::Leading {
            return Ok(Some(constant::REJECT.to_owned()));
        }
        if self.is_irrelevant(key) {
            return Ok(Some(constant::IRRELEVANT.to_owned()));
        }
        match answer(key, value, &self.wish(key, false)) {
            Answer::Select(value) => {
                self.apply(key, &value);
                Ok(Some(value.to_string()))
            }
            Answer::Note(value) => {
                self.apply(key, &value);
                Ok(None)
            }
            Answer::Reject => Ok(Some(constant::REJECT.to_owned())),
            Answer::Violation => Err(Violation::Offer { key: spec.name, value: shortened(value) }),
        }
    }

    /// Answers the private key. Only a target answers, and only an initiator that offered the key.
    fn answer_peer(&mut self, value: &str) -> String {
        if !self.private_key {
            return constant::NOT_UNDERSTOOD.to_owned();
        }
        self.params.peer_software = read_software(value);
        SOFTWARE.to_owned()
    }

    /// Sections 13.2 to 13.24: session keys mean nothing in a discovery session, and a first burst nothing without
    /// unsolicited data.
    fn is_irrelevant(&self, key: Key) -> bool {
        let no_first_burst = self.params.initial_r2t && !self.params.immediate_data;
        (self.is_discovery && !key.spec().in_discovery) || (key == Key::FirstBurstLength && no_first_burst)
    }

    /// Wish for a key, in an offer or in an answer.
    fn wish(&self, key: Key, is_offer: bool) -> Wish {
        let wishes = &self.wishes;
        match key {
            Key::HeaderDigest => digests(wishes.header_digests),
            Key::DataDigest => digests(wishes.data_digests),
            Key::InitialR2T => Wish::Bool(wishes.initial_r2t),
            Key::ImmediateData => Wish::Bool(wishes.immediate_data),
            Key::MaxBurstLength => Wish::Number(wishes.max_burst_len),
            Key::FirstBurstLength => {
                let max_burst_len = if is_offer { wishes.max_burst_len } else { self.params.max_burst_len };
                Wish::Number(wishes.first_burst_len.min(max_burst_len))
            }
            Key::MaxOutstandingR2T => {
                let level =
                    if is_offer { wishes.error_recovery_level } else { self.params.error_recovery_level };
                // Section 13.17: recovery within a task needs one sequence at a time.
                let single = level > 0 && (is_offer || self.params.data_sequence_in_order);
                Wish::Number(if single { 1 } else { u32::from(wishes.max_outstanding_r2t) })
            }
            Key::MaxConnections => Wish::Number(u32::from(wishes.max_connections)),
            Key::DataPduInOrder | Key::DataSequenceInOrder => Wish::Bool(true),
            Key::IfMarker | Key::OfMarker => Wish::Bool(false),
            Key::ErrorRecoveryLevel => Wish::Number(u32::from(wishes.error_recovery_level)),
            Key::DefaultTime2Wait => Wish::Number(u32::from(wishes.default_time2wait_s)),
            Key::DefaultTime2Retain => Wish::Number(u32::from(wishes.default_time2retain_s)),
            Key::TaskReporting => Wish::List(vec!["RFC3720"]),
            Key::ProtocolLevel => Wish::Number(1),
            _ => Wish::Nothing,
        }
    }

    fn apply(&mut self, key: Key, value: &Value) {
        let params = &mut self.params;
        match (key, value) {
            (Key::HeaderDigest, Value::Text(name)) => params.header_digest = digest(name),
            (Key::DataDigest, Value::Text(name)) => params.data_digest = digest(name),
            (Key::InitialR2T, Value::Bool(v)) => params.initial_r2t = *v,
            (Key::ImmediateData, Value::Bool(v)) => params.immediate_data = *v,
            (Key::MaxRecvDataSegmentLength, Value::Number(v)) => params.peer_max_recv_data_segment_len = *v,
            (Key::MaxBurstLength, Value::Number(v)) => params.max_burst_len = *v,
            (Key::FirstBurstLength, Value::Number(v)) => params.first_burst_len = *v,
            // The bounds of these keys are those of their fields.
            (Key::MaxOutstandingR2T, Value::Number(v)) => params.max_outstanding_r2t = *v as u16,
            (Key::MaxConnections, Value::Number(v)) => params.max_connections = *v as u16,
            (Key::ErrorRecoveryLevel, Value::Number(v)) => params.error_recovery_level = *v as u8,
            (Key::DefaultTime2Wait, Value::Number(v)) => params.default_time2wait_s = *v as u16,
            (Key::DefaultTime2Retain, Value::Number(v)) => params.default_time2retain_s = *v as u16,
            (Key::ProtocolLevel, Value::Number(v)) => params.protocol_level = *v as u8,
            (Key::DataPduInOrder, Value::Bool(v)) => params.data_pdu_in_order = *v,
            (Key::DataSequenceInOrder, Value::Bool(v)) => params.data_sequence_in_order = *v,
            (Key::Peer, Value::Text(text)) => params.peer_software = read_software(text),
            _ => {}
        }
    }

    /// Marks a key as settled; a second time is a violation (6.3), except for TargetAddress (13.8).
    fn settle(&mut self, key: Key) -> Result<(), Violation> {
        if self.is_settled(key) && key != Key::TargetAddress {
            return Err(Violation::Twice(key.name()));
        }
        self.settled |= 1 << key as u64;
        Ok(())
    }

    fn is_settled(&self, key: Key) -> bool {
        self.settled & 1 << key as u64 != 0
    }
}

fn digests(wanted: &[Digest]) -> Wish {
    Wish::List(wanted.iter().map(|digest| digest.as_str()).collect())
}

fn digest(name: &str) -> Digest {
    if name == Digest::Crc32c.as_str() { Digest::Crc32c } else { Digest::None }
}
