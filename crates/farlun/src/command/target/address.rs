//! `ADDR:PORT` as users write it, and names of iSCSI nodes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};

use proto::name;

/// The port that iSCSI has at IANA.
pub(super) const ISCSI_PORT: u16 = 3260;
/// The longest name (RFC 7143 section 4.2.7.1). Bytes.
const NAME_MAX_BYTES: usize = 223;

/// The addresses that `ADDR:PORT`, or only an address with the usual port, stands for.
pub(crate) fn addresses(text: &str, usual_port: u16) -> Result<Vec<SocketAddr>, String> {
    let bare = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let found = match (bare, text.strip_prefix(':')) {
        (Ok(ip), _) => Ok(vec![SocketAddr::new(ip, usual_port)]),
        (_, Some(port)) => match port.parse() {
            Ok(port) => Ok(vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)]),
            Err(_) => Err("the port is no number from 0 to 65535".to_owned()),
        },
        _ if text.contains('%') => zoned(text, usual_port),
        _ => text.to_socket_addrs().map(Iterator::collect).map_err(|error| error.to_string()),
    };
    found.map_err(|error| {
        format!("'{text}': {error}; expected ADDR:PORT such as 127.0.0.1:{usual_port} or [::1]:{usual_port}")
    })
}

/// An IPv6 address with a zone, such as `fe80::1%eth0` or `[fe80::1%eth0]:3260`.
fn zoned(text: &str, usual_port: u16) -> Result<Vec<SocketAddr>, String> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        None => (text, Some(usual_port)),
        Some((host, "")) => (host, Some(usual_port)),
        Some((host, rest)) => (host, rest.strip_prefix(':').and_then(|port| port.parse().ok())),
    };
    let port = port.ok_or_else(|| "the port is no number from 0 to 65535".to_owned())?;
    (host, port).to_socket_addrs().map(Iterator::collect).map_err(|error| error.to_string())
}

/// Why all of these cannot be listened on; several ports that the kernel picks are several.
///
/// `[::]` leaves IPv4 to others that have its port: see `Config::listening`.
pub(super) fn clash(addresses: &[SocketAddr]) -> Option<String> {
    let plain = |address: &SocketAddr| match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        IpAddr::V6(_) => *address,
    };
    let addresses: Vec<_> = addresses.iter().map(plain).collect();
    addresses.iter().enumerate().find_map(|(n, address)| {
        let same_port = |other: &&SocketAddr| other.port() == address.port() && address.port() != 0;
        let mut others = addresses[n + 1..].iter().filter(same_port);
        others.find_map(|other| {
            let is_of_all = |one: &SocketAddr| one.ip().is_unspecified();
            match (is_of_all(address), is_of_all(other)) {
                _ if address == other => Some(format!("{address} is there twice; leave one out")),
                (true, _) if address.is_ipv4() == other.is_ipv4() => Some(covers(address, other)),
                (_, true) if address.is_ipv4() == other.is_ipv4() => Some(covers(other, address)),
                _ => None,
            }
        })
    })
}

fn covers(all: &SocketAddr, one: &SocketAddr) -> String {
    format!("{all} is {one} too; leave one out")
}

/// An iSCSI name, folded for comparison. Its form is checked, but not the part that the naming authority assigns.
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
            ("fe80::1%1", "[fe80::1%1]:3260"),
            ("[fe80::1%lo]:3261", "[fe80::1%1]:3261"),
        ] {
            assert_eq!(addresses(text, ISCSI_PORT).unwrap(), [expected.parse().unwrap()], "{text}");
        }
        for text in ["[fe80::1%lo]:x", "fe80::1%farlun-none", ":x", "127.0.0.1:99999", "", "127.0.0.1:"] {
            let error = addresses(text, ISCSI_PORT).unwrap_err();
            assert!(error.contains("expected ADDR:PORT"), "{text}: {error}");
        }
    }

    #[test]
    fn what_cannot_be_listened_on_together() {
        for (texts, expected) in [
            (["0.0.0.0:3260", "127.0.0.1:3260"], Some("0.0.0.0:3260 is 127.0.0.1:3260 too; leave one out")),
            (["[::1]:3260", "[::]:3260"], Some("[::]:3260 is [::1]:3260 too; leave one out")),
            (["127.0.0.1:7", "127.0.0.1:7"], Some("127.0.0.1:7 is there twice; leave one out")),
            (["0.0.0.0:3260", "127.0.0.1:3261"], None),
            (["0.0.0.0:0", "127.0.0.1:0"], None),
            (["0.0.0.0:3260", "[::1]:3260"], None),
            (["0.0.0.0:3260", "[::]:3260"], None),
            (["[::]:3260", "127.0.0.1:3260"], None),
            (["[::ffff:127.0.0.1]:7", "127.0.0.1:7"], Some("127.0.0.1:7 is there twice; leave one out")),
        ] {
            let found = texts.map(|text| text.parse().unwrap());
            assert_eq!(clash(&found).as_deref(), expected);
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
