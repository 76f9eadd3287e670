//! First packets of a capture file: they tell whether the file continues another one or repeats its traffic.

use wire::pcap::Packet;

/// Packets that are kept.
const PACKETS: usize = 256;
/// Bytes that are kept of each packet; headers are shorter.
const BYTES: usize = 192;

/// The first packets of a file.
#[derive(Clone, Debug, Default)]
pub struct FirstPackets {
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

impl FirstPackets {
    /// Takes the next packet and the name of its interface; true when enough packets are kept.
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

    /// Time of the first packet in ns; 0 if there is none.
    pub fn first_ns(&self) -> u64 {
        self.packets.first().map_or(0, |packet| packet.t_ns)
    }

    /// True if `is_known` holds for most of the packets for which it has an answer.
    pub(crate) fn are_mostly_known(
        &self,
        mut is_known: impl FnMut(&Packet<'_>, &str) -> Option<bool>,
    ) -> bool {
        let answers = self.packets.iter().filter_map(|kept| {
            let Kept { t_ns, link, interface, len, .. } = *kept;
            is_known(&Packet { t_ns, link, interface, len, bytes: &kept.bytes }, &kept.name)
        });
        let (known, all) = answers.fold((0, 0), |(known, all), is| (known + usize::from(is), all + 1));
        known * 2 > all
    }
}
