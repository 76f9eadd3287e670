//! Result functions: from an offered value and a wish to the answer, and from an answer to the negotiated value (RFC
//! 7143 sections 6.2, 6.2.1, 6.2.2).

use core::fmt;

use wire::iscsi::text;

use super::constant;
use super::table::{Key, Kind};

/// Wish of this side for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// For boolean keys.
    Bool(bool),
    /// For numbers.
    Number(u32),
    /// For lists: the usable values, the preferred one first.
    List(Vec<&'static str>),
    /// For declarative keys.
    Nothing,
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wish::Bool(value) => f.write_str(yes_or_no(*value)),
            Wish::Number(value) => value.fmt(f),
            Wish::List(values) => f.write_str(&values.join(",")),
            Wish::Nothing => Ok(()),
        }
    }
}

/// A value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `Yes` or `No`.
    Bool(bool),
    /// A number in the bounds of its key.
    Number(u32),
    /// A name or a text.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(value) => f.write_str(yes_or_no(*value)),
            Value::Number(value) => value.fmt(f),
            Value::Text(value) => f.write_str(value),
        }
    }
}

/// Reaction of the responder to an offered value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The value is in force and is sent as the answer.
    Select(Value),
    /// A declaration: stored without an answer.
    Note(Value),
    /// The answer is `Reject`; the key keeps its default.
    Reject,
    /// The offer violates the protocol; a target refuses the login with status 0x0200.
    Violation,
}

/// Meaning of the peer's answer to an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The value is in force.
    Agreed(Value),
    /// The peer refused; the key keeps its default.
    Refused,
    /// The result function of the key does not allow the answer.
    Violation,
}

/// The result function of `key` for the responder.
///
/// `wish` must be of the kind of the key; any other kind yields `Reject`. The value `?` of early drafts has no meaning
/// any more and counts as an invalid value.
pub fn answer(key: Key, offered: &str, wish: &Wish) -> Answer {
    if is_constant(offered) {
        return Answer::Violation;
    }
    match (key.spec().kind, wish) {
        (Kind::And, Wish::Bool(ours)) => select(boolean(offered).map(|theirs| Value::Bool(theirs && *ours))),
        (Kind::Or, Wish::Bool(ours)) => select(boolean(offered).map(|theirs| Value::Bool(theirs || *ours))),
        (Kind::Minimum(low, high), Wish::Number(ours)) => {
            select(number(offered, low, high).map(|theirs| Value::Number(theirs.min(*ours).max(low))))
        }
        (Kind::Maximum(low, high), Wish::Number(ours)) => {
            select(number(offered, low, high).map(|theirs| Value::Number(theirs.max(*ours).min(high))))
        }
        (Kind::List(_), Wish::List(ours)) => select(
            text::list(offered).find(|name| ours.contains(name)).map(|name| Value::Text(name.to_owned())),
        ),
        (Kind::StatedNumber(low, high), _) => match number(offered, low, high) {
            Some(value) => Answer::Note(Value::Number(value)),
            None => Answer::Violation,
        },
        (Kind::StatedText(longest), _) if offered.len() <= longest => {
            Answer::Note(Value::Text(offered.to_owned()))
        }
        (Kind::StatedText(_), _) => Answer::Violation,
        _ => Answer::Reject,
    }
}

/// Meaning of `answered`, received in answer to the offer `offered`.
pub fn reply(key: Key, offered: &Wish, answered: &str) -> Reply {
    if is_constant(answered) {
        return Reply::Refused;
    }
    let agreed = match (key.spec().kind, offered) {
        (Kind::And, Wish::Bool(ours)) => boolean(answered).filter(|v| *ours || !v).map(Value::Bool),
        (Kind::Or, Wish::Bool(ours)) => boolean(answered).filter(|v| !ours || *v).map(Value::Bool),
        (Kind::Minimum(low, high), Wish::Number(ours)) => {
            number(answered, low, high).filter(|v| v <= ours).map(Value::Number)
        }
        (Kind::Maximum(low, high), Wish::Number(ours)) => {
            number(answered, low, high).filter(|v| v >= ours).map(Value::Number)
        }
        (Kind::List(_), Wish::List(ours)) => {
            ours.contains(&answered).then(|| Value::Text(answered.to_owned()))
        }
        (Kind::Private, _) => Some(Value::Text(answered.to_owned())),
        _ => None,
    };
    agreed.map_or(Reply::Violation, Reply::Agreed)
}

fn select(value: Option<Value>) -> Answer {
    value.map_or(Answer::Reject, Answer::Select)
}

