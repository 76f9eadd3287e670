//! Headers in front of a packet, and the result of a decoder: the next header, or the end of the walk.

use super::other::Other;
use super::tunnel::Tunnel;

/// A header of a frame that has not been read yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Header {
    /// The frame of a link layer, by its LINKTYPE_ number.
    Link(u32),
    /// Ethernet from its destination address on.
    Ethernet,
    /// An EtherType, or the length of an IEEE 802.3 frame.
    Kind,
    /// The header behind an EtherType.
    EtherType(u16),
    /// IEEE 802.2 LLC.
    Llc,
    /// IPv4 or IPv6, by its version.
    Ip,
    /// The header behind an IP header, by its protocol number.
    Protocol(u8),
    /// PPP with or without HDLC address and control.
    Ppp,
    /// A PPP over Ethernet session.
    Pppoe,
    /// A stack of MPLS labels.
    Mpls,
    /// GRE.
    Gre,
    /// UDP.
    Udp,
    /// Netfilter's log.
    Nflog,
}

/// Result of one decoder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// The next header, and the bytes in front of it from the header that was read.
    Next(Header, usize),
    /// The next header inside a tunnel, and the bytes in front of it.
    Tunnel(Tunnel, Header, usize),
    /// TCP; the place is known from the IP header in front.
    Tcp,
    /// A fragment; the place is known from the IP header in front.
    Fragment,
    /// An ICMP report of a packet that did not arrive, and its name.
    Unreachable(Other),
    /// Nothing that can contain a TCP segment.
    Other(Other),
}
