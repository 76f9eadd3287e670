//! SendTargets, which lists the targets and their addresses (RFC 7143 appendix C, sections 13.3, 13.4, 13.8), and the
//! other text keys of an initiator after the login.
//!
//! Text in, text out; the sessions handle the PDUs, their tags and the C bit. The target fills in real addresses before
//! it answers: a wildcard address is of no use to an initiator. IPv6 zones are left out: each host has its own (RFC
//! 4007 section 11.2).

use core::fmt;
use core::net::Ipv6Addr;
use core::str::FromStr;

use wire::iscsi::text::{TextError, TextWriter, pairs};

use crate::keys::{self, Answer, Key, Kind, Senders, Use, Value, Wish, constant};
use crate::name;

/// Default port of iSCSI.
pub const DEFAULT_PORT: u16 = 3260;

/// Longest text of a discovery over all PDUs, in bytes.
pub const TEXT_BYTES: usize = 1 << 20;

/// A target in an answer to SendTargets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredTarget {
    /// iSCSI name of the target.
    pub name: String,
    /// Addresses of the target; empty stands for the address that SendTargets was sent to.
    pub addresses: Vec<TargetAddress>,
}

/// A value of `TargetAddress`: `host[:port][,portal-group-tag]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TargetAddress {
    /// A DNS name or an address; an IPv6 address without its brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Tag of the portal group; there in discovery, not in a redirection.
    pub portal_group_tag: Option<u16>,
}

/// An address that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found the target address {found:?}, expected host[:port][,tag] with IPv6 in brackets")]
pub struct AddressError {
    found: String,
}

impl FromStr for TargetAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<TargetAddress, AddressError> {
        parse_address(text).ok_or_else(|| AddressError { found: text.chars().take(64).collect() })
    }
}

impl fmt::Display for TargetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)?;
        } else {
            write!(f, "{}:{}", self.host, self.port)?;
        }
        self.portal_group_tag.map_or(Ok(()), |tag| write!(f, ",{tag}"))
    }
}

/// Defect of an answer to SendTargets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// Not a row of pairs.
    #[error("bad discovery text: {0}")]
    Text(#[from] TextError),
    /// More text than the limit.
    #[error("{found} bytes of discovery text, at most {TEXT_BYTES} are taken")]
    TextBytes {
        /// Bytes so far.
        found: usize,
    },
    /// An invalid name (RFC 3722).
    #[error("the name '{0}' has control characters")]
    Name(String),
    /// An address before any name.
    #[error("a TargetAddress before the first TargetName")]
    NoName,
    /// The target refused the request.
    #[error("SendTargets was answered with {0}")]
    Refused(String),
}

/// Reason for a Reject in place of a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextRefused {
    /// Text that is not a sequence of `key=value` pairs.
    #[error("bad text: {0}")]
    Text(#[from] TextError),
    /// A key or value without a definition, in a normal session.
    #[error("nobody has defined the key or value {0:?}")]
    Undefined(String),
}

/// The text that requests every target.
pub fn request() -> Vec<u8> {
    let mut text = Vec::new();
    TextWriter::new(&mut text).push(Key::SendTargets.name(), "All");
    text
}

/// Type of the session of a text request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker<'a> {
    /// A discovery session, which may request all targets.
    Discovery,
    /// A normal session, which may request its own target only.
    Session {
        /// The name of that target.
        target_name: &'a str,
    },
}