fn is_constant(value: &str) -> bool {
    constant::ALL.contains(&value)
}

fn yes_or_no(value: bool) -> &'static str {
    if value { "Yes" } else { "No" }
}

fn boolean(value: &str) -> Option<bool> {
    text::boolean(value).ok()
}

/// A decimal or hexadecimal constant (section 6.1) within bounds.
fn number(value: &str, low: u32, high: u32) -> Option<u32> {
    text::number(value).ok().and_then(|v| u32::try_from(v).ok()).filter(|v| (low..=high).contains(v))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, offered: &str, wish: &Wish, expected: &str) {
        let key = Key::from_name(name).unwrap();
        let got = match answer(key, offered, wish) {
            Answer::Select(value) => value.to_string(),
            Answer::Note(value) => format!("({value})"),
            Answer::Reject => "Reject".to_owned(),
            Answer::Violation => "violation".to_owned(),
        };
        assert_eq!(got, expected, "{name}={offered} against {wish:?}");
    }

    #[test]
    fn result_functions_of_the_responder() {
        let (yes, no) = (Wish::Bool(true), Wish::Bool(false));
        let n = Wish::Number;
        let none = Wish::List(vec!["None"]);
        let crc = Wish::List(vec!["CRC32C", "None"]);
        let rfc = Wish::List(vec!["RFC3720"]);
        #[rustfmt::skip]
        let table: &[(&str, &str, &Wish, &str)] = &[
            ("HeaderDigest", "None", &none, "None"),
            ("HeaderDigest", "CRC32C,None", &none, "None"),
            ("HeaderDigest", "None,CRC32C", &crc, "None"),
            ("HeaderDigest", "CRC32C,None", &crc, "CRC32C"),
            ("DataDigest", "CRC32C", &none, "Reject"),
            ("DataDigest", "Y-com.example.sum,CRC32C", &crc, "CRC32C"),
            ("DataDigest", "", &none, "Reject"),
            ("MaxConnections", "8", &n(1), "1"),
            ("MaxConnections", "0", &n(1), "Reject"),
            ("MaxConnections", "65536", &n(1), "Reject"),
            ("SendTargets", "All", &Wish::Nothing, "(All)"),
            ("TargetName", "iqn.2026-11.io.farlun:a", &Wish::Nothing, "(iqn.2026-11.io.farlun:a)"),
            ("InitiatorName", "iqn.2026-11.io.farlun:b", &Wish::Nothing, "(iqn.2026-11.io.farlun:b)"),
            ("TargetAlias", "disk 1", &Wish::Nothing, "(disk 1)"),
            ("InitiatorAlias", "", &Wish::Nothing, "()"),
            ("TargetAddress", "[2001:db8::1]:3260,1", &Wish::Nothing, "([2001:db8::1]:3260,1)"),
            ("TargetPortalGroupTag", "1", &Wish::Nothing, "(1)"),
            ("TargetPortalGroupTag", "0xffff", &Wish::Nothing, "(65535)"),
            ("TargetPortalGroupTag", "65536", &Wish::Nothing, "violation"),
            ("InitialR2T", "No", &no, "No"),
            ("InitialR2T", "No", &yes, "Yes"),
            ("InitialR2T", "Yes", &no, "Yes"),
            ("InitialR2T", "yes", &no, "Reject"),
            ("ImmediateData", "Yes", &yes, "Yes"),
            ("ImmediateData", "Yes", &no, "No"),
            ("ImmediateData", "No", &yes, "No"),
            ("MaxRecvDataSegmentLength", "262144", &Wish::Nothing, "(262144)"),
            ("MaxRecvDataSegmentLength", "511", &Wish::Nothing, "violation"),
            ("MaxRecvDataSegmentLength", "16777216", &Wish::Nothing, "violation"),
            ("MaxBurstLength", "262144", &n(1 << 20), "262144"),
            ("MaxBurstLength", "16776192", &n(1 << 20), "1048576"),
            ("MaxBurstLength", "0x40000", &n(1 << 20), "262144"),
            ("MaxBurstLength", "511", &n(1 << 20), "Reject"),
            ("MaxBurstLength", "16777216", &n(1 << 20), "Reject"),
            ("FirstBurstLength", "65536", &n(1 << 20), "65536"),
            ("FirstBurstLength", "-1", &n(1 << 20), "Reject"),
            ("FirstBurstLength", "+512", &n(1 << 20), "Reject"),
            ("FirstBurstLength", "0x", &n(1 << 20), "Reject"),
            ("FirstBurstLength", "99999999999999999999", &n(1 << 20), "Reject"),
            ("DefaultTime2Wait", "0", &n(2), "2"),
            ("DefaultTime2Wait", "20", &n(2), "20"),
            ("DefaultTime2Wait", "3601", &n(2), "Reject"),
            ("DefaultTime2Retain", "20", &n(0), "0"),
            ("DefaultTime2Retain", "0", &n(20), "0"),
            ("MaxOutstandingR2T", "1", &n(64), "1"),
            ("MaxOutstandingR2T", "65535", &n(64), "64"),
            ("MaxOutstandingR2T", "0", &n(64), "Reject"),
            ("DataPDUInOrder", "No", &yes, "Yes"),
            ("DataSequenceInOrder", "Yes", &yes, "Yes"),
            ("ErrorRecoveryLevel", "2", &n(0), "0"),
            ("ErrorRecoveryLevel", "3", &n(0), "Reject"),
            ("SessionType", "Discovery", &Wish::Nothing, "(Discovery)"),
            ("TaskReporting", "FastAbort,ResponseFence,RFC3720", &rfc, "RFC3720"),
            ("TaskReporting", "FastAbort", &rfc, "Reject"),
            ("iSCSIProtocolLevel", "2", &n(1), "1"),
            ("iSCSIProtocolLevel", "0", &n(1), "0"),
            ("iSCSIProtocolLevel", "32", &n(1), "Reject"),
            ("IFMarker", "No", &no, "No"),
            ("OFMarker", "Yes", &no, "No"),
            ("IFMarkInt", "2048~8192", &Wish::Nothing, "Reject"),
            ("OFMarkInt", "2048", &Wish::Nothing, "Reject"),
            ("X#NodeArchitecture", "Linux/6", &Wish::Nothing, "(Linux/6)"),
            ("AuthMethod", "CHAP,None", &none, "None"),
            ("AuthMethod", "CHAP", &none, "Reject"),
            ("CHAP_A", "5", &Wish::Nothing, "Reject"),
            ("MaxBurstLength", "?", &n(512), "Reject"),
            ("InitialR2T", "?", &no, "Reject"),
            ("MaxBurstLength", "NotUnderstood", &n(512), "violation"),
            ("InitiatorName", "Reject", &Wish::Nothing, "violation"),
            ("ImmediateData", "Irrelevant", &yes, "violation"),
        ];
        for (name, offered, wish, expected) in table {
            check(name, offered, wish, expected);
        }
        check("InitiatorName", &"x".repeat(224), &Wish::Nothing, "violation");
    }

    #[test]
    fn answers_to_our_offers() {
        let (yes, no) = (Wish::Bool(true), Wish::Bool(false));
        let n = Wish::Number;
        let none = Wish::List(vec!["None"]);
        #[rustfmt::skip]
        let table: &[(&str, &Wish, &str, &str)] = &[
            ("HeaderDigest", &none, "None", "None"),
            ("HeaderDigest", &none, "CRC32C", "violation"),
            ("HeaderDigest", &none, "Reject", "default"),
            ("InitialR2T", &no, "Yes", "Yes"),
            ("InitialR2T", &no, "No", "No"),
            ("InitialR2T", &yes, "No", "violation"),
            ("ImmediateData", &yes, "No", "No"),
            ("ImmediateData", &no, "Yes", "violation"),
            ("MaxBurstLength", &n(4096), "4096", "4096"),
            ("MaxBurstLength", &n(4096), "4097", "violation"),
            ("MaxBurstLength", &n(4096), "0", "violation"),
            ("MaxBurstLength", &n(4096), "big", "violation"),
            ("FirstBurstLength", &n(4096), "Irrelevant", "default"),
            ("DefaultTime2Wait", &n(2), "5", "5"),
            ("DefaultTime2Wait", &n(2), "1", "violation"),
            ("X-io.farlun.peer", &Wish::Nothing, "farlun/9", "farlun/9"),
            ("X-io.farlun.peer", &Wish::Nothing, "NotUnderstood", "default"),
            ("MaxRecvDataSegmentLength", &n(512), "512", "violation"),
        ];
        for (name, offered, text, expected) in table {
            let got = match reply(Key::from_name(name).unwrap(), offered, text) {
                Reply::Agreed(value) => value.to_string(),
                Reply::Refused => "default".to_owned(),
                Reply::Violation => "violation".to_owned(),
            };
            assert_eq!(&got, expected, "{name}={text} to {offered:?}");
        }
    }
}
