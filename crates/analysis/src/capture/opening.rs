//! What a file begins with: enough to tell whether it goes on with another one or shows the same traffic again.

use wire::pcap::Packet;

/// Packets that are looked at.
const PACKETS: usize = 256;
/// Bytes that are kept of each: more than its headers have.
const BYTES: usize = 192;

/// The first packets of a file.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    packets: Vec<Kept>,
}

#[derive(Clone, Debug)]
struct Kept {
    t_ns: u64,
    link: u32,
    interface: u32,
    name: String,
    len: usize,
    bytes: Vec<u8>,
}

impl Opening {
    /// Takes the next packet; whether those are enough.
    pub fn packet(&mut self, packet: &Packet<'_>, interface: &str) -> bool {
        let bytes = packet.bytes[..packet.bytes.len().min(BYTES)].to_vec();
        self.packets.push(Kept {
            t_ns: packet.t_ns,
            link: packet.link,
            interface: packet.interface,
            name: interface.to_owned(),
            len: packet.len,
            bytes,
        });
        self.packets.len() >= PACKETS
    }

    /// Time of the first packet; 0 if there is none.
    pub fn first_ns(&self) -> u64 {
        self.packets.first().map_or(0, |packet| packet.t_ns)
    }

    /// Whether most packets were there before, of those of which `was_there` can tell.
    pub(super) fn is_in(&self, mut was_there: impl FnMut(&Packet<'_>, &str) -> Option<bool>) -> bool {
        let told = self.packets.iter().filter_map(|kept| {
            let Kept { t_ns, link, interface, len, .. } = *kept;
            was_there(&Packet { t_ns, link, interface, len, bytes: &kept.bytes }, &kept.name)
        });
        let (before, all) = told.fold((0, 0), |(before, all), is| (before + usize::from(is), all + 1));
        before * 2 > all
    }
}
