//! The table of keys: one line per key with its kind, range, default, use, senders and scope, as the
//! paragraphs of RFC 7143 section 13 head each key (and section 12.1.3 the CHAP keys).

/// A known key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each variant is the key of the same name; the table below describes it")]
pub enum Key {
    AuthMethod,
    ChapA,
    ChapI,
    ChapC,
    ChapN,
    ChapR,
    HeaderDigest,
    DataDigest,
    MaxConnections,
    SendTargets,
    TargetName,
    InitiatorName,
    TargetAlias,
    InitiatorAlias,
    TargetAddress,
    TargetPortalGroupTag,
    InitialR2T,
    ImmediateData,
    MaxRecvDataSegmentLength,
    MaxBurstLength,
    FirstBurstLength,
    DefaultTime2Wait,
    DefaultTime2Retain,
    MaxOutstandingR2T,
    DataPduInOrder,
    DataSequenceInOrder,
    ErrorRecoveryLevel,
    SessionType,
    TaskReporting,
    ProtocolLevel,
    IfMarker,
    OfMarker,
    IfMarkInt,
    OfMarkInt,
    NodeArchitecture,
    Peer,
}

/// Kind of values of a key, with its result function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A list of names; the responder takes its first acceptable one (6.2.1). Names defined for the key.
    List(&'static [&'static str]),
    /// `Yes` only if both sides say `Yes`.
    And,
    /// `Yes` if one side says `Yes`.
    Or,
    /// A number; the smaller one is in force. Bounds of the key, both included.
    Minimum(u32, u32),
    /// A number; the larger one is in force. Bounds of the key, both included.
    Maximum(u32, u32),
    /// A number stated by one side, not answered. Bounds of the key, both included.
    StatedNumber(u32, u32),
    /// A text stated by one side, not answered; the longest one allowed, in bytes.
    StatedText(usize),
    /// A step of an authentication method; only that method can answer it.
    Step,
    /// Obsolete: answered with `Reject` and never with `NotUnderstood` (13.25).
    Obsolete,
    /// A private key: software of the side that sends it, answered with that of the other side.
    Private,
}

/// When a key may be used (the line "Use" of its paragraph).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Only in the security stage.
    Security,
    /// LO: only while the first connection of a session logs in.
    Leading,
    /// IO: only while a connection logs in.
    Initialize,
    /// ALL: during login and afterwards.
    All,
    /// FFPO: only after login.
    FullFeature,
}

/// Sides that may send a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Senders {
    /// Only the initiator.
    Initiator,
    /// Only the target.
    Target,
    /// Either side.
    Both,
}

/// Scope of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// CO: one connection.
    Connection,
    /// SW: the session.
    Session,
}

/// Definition of a key in the standard.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The key.
    pub key: Key,
    /// Name of the key on the wire.
    pub name: &'static str,
    /// Values and result function.
    pub kind: Kind,
    /// The value in force when the key is not negotiated; empty if there is none.
    pub default: &'static str,
    /// Phase in which the key may be used.
    pub when: Use,
    /// True if it may also appear in the security stage.
    pub any_stage: bool,
    /// Sides that may send the key.
    pub senders: Senders,
    /// Scope of the key.
    pub scope: Scope,
    /// False if it is irrelevant in a discovery session.
    pub in_discovery: bool,
    /// Section of RFC 7143.
    pub section: &'static str,
}

/// The longest burst or data segment that a key can state: 2^24 - 1 bytes.
const LONGEST: u32 = (1 << 24) - 1;

const DIGESTS: Kind = Kind::List(&["None", "CRC32C"]);

/// An operational key that both sides may offer.
const fn both(
    key: Key,
    name: &'static str,
    kind: Kind,
    default: &'static str,
    section: &'static str,
) -> Spec {
    Spec {
        key,
        name,
        kind,
        default,
        when: Use::Leading,
        any_stage: false,
        senders: Senders::Both,
        scope: Scope::Session,
        in_discovery: true,
        section,
    }
}