/// The text that answers a text request outside the login.
///
/// `SendTargets` is answered from `targets`, in their order. A target name outside the list has no answer, nor has a
/// valid value of a key that an initiator may declare at any time (see [`declared_segment`]). Every other key is
/// answered with `NotUnderstood` or, if it is a login key, `Reject`.
///
/// A normal session receives its own target alone, for `SendTargets=All` too (appendix C: that value is not supported
/// there), so that no SendTargets request has an empty answer. Initiators in use end the session at an answer that they cannot
/// parse, and a `Reject` value is one. A request with a key that is neither private nor defined is refused as a
/// whole, by a Reject PDU, which initiators can handle.
///
/// # Errors
/// The request is not text, or is refused as a whole: it requires a Reject PDU.
pub fn answer(
    request: &[u8],
    asker: Asker<'_>,
    targets: &[DiscoveredTarget],
) -> Result<Vec<u8>, TextRefused> {
    let mut text = Vec::new();
    let mut out = TextWriter::new(&mut text);
    let mut has_asked = false;
    for pair in pairs(request) {
        let (key, value) = pair?;
        if value == constant::NOT_UNDERSTOOD || value == constant::REJECT {
            continue;
        }
        match Key::from_name(key) {
            Some(Key::SendTargets) => {}
            Some(known) => {
                if !is_declared(known) || note(known, value).is_none() {
                    out.push(key, constant::REJECT);
                }
                continue;
            }
            None if asker == Asker::Discovery || key.starts_with("X-") || key.starts_with("X#") => {
                out.push(key, constant::NOT_UNDERSTOOD);
                continue;
            }
            None => return Err(TextRefused::Undefined(key.chars().take(64).collect())),
        }
        let wanted = match (value, asker) {
            ("All", Asker::Discovery) => None,
            ("", Asker::Discovery) => {
                out.push(key, constant::REJECT);
                continue;
            }
            ("" | "All", Asker::Session { target_name }) => Some(target_name),
            (one, Asker::Discovery) => Some(one),
            (one, Asker::Session { target_name }) if name::is_same(one, target_name) => Some(one),
            (other, Asker::Session { .. }) => {
                return Err(TextRefused::Undefined(other.chars().take(64).collect()));
            }
        };
        // Once only: a text that repeats the key would request megabytes.
        if std::mem::replace(&mut has_asked, true) {
            continue;
        }
        for target in
            targets.iter().filter(|target| wanted.is_none_or(|wanted| name::is_same(&target.name, wanted)))
        {
            out.push(Key::TargetName.name(), &target.name);
            for address in &target.addresses {
                out.push(Key::TargetAddress.name(), &address.to_string());
            }
        }
    }
    Ok(text)
}

/// MaxRecvDataSegmentLength that an initiator declares by a text request after the login (RFC 7143 section 13.12), if
/// present. An invalid value is refused by [`answer`] and changes nothing (section 7.10).
pub fn declared_segment(request: &[u8]) -> Option<u32> {
    let mut declared = None;
    for pair in pairs(request) {
        let (key, value) = pair.ok()?;
        if key == Key::MaxRecvDataSegmentLength.name()
            && let Some(Value::Number(len)) = note(Key::MaxRecvDataSegmentLength, value)
        {
            declared = Some(len);
        }
    }
    declared
}

/// Returns true for a key that an initiator may declare at any time.
fn is_declared(key: Key) -> bool {
    let spec = key.spec();
    let is_stated = matches!(spec.kind, Kind::StatedNumber(..) | Kind::StatedText(_));
    is_stated && spec.when == Use::All && spec.senders != Senders::Target
}

fn note(key: Key, value: &str) -> Option<Value> {
    match keys::answer(key, value, &Wish::Nothing) {
        Answer::Note(value) => Some(value),
        _ => None,
    }
}

/// Targets listed by a portal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovered {
    /// Targets, in the order of the answer.
    pub targets: Vec<DiscoveredTarget>,
    /// Addresses that cannot be parsed and are left out.
    pub unreadable: Vec<AddressError>,
}

/// Collects the answer to [`request`] over any number of text responses.
#[derive(Clone, Debug, Default)]
pub struct Collector {
    text: Vec<u8>,
}

impl Collector {
    /// Adds the data segment of a text response.
    ///
    /// # Errors
    /// More than [`TEXT_BYTES`] in all.
    pub fn push(&mut self, segment: &[u8]) -> Result<(), DiscoveryError> {
        let found = self.text.len() + segment.len();
        if found > TEXT_BYTES {
            return Err(DiscoveryError::TextBytes { found });
        }
        self.text.extend_from_slice(segment);
        Ok(())
    }

    /// The targets, in the order of the complete answer. Keys unrelated to SendTargets are ignored.
    ///
    /// # Errors
    /// The text is not an answer to SendTargets.
    pub fn finish(self) -> Result<Discovered, DiscoveryError> {
        let Discovered { mut targets, mut unreadable } = Discovered::default();
        for pair in pairs(&self.text) {
            let (name, value) = pair?;
            match Key::from_name(name) {
                Some(Key::TargetName) if value.contains(char::is_control) => {
                    return Err(DiscoveryError::Name(
                        value.chars().take(64).flat_map(char::escape_default).collect(),
                    ));
                }
                Some(Key::TargetName) => {
                    targets.push(DiscoveredTarget { name: value.to_owned(), addresses: Vec::new() });
                }
                Some(Key::TargetAddress) => {
                    let target = targets.last_mut().ok_or(DiscoveryError::NoName)?;
                    match value.parse() {
                        Ok(address) => target.addresses.push(address),
                        Err(error) => unreadable.push(error),
                    }
                }
                Some(Key::SendTargets) => {
                    return Err(DiscoveryError::Refused(
                        value.chars().take(64).flat_map(char::escape_default).collect(),
                    ));
                }
                _ => {}
            }
        }
        Ok(Discovered { targets, unreadable })
    }
}

