//! Initiator name and socket settings of a session.

use std::fmt;
use std::fs;

use engine::CongestionControl;
use net::tcp::Source;

/// Longest iSCSI name (RFC 7143 section 4.2.7.1). Bytes.
const NAME_MAX_BYTES: usize = 223;
/// Name of this host's own initiator, as open-iscsi keeps it.
const NAME_FILE: &str = "/etc/iscsi/initiatorname.iscsi";
const NAME_KEY: &str = "InitiatorName=";

/// Initiator name and socket settings, common to all connections of a caller.
#[derive(Clone, Debug)]
pub struct NearEnd {
    /// Initiator name of the login.
    pub name: InitiatorName,
    /// Source address or device of connections; `None` follows the route.
    pub source: Option<Source>,
    /// Congestion control of the connections.
    pub congestion: CongestionControl,
    /// Maximum segment size in both directions, in bytes; `None` follows the path MTU.
    pub max_segment_bytes: Option<u16>,
}

/// An initiator's iSCSI name, with its origin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InitiatorName {
    name: String,
    origin: NameOrigin,
}

/// Origin of an initiator's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NameOrigin {
    Given,
    File,
    Host,
}

/// Error of a text that is no iSCSI name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "'{name}' is no iSCSI name: {problem}; expected one such as iqn.2026-11.org.example:host of at most {NAME_MAX_BYTES} bytes"
)]
pub struct InitiatorNameError {
    name: String,
    problem: &'static str,
}

impl InitiatorName {
    /// Uses a name given by the user.
    pub fn given(name: &str) -> Result<InitiatorName, InitiatorNameError> {
        let wrong = |problem| Err(InitiatorNameError { name: name.chars().take(64).collect(), problem });
        let kind = name.get(..4).unwrap_or_default().to_ascii_lowercase();
        if !["iqn.", "eui.", "naa."].contains(&kind.as_str()) {
            return wrong("it begins with neither iqn. nor eui. nor naa.");
        }
        if name.len() > NAME_MAX_BYTES || name.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return wrong("it is too long, or has blanks in it");
        }
        Ok(InitiatorName { name: name.to_owned(), origin: NameOrigin::Given })
    }

    /// The name of this host's initiator, if configured, or else a generated name.
    pub fn of_host() -> InitiatorName {
        let file = fs::read_to_string(NAME_FILE).unwrap_or_default();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        InitiatorName::found(&file, &host)
    }

    fn found(file: &str, host: &str) -> InitiatorName {
        let named = file.lines().find_map(|line| line.trim().strip_prefix(NAME_KEY));
        match named.map(str::trim).filter(|name| !name.is_empty()) {
            Some(name) => InitiatorName { name: name.to_owned(), origin: NameOrigin::File },
            None => {
                let name = format!("iqn.2026-11.io.farlun:initiator.{}", host.trim().to_lowercase());
                InitiatorName { name, origin: NameOrigin::Host }
            }
        }
    }

    /// The name itself.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// Returns the name if the user gave it.
    pub fn as_given(&self) -> Option<&str> {
        (self.origin == NameOrigin::Given).then_some(&*self.name)
    }

    /// The origin in words, with advice for the case of a refusal.
    pub(crate) fn origin(&self) -> impl fmt::Display {
        match self.origin {
            NameOrigin::Given => "the name is that of --initiator-name".to_owned(),
            NameOrigin::File => format!("the name is that of {NAME_FILE}; --initiator-name gives another"),
            NameOrigin::Host => format!(
                "the name was made from this host's, as there is no {NAME_FILE}; --initiator-name gives another"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_their_origins() {
        let check = |file: &str, name: &str, origin: &str| {
            let found = InitiatorName::found(file, "Desk\n");
            assert_eq!(found.as_str(), name);
            assert!(found.origin().to_string().contains(origin), "{}", found.origin());
            assert_eq!(found.as_given(), None);
        };
        check("", "iqn.2026-11.io.farlun:initiator.desk", "made from this host's");
        check("# comment\nInitiatorName=\n", "iqn.2026-11.io.farlun:initiator.desk", "made from this host's");
        check("#\n InitiatorName=iqn.a:b \n", "iqn.a:b", "/etc/iscsi/initiatorname.iscsi;");
        let given = InitiatorName::given("iqn.2026-11.org.example:me").unwrap();
        assert_eq!(given.as_given(), Some("iqn.2026-11.org.example:me"));
        assert!(given.origin().to_string().contains("that of --initiator-name"));
    }

    #[test]
    fn names_that_no_target_takes() {
        assert!(InitiatorName::given("naa.62004567BA64678D0123456789ABCDEF").is_ok());
        assert!(InitiatorName::given("IQN.2026-11.org.example:me").is_ok());
        let long = format!("iqn.{}", "x".repeat(NAME_MAX_BYTES));
        for name in ["", "me", "iqn.a b", "iqn.a\0b", "ïqn.a", &long] {
            assert!(InitiatorName::given(name).is_err(), "{name}");
        }
    }
}