/// A text that one side states about itself, in any stage.
const fn stated(
    key: Key,
    name: &'static str,
    longest: usize,
    senders: Senders,
    when: Use,
    section: &'static str,
) -> Spec {
    Spec { senders, when, any_stage: true, ..both(key, name, Kind::StatedText(longest), "", section) }
}

/// A key of the security stage.
const fn security(key: Key, name: &'static str, kind: Kind, section: &'static str) -> Spec {
    Spec {
        when: Use::Security,
        scope: Scope::Connection,
        any_stage: true,
        ..both(key, name, kind, "", section)
    }
}

const fn normal_only(spec: Spec) -> Spec {
    Spec { in_discovery: false, ..spec }
}

const fn per_connection(spec: Spec, when: Use) -> Spec {
    Spec { scope: Scope::Connection, when, ..spec }
}

/// Every key, in the order of [`Key`].
#[rustfmt::skip]
pub const KEYS: &[Spec] = &[
    security(Key::AuthMethod, "AuthMethod", Kind::List(&["None", "CHAP", "SRP", "KRB5"]), "12.1"),
    security(Key::ChapA, "CHAP_A", Kind::Step, "12.1.3"),
    security(Key::ChapI, "CHAP_I", Kind::Step, "12.1.3"),
    security(Key::ChapC, "CHAP_C", Kind::Step, "12.1.3"),
    security(Key::ChapN, "CHAP_N", Kind::Step, "12.1.3"),
    security(Key::ChapR, "CHAP_R", Kind::Step, "12.1.3"),
    per_connection(both(Key::HeaderDigest, "HeaderDigest", DIGESTS, "None", "13.1"), Use::Initialize),
    per_connection(both(Key::DataDigest, "DataDigest", DIGESTS, "None", "13.1"), Use::Initialize),
    normal_only(both(Key::MaxConnections, "MaxConnections", Kind::Minimum(1, 65_535), "1", "13.2")),
    Spec { any_stage: false, ..stated(Key::SendTargets, "SendTargets", 223, Senders::Initiator, Use::FullFeature, "13.3") },
    stated(Key::TargetName, "TargetName", 223, Senders::Both, Use::Initialize, "13.4"),
    stated(Key::InitiatorName, "InitiatorName", 223, Senders::Initiator, Use::Initialize, "13.5"),
    stated(Key::TargetAlias, "TargetAlias", 255, Senders::Target, Use::All, "13.6"),
    stated(Key::InitiatorAlias, "InitiatorAlias", 255, Senders::Initiator, Use::All, "13.7"),
    stated(Key::TargetAddress, "TargetAddress", 255, Senders::Target, Use::All, "13.8"),
    Spec { kind: Kind::StatedNumber(0, 65_535), ..stated(Key::TargetPortalGroupTag, "TargetPortalGroupTag", 0, Senders::Target, Use::Initialize, "13.9") },
    normal_only(both(Key::InitialR2T, "InitialR2T", Kind::Or, "Yes", "13.10")),
    normal_only(both(Key::ImmediateData, "ImmediateData", Kind::And, "Yes", "13.11")),
    per_connection(both(Key::MaxRecvDataSegmentLength, "MaxRecvDataSegmentLength", Kind::StatedNumber(512, LONGEST), "8192", "13.12"), Use::All),
    normal_only(both(Key::MaxBurstLength, "MaxBurstLength", Kind::Minimum(512, LONGEST), "262144", "13.13")),
    normal_only(both(Key::FirstBurstLength, "FirstBurstLength", Kind::Minimum(512, LONGEST), "65536", "13.14")),
    both(Key::DefaultTime2Wait, "DefaultTime2Wait", Kind::Maximum(0, 3600), "2", "13.15"),
    both(Key::DefaultTime2Retain, "DefaultTime2Retain", Kind::Minimum(0, 3600), "20", "13.16"),
    normal_only(both(Key::MaxOutstandingR2T, "MaxOutstandingR2T", Kind::Minimum(1, 65_535), "1", "13.17")),
    normal_only(both(Key::DataPduInOrder, "DataPDUInOrder", Kind::Or, "Yes", "13.18")),
    normal_only(both(Key::DataSequenceInOrder, "DataSequenceInOrder", Kind::Or, "Yes", "13.19")),
    both(Key::ErrorRecoveryLevel, "ErrorRecoveryLevel", Kind::Minimum(0, 2), "0", "13.20"),
    Spec { default: "Normal", ..stated(Key::SessionType, "SessionType", 255, Senders::Initiator, Use::Leading, "13.21") },
    normal_only(both(Key::TaskReporting, "TaskReporting", Kind::List(&["RFC3720", "ResponseFence", "FastAbort"]), "RFC3720", "13.23")),
    normal_only(both(Key::ProtocolLevel, "iSCSIProtocolLevel", Kind::Minimum(0, 31), "1", "13.24")),
    // Section 13.25 demands Reject or No; No is accepted by every initiator and target from before 2014.
    per_connection(both(Key::IfMarker, "IFMarker", Kind::And, "No", "13.25"), Use::Initialize),
    per_connection(both(Key::OfMarker, "OFMarker", Kind::And, "No", "13.25"), Use::Initialize),
    per_connection(both(Key::IfMarkInt, "IFMarkInt", Kind::Obsolete, "", "13.25"), Use::Initialize),
    per_connection(both(Key::OfMarkInt, "OFMarkInt", Kind::Obsolete, "", "13.25"), Use::Initialize),
    Spec { in_discovery: true, ..stated(Key::NodeArchitecture, "X#NodeArchitecture", 255, Senders::Both, Use::Leading, "13.26") },
    normal_only(both(Key::Peer, super::peer::NAME, Kind::Private, "", "13.22")),
];

