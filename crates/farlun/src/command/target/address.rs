//! `ADDR:PORT` as users write it, and names of iSCSI nodes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};

use proto::name;

/// The port that iSCSI has at IANA.
const PORT: u16 = 3260;
/// The longest name (RFC 7143 section 4.2.7.1). Bytes.
const NAME_MAX_BYTES: usize = 223;

/// The addresses that `ADDR:PORT`, or only an address with the default port, stands for.
pub(crate) fn addresses(text: &str) -> Result<Vec<SocketAddr>, String> {
    let bare = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let found = match (bare, text.strip_prefix(':')) {
        (Ok(ip), _) => Ok(vec![SocketAddr::new(ip, PORT)]),
        (_, Some(port)) => match port.parse() {
            Ok(port) => Ok(vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)]),
            Err(_) => Err("the port is no number from 0 to 65535".to_owned()),
        },
        _ => text.to_socket_addrs().map(Iterator::collect).map_err(|error| error.to_string()),
    };
    found.map_err(|error| {
        format!("'{text}': {error}; expected ADDR:PORT such as 127.0.0.1:3260 or [::1]:3260")
    })
}

/// An address that is there more than once; several ports that the kernel picks are several.
pub(super) fn twice(addresses: &[SocketAddr]) -> Option<&SocketAddr> {
    let fixed = || addresses.iter().filter(|address| address.port() != 0);
    fixed().find(|address| fixed().filter(|other| other == address).count() > 1)
}

/// An iSCSI name in the form in which names are compared. Its form is checked, not what its authority made of it.
pub(super) fn node_name(text: &str) -> Result<String, String> {
    let is_typed = ["iqn.", "eui.", "naa."].iter().any(|kind| text.to_ascii_lowercase().starts_with(kind));
    let is_plain = text.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '.' | ':'));
    match is_typed && is_plain && text.len() <= NAME_MAX_BYTES {
        true => Ok(name::folded(text)),
        false => Err(format!(
            "'{text}' is no iSCSI name; expected one such as iqn.2026-11.org.example:store, of letters, digits, '-', \
             '.' and ':', {NAME_MAX_BYTES} bytes at most"
        )),
    }
}

/// The name of a target that was given none.
pub(super) fn default_iqn() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = host
        .trim()
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '-' })
        .collect();
    format!("iqn.2026-11.io.farlun:{}", if host.is_empty() { "localhost" } else { &host })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_and_without_a_port() {
        for (text, expected) in [
            ("127.0.0.1", "127.0.0.1:3260"),
            ("127.0.0.1:7", "127.0.0.1:7"),
            (":0", "127.0.0.1:0"),
            ("::1", "[::1]:3260"),
            ("[::1]", "[::1]:3260"),
            ("[::]:3261", "[::]:3261"),
        ] {
            assert_eq!(addresses(text).unwrap(), [expected.parse().unwrap()], "{text}");
        }
        for text in [":x", "127.0.0.1:99999", "", "127.0.0.1:"] {
            let error = addresses(text).unwrap_err();
            assert!(error.contains("expected ADDR:PORT"), "{text}: {error}");
        }
    }

    #[test]
    fn names_of_nodes() {
        for name in ["iqn.2026-11.org.Example:store.1", "eui.02004567A425678D", "naa.52004567BA64678D"] {
            assert_eq!(node_name(name), Ok(name.to_lowercase()));
        }
        for name in ["", "store", "iqn.a b", "iqn.a/b", &format!("iqn.{}", "a".repeat(220))] {
            assert!(node_name(name).unwrap_err().contains("is no iSCSI name"), "{name}");
        }
        assert!(node_name(&default_iqn()).is_ok());
    }
}