fn parse_address(text: &str) -> Option<TargetAddress> {
    let (place, portal_group_tag) = match text.split_once(',') {
        Some((place, tag)) => (place, Some(tag.parse().ok()?)),
        None => (text, None),
    };
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            let host = host.split_once('%').map_or(host, |(host, _zone)| host);
            host.parse::<Ipv6Addr>().ok()?;
            let port = if port.is_empty() { None } else { Some(port.strip_prefix(':')?) };
            (host, port)
        }
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    let plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b'[' | b']' | b'/' | b'@');
    let port = port.map_or(Some(DEFAULT_PORT), |port| port.parse().ok())?;
    (!host.is_empty() && host.bytes().all(plain)).then(|| TargetAddress {
        host: host.to_owned(),
        port,
        portal_group_tag,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(name: &str, addresses: &[&str]) -> DiscoveredTarget {
        DiscoveredTarget {
            name: name.to_owned(),
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn addresses() {
        #[rustfmt::skip]
        let table: &[(&str, Option<&str>)] = &[
            ("10.0.0.1:5003,1", Some("10.0.0.1:5003,1")),
            ("10.0.0.1", Some("10.0.0.1:3260")),
            ("[1080::8:800:200c:417a],65", Some("[1080::8:800:200c:417a]:3260,65")),
            ("[1080::8:800:200c:417a]:5003,1", Some("[1080::8:800:200c:417a]:5003,1")),
            ("computingcenter.example.com,23", Some("computingcenter.example.com:3260,23")),
            ("", None), (":3260", None), ("a:b", None), ("a:70000", None), ("a,b", None), ("a,70000", None),
            ("[", None), ("[]", None), ("[::1", None), ("[::1]x", None),             ("::1", None), ("a b", None), ("a/b", None),
            ("[fe80::1%eth0]:1,1", Some("[fe80::1]:1,1")), ("[fe80::1%2]", Some("[fe80::1]:3260")), ("[%eth0]:1", None),
        ];
        for (text, expected) in table {
            let got = text.parse::<TargetAddress>().ok().map(|address| address.to_string());
            assert_eq!(got.as_deref(), *expected, "{text:?}");
        }
    }

    #[test]
    fn a_discovery_from_end_to_end() {
        let targets = [
            target("iqn.2026-11.io.farlun:a", &["192.0.2.1:3260,1", "[2001:db8::1]:3260,1"]),
            target("iqn.2026-11.io.farlun:b", &[]),
        ];
        assert_eq!(request(), b"SendTargets=All\0");
        let text = answer(&request(), Asker::Discovery, &targets).unwrap();
        assert!(text.starts_with(
            b"TargetName=iqn.2026-11.io.farlun:a\0TargetAddress=192.0.2.1:3260,1\0TargetAddress=[2001:db8::1]:3260,1\0"
        ));
        let mut collector = Collector::default();
        for segment in text.chunks(7) {
            collector.push(segment).unwrap();
        }
        let found = collector.finish().unwrap();
        assert_eq!((found.targets.as_slice(), found.unreadable.len()), (&targets[..], 0));
        let often = request().repeat(1000);
        assert_eq!(answer(&often, Asker::Discovery, &targets).unwrap(), text, "once for all");
    }

    #[test]
    fn who_may_ask_what() {
        let targets = [target("iqn.a", &[]), target("iqn.b", &[])];
        let own = Asker::Session { target_name: "iqn.b" };
        #[rustfmt::skip]
        let table: &[(&[u8], Asker<'_>, &[u8])] = &[
            (b"SendTargets=All\0", own, b"TargetName=iqn.b\0"),
            (b"SendTargetsPlease=All\0", Asker::Discovery, b"SendTargetsPlease=NotUnderstood\0"),
            (b"SendTargets=\0", own, b"TargetName=iqn.b\0"),
            (b"SendTargets=iqn.b\0", own, b"TargetName=iqn.b\0"),
            (b"SendTargets=iqn.a\0", Asker::Discovery, b"TargetName=iqn.a\0"),
            (b"SendTargets=iqn.c\0", Asker::Discovery, b""),
            (b"SendTargets=\0", Asker::Discovery, b"SendTargets=Reject\0"),
            (b"X-com.example.a=1\0MaxBurstLength=512\0", own, b"X-com.example.a=NotUnderstood\0MaxBurstLength=Reject\0"),
            (b"MaxRecvDataSegmentLength=512\0", own, b""),
            (b"MaxRecvDataSegmentLength=0x1000\0SendTargets=\0", own, b"TargetName=iqn.b\0"),
            (b"MaxRecvDataSegmentLength=16777215\0", Asker::Discovery, b""),
            (b"MaxRecvDataSegmentLength=511\0", own, b"MaxRecvDataSegmentLength=Reject\0"),
            (b"MaxRecvDataSegmentLength=16777216\0", own, b"MaxRecvDataSegmentLength=Reject\0"),
            (b"MaxRecvDataSegmentLength=\0InitiatorAlias=\0", own, b"MaxRecvDataSegmentLength=Reject\0"),
            (b"InitiatorAlias=host 1\0", own, b""),
            (b"TargetAlias=disk 1\0InitiatorName=iqn.x\0", own, b"TargetAlias=Reject\0InitiatorName=Reject\0"),
            (b"X-com.example.a=NotUnderstood\0", own, b""),
            (b"", own, b""),
        ];
        for (request, asker, expected) in table {
            assert_eq!(answer(request, *asker, &targets).unwrap(), *expected, "{asker:?}");
        }
        assert!(matches!(answer(b"SendTargets", own, &targets), Err(TextRefused::Text(_))));
        for refused in ["SendTargets=iqn.a", "SendTargets=Alle", "SendTargetsPlease=All", "sENDtARGETS=aLL"] {
            let request = format!("SendTargets=\0{refused}\0");
            let found = answer(request.as_bytes(), own, &targets);
            assert!(matches!(found, Err(TextRefused::Undefined(_))), "{refused}: {found:?}");
        }
    }

    #[test]
    fn which_segment_is_declared() {
        #[rustfmt::skip]
        let table: &[(&[u8], Option<u32>)] = &[
            (b"MaxRecvDataSegmentLength=512\0", Some(512)),
            (b"SendTargets=\0MaxRecvDataSegmentLength=0x1000\0InitiatorAlias=a\0", Some(4096)),
            (b"MaxRecvDataSegmentLength=16777215\0", Some(16_777_215)),
            (b"MaxRecvDataSegmentLength=511\0", None),
            (b"MaxRecvDataSegmentLength=Reject\0", None),
            (b"MaxRecvDataSegmentLength=512\0InitiatorAlias", None),
            (b"MaxBurstLength=512\0", None),
            (b"", None),
        ];
        for (request, expected) in table {
            assert_eq!(declared_segment(request), *expected, "{}", request.escape_ascii());
        }
    }

    #[test]
    fn bad_answers_are_named() {
        let finish = |text: &[u8]| {
            let mut collector = Collector::default();
            collector.push(text).and_then(|()| collector.finish())
        };
        assert_eq!(finish(b"TargetAddress=a,1\0"), Err(DiscoveryError::NoName));
        assert_eq!(finish(b"SendTargets=Reject\0"), Err(DiscoveryError::Refused("Reject".to_owned())));
        assert!(matches!(finish(b"TargetName"), Err(DiscoveryError::Text(_))));
        assert_eq!(finish(b"TargetName=a\x1b[2J\0"), Err(DiscoveryError::Name("a\\u{1b}[2J".to_owned())));
        assert!(matches!(finish(&vec![b'a'; TEXT_BYTES + 1]), Err(DiscoveryError::TextBytes { .. })));
        assert_eq!(finish(b""), Ok(Discovered::default()));
    }

    #[test]
    fn an_unreadable_address_hides_no_other() {
        let mut collector = Collector::default();
        collector
            .push(b"TargetName=iqn.a\0TargetAddress=[\0TargetAddress=192.0.2.1:3260,1\0TargetName=iqn.b\0")
            .unwrap();
        let found = collector.finish().unwrap();
        assert_eq!(found.targets, [target("iqn.a", &["192.0.2.1:3260,1"]), target("iqn.b", &[])]);
        assert_eq!(found.unreadable.len(), 1);
        assert!(found.unreadable[0].to_string().contains("found the target address \"[\""));
    }
}
