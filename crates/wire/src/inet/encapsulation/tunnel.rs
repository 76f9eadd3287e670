//! Tunnels and pseudo-wires around a packet.

/// Encapsulations that can stand around an IP packet and that are worth a mention.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tunnel {
    /// RFC 7348.
    Vxlan,
    /// RFC 8926.
    Geneve,
    /// RFC 2784, 2890, 7637.
    Gre,
    /// draft-foschiano-erspan-03.
    Erspan,
    /// RFC 3032, 4385.
    Mpls,
    /// RFC 2516.
    Pppoe,
    /// RFC 2003, 4213, 2473.
    IpInIp,
    /// 3GPP TS 29.281.
    GtpU,
    /// RFC 2661, RFC 2637.
    L2tp,
    /// TaZmen Sniffer Protocol.
    Tzsp,
    /// RFC 3378.
    EtherIp,
    /// IEEE 802.1AE with integrity alone.
    MacSec,
}

impl Tunnel {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Vxlan,
        Self::Geneve,
        Self::Gre,
        Self::Erspan,
        Self::Mpls,
        Self::Pppoe,
        Self::IpInIp,
        Self::GtpU,
        Self::L2tp,
        Self::Tzsp,
        Self::EtherIp,
        Self::MacSec,
    ];

    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vxlan => "VXLAN",
            Self::Geneve => "GENEVE",
            Self::Gre => "GRE",
            Self::Erspan => "ERSPAN",
            Self::Mpls => "MPLS",
            Self::Pppoe => "PPPoE",
            Self::IpInIp => "IP-in-IP",
            Self::GtpU => "GTP-U",
            Self::L2tp => "L2TP",
            Self::Tzsp => "TZSP",
            Self::EtherIp => "EtherIP",
            Self::MacSec => "MACsec",
        }
    }
}

/// Set of tunnels around a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tunnels(u16);

impl Tunnels {
    /// True if there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The tunnels of the set.
    pub fn iter(self) -> impl Iterator<Item = Tunnel> {
        Tunnel::ALL.into_iter().filter(move |tunnel| self.0 & 1 << *tunnel as u16 != 0)
    }

    pub(super) fn add(&mut self, tunnel: Tunnel) {
        self.0 |= 1 << tunnel as u16;
    }
}
