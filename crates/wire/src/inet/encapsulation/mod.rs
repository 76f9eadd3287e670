//! The innermost IP packet of a frame: link layers, tags, tunnels and pseudo-wires that stand in front of it.
//!
//! [`decapsulate`] walks a frame from the outside in, one header at a time. Each header format has a decoder with its
//! specification beside it. A frame without a TCP segment yields the reason, so that a reader can count and name it.
//! Frame check sequences, padding and trailers are not examined. Frames may be cut off anywhere.

mod ethernet;
mod gre;
mod ip;
mod link;
mod mpls;
mod nflog;
mod other;
mod plausible;
mod ppp;
mod step;
mod tunnel;
mod udp;
mod vxlan;

pub use link::interface_index;
pub use other::Other;
pub use tunnel::{Tunnel, Tunnels};

use step::{Header, Step};

/// Headers of one frame that are read, tags included. The deepest stack of tags and tunnels in use has about a dozen
/// (QinQ, MPLS, IP, UDP, VXLAN, Ethernet, VLAN, IP-in-IP), of which IP and tags take two steps each; more is damage.
const HEADERS_MAX: usize = 32;

/// The innermost IP packet of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inner {
    /// Bytes in front of its IP header.
    pub ip_at: usize,
    /// Tunnels that these bytes belong to.
    pub tunnels: Tunnels,
}

/// Content of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// An IP packet with a TCP segment, or with the first bytes of one.
    Tcp(Inner),
    /// A fragment of an IP packet.
    Fragment(Inner),
    /// An ICMP report of a packet that did not arrive; its name.
    Unreachable(Inner, Other),
    /// No TCP segment; the reason.
    Other(Other),
}

/// Finds the innermost IP packet in a frame of the link layer `link`, a LINKTYPE_ number of tcpdump.org.
#[must_use]
pub fn decapsulate(link: u32, frame: &[u8]) -> Content {
    let (mut header, mut at) = (Header::Link(link), 0);
    let (mut ip_at, mut tunnels) = (None, Tunnels::default());
    for _ in 0..HEADERS_MAX {
        let Some(bytes) = frame.get(at..) else { return Content::Other(Other::Cut) };
        if header == Header::Ip {
            ip_at = Some(at);
        }
        let step = match header {
            Header::Link(link) => link::link(link, bytes),
            Header::Ethernet => ethernet::ethernet(bytes),
            Header::Kind => ethernet::kind(bytes),
            Header::EtherType(kind) => ethernet::behind(kind, bytes),
            Header::Llc => ethernet::llc(bytes),
            Header::Ip => ip::ip(bytes),
            Header::Protocol(protocol) => ip::behind(protocol, bytes),
            Header::Ppp => ppp::ppp(bytes),
            Header::Pppoe => ppp::pppoe(bytes),
            Header::Mpls => mpls::mpls(bytes),
            Header::Gre => gre::gre(bytes),
            Header::Udp => udp::udp(bytes),
            Header::Nflog => nflog::nflog(bytes),
        };
        (header, at) = match step {
            Step::Next(next, len) => (next, at + len),
            Step::Tunnel(tunnel, next, len) => {
                tunnels.add(tunnel);
                (next, at + len)
            }
            Step::Tcp | Step::Fragment | Step::Unreachable(_) => {
                let Some(ip_at) = ip_at else { return Content::Other(Other::Damaged) };
                let inner = Inner { ip_at, tunnels };
                return match step {
                    Step::Tcp => Content::Tcp(inner),
                    Step::Unreachable(other) => Content::Unreachable(inner, other),
                    _ => Content::Fragment(inner),
                };
            }
            Step::Other(other) => return Content::Other(other),
        };
    }
    Content::Other(Other::Deep)
}

#[cfg(test)]
mod tests;