impl Key {
    /// The key of this name; names are case sensitive (section 6.1).
    pub fn from_name(name: &str) -> Option<Key> {
        KEYS.iter().find(|spec| spec.name == name).map(|spec| spec.key)
    }

    /// Definition of the key in the standard.
    pub fn spec(self) -> &'static Spec {
        &KEYS[self as usize]
    }

    /// Name of the key on the wire.
    pub fn name(self) -> &'static str {
        self.spec().name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum_and_names_are_found() {
        for (index, spec) in KEYS.iter().enumerate() {
            assert_eq!(spec.key as usize, index, "{}", spec.name);
            assert_eq!(Key::from_name(spec.name), Some(spec.key));
        }
        assert_eq!(Key::from_name("maxburstlength"), None);
    }

    #[test]
    fn every_default_is_a_value_of_its_key() {
        for spec in KEYS.iter().filter(|spec| !spec.default.is_empty()) {
            let ok = match spec.kind {
                Kind::List(names) => names.contains(&spec.default),
                Kind::And | Kind::Or => matches!(spec.default, "Yes" | "No"),
                Kind::Minimum(low, high) | Kind::Maximum(low, high) | Kind::StatedNumber(low, high) => {
                    (low..=high).contains(&spec.default.parse().unwrap())
                }
                Kind::StatedText(longest) => spec.default.len() <= longest,
                Kind::Step | Kind::Obsolete | Kind::Private => false,
            };
            assert!(ok, "{}", spec.name);
        }
    }

    #[test]
    fn keys_without_meaning_in_a_discovery_session() {
        let irrelevant: Vec<&str> = KEYS.iter().filter(|s| !s.in_discovery).map(|s| s.name).collect();
        assert_eq!(
            irrelevant,
            [
                "MaxConnections",
                "InitialR2T",
                "ImmediateData",
                "MaxBurstLength",
                "FirstBurstLength",
                "MaxOutstandingR2T",
                "DataPDUInOrder",
                "DataSequenceInOrder",
                "TaskReporting",
                "iSCSIProtocolLevel",
                "X-io.farlun.peer",
            ]
        );
    }
}
