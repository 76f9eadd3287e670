//! Head of every file of a capture: the program that made it, and a description of each interface.

use net::tap::Link;
use wire::pcap::write::{self, LINK_ETHERNET, LINK_RAW};

/// An interface as files describe it.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    pub(crate) name: String,
    pub(crate) description: &'static str,
    pub(crate) link: Link,
}

/// The blocks. `note` is a comment on the capture.
pub(crate) fn blocks(note: &str, interfaces: &[Described], snap_bytes: u32, filter: &str) -> Vec<u8> {
    let mut blocks = Vec::new();
    let words = event::shown_words(std::env::args_os());
    let comment = format!("{}{}{note}", words.join(" "), if note.is_empty() { "" } else { "\n" });
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    write::section(
        &mut blocks,
        &write::Section {
            comment: &comment,
            hardware: std::env::consts::ARCH,
            system: &format!("Linux {}", release.trim()),
            application: concat!("farlun ", env!("CARGO_PKG_VERSION")),
        },
    );
    for Described { name, description, link } in interfaces {
        let link = match link {
            Link::Ethernet => LINK_ETHERNET,
            Link::Ip => LINK_RAW,
        };
        write::interface(&mut blocks, &write::Interface { name, description, link, snap_bytes, filter });
    }
    blocks
}
