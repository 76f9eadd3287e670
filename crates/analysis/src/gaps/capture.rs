//! The packets of a capture, as its [`Listener`]: gaps of the connection that carried most, at the tap by which it is
//! told, or on its way between two taps if the capture shows it at several.

use std::collections::HashMap;
use std::net::SocketAddr;

use serde::Serialize;
use wire::inet::tcp::{FIN, RST, SYN};

use super::pairs::{self, Kept};
use super::{Drawing, Gaps, PASSAGES_MAX, Passage};
use crate::capture::{Capture, Connection, Direction, Listener, PacketRow};
use crate::line::ETHERNET_BYTES;

/// Directions of connections that are followed.
const WAYS_MAX: usize = 4_096;
/// Packets of all of them together that are kept.
const PASSAGES_ALL_MAX: usize = 1_000_000;
/// Packets of which super-packets are made, where the connection did not say.
const MTUS: [u32; 2] = [1_500, 9_000];
/// Headers of IP and TCP are no longer than this.
const HEADERS_MAX: usize = 160;
/// Whoever has one of these is no acknowledgement alone.
const NOT_JUST_ACK: u8 = SYN | FIN | RST;

/// Takes packets while a capture is read.
#[derive(Debug, Default)]
pub struct Listening {
    ways: HashMap<Name, Way>,
    /// Of all ways.
    kept: usize,
    /// The ways that are followed; all of them if there is none.
    only: Vec<Name>,
}

/// What was found, and of what.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// The gaps; `None` if too few packets were kept.
    pub gaps: Option<Gaps>,
    /// Whose they are.
    pub of: Busiest,
}

/// The direction of a connection that carried most.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Busiest {
    /// Who sent its data.
    pub from: String,
    /// Who got them.
    pub to: String,
    /// Packets of data that it had.
    pub data_packets: u64,
    /// Those that were looked at: the first ones.
    pub looked_at: u64,
    /// Whether each packet is known at two taps.
    pub two_taps: bool,
}

/// By what a way is known: the interface that shows it, who sends and who gets it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Name {
    interface: u32,
    src: SocketAddr,
    dst: SocketAddr,
}

/// What one end of a connection sent, as one tap saw it.
#[derive(Debug, Default)]
struct Way {
    data: Vec<Kept>,
    acks: Vec<Kept>,
    /// Up to where the last acknowledgement went.
    acked: Option<u64>,
    /// Payload of the largest segment.
    largest: u32,
    /// Headers in front of it, those of IP and TCP.
    headers: u32,
}

/// A connection that carried most one way, with both ways of it at each tap that shows it.
struct Chosen<'a> {
    data: &'a Direction,
    taps: Vec<[Name; 2]>,
}

impl Listening {
    /// The gaps of the connection that carried most one way, of those that are told; `None` if none carried anything.
    #[must_use]
    pub fn finish(mut self, capture: &Capture, drawing: Drawing) -> Option<Found> {
        let chosen = Chosen::of(capture)?;
        let kept =
            chosen.taps.first().and_then(|[data, _]| self.ways.get(data)).map_or(0, |way| way.data.len());
        let looked_at = chosen.data.data_packets.min(kept as u64);
        let (data, acks, two_taps) = self.between(&chosen).unwrap_or_default();
        let Direction { from, to, data_packets, .. } = chosen.data;
        let of =
            Busiest { from: from.clone(), to: to.clone(), data_packets: *data_packets, looked_at, two_taps };
        Some(Found { gaps: Gaps::of(&data, &acks, drawing), of })
    }

    /// One that follows the busiest connection alone, if this one lacks more of it than it may keep: others were there
    /// first.
    #[must_use]
    pub fn again(&self, capture: &Capture) -> Option<Listening> {
        let chosen = Chosen::of(capture)?;
        let most = chosen.data.data_packets.min(PASSAGES_MAX as u64);
        let lacks =
            |[data, _]: &[Name; 2]| self.ways.get(data).is_none_or(|way| (way.data.len() as u64) < most);
        let only = || chosen.taps.iter().flatten().copied().collect();
        (self.only.is_empty() && self.kept >= PASSAGES_ALL_MAX && chosen.taps.first().is_some_and(lacks))
            .then(|| Listening { only: only(), ..Listening::default() })
    }

    /// Its data and acknowledgements, and whether each was seen at two taps.
    fn between(&mut self, chosen: &Chosen<'_>) -> Option<(Vec<Passage>, Vec<Passage>, bool)> {
        let at = |which: usize, list: fn(&Way) -> &[Kept]| -> Vec<&[Kept]> {
            let ways = chosen.taps.iter().map(|names| self.ways.get(&names[which]));
            ways.map(|way| way.map_or(&[][..], list)).collect()
        };
        let ends = pairs::ends(&at(0, |way| &way.data), &at(1, |way| &way.acks));
        let (first, last) = ends.unwrap_or((0, 0));
        let [names, other] = [chosen.taps[first], chosen.taps[last]];
        let data = self.ways.remove(&names[0])?;
        let acks = self.ways.remove(&other[1]).unwrap_or_default();
        let there = |name: &Name| self.ways.get(name).filter(|_| first != last);
        let came = [
            pairs::arrivals(&data.data, there(&other[0]).map_or(&[], |way| &way.data)),
            pairs::arrivals(&acks.acks, there(&names[1]).map_or(&[], |way| &way.acks)),
        ];
        let packet_bytes = data.packet_payload(names[0], chosen.data.mss_bytes);
        let passage = |kept: &Kept, came: Option<u64>, bytes: u32, segments: u32| Passage {
            sent_ns: kept.t_ns,
            arrived_ns: came.map(|t_ns| (t_ns, t_ns)),
            bytes,
            segments,
            unseen_ns: 0,
        };
        let of_data = data.data.iter().zip(&came[0]).map(|(kept, came)| {
            let segments = kept.len.div_ceil(packet_bytes).max(1);
            let headers = segments.saturating_mul(data.headers + ETHERNET_BYTES);
            passage(kept, *came, kept.len.saturating_add(headers), segments)
        });
        let of_acks = acks.acks.iter().zip(&came[1]).map(|(kept, came)| passage(kept, *came, kept.newly, 1));
        Some((of_data.collect(), of_acks.collect(), first != last))
    }
}

impl<'a> Chosen<'a> {
    fn of(capture: &'a Capture) -> Option<Chosen<'a>> {
        let both = |connection: &'a Connection| {
            let [first, second] = &connection.directions;
            [(connection, first, second), (connection, second, first)]
        };
        let carried = |(_, data, _): &(&Connection, &Direction, &Direction)| data.payload_bytes;
        let (connection, data, acks) =
            capture.connections.iter().flat_map(both).max_by_key(carried).filter(|all| carried(all) > 0)?;
        let name = |interface: u32, direction: &Direction| {
            let (src, dst) = (direction.from.parse().ok()?, direction.to.parse().ok()?);
            Some(Name { interface, src, dst })
        };
        let told = [name(data.interface, data)?, name(acks.interface, acks)?];
        let elsewhere =
            connection.also_at.iter().filter_map(|tap| Some([name(*tap, data)?, name(*tap, acks)?]));
        Some(Chosen { data, taps: std::iter::once(told).chain(elsewhere).collect() })
    }
}

impl Way {
    /// Payload of a packet that is none of several. Both ends may have said; else segments that are longer than a packet
    /// can be are taken to be so many whole ones.
    fn packet_payload(&self, name: Name, mss_bytes: Option<u64>) -> u32 {
        let plain = if name.src.is_ipv6() { 60 } else { 40 };
        if let Some(mss) = mss_bytes.and_then(|mss| u32::try_from(mss).ok()) {
            return mss.saturating_sub(self.headers.saturating_sub(plain)).max(1);
        }
        let [usual, jumbo] = MTUS.map(|mtu| mtu - self.headers);
        let whole = |payload: u32| self.data.iter().filter(|kept| kept.len % payload == 0).count();
        match (whole(usual), whole(jumbo)) {
            _ if self.largest <= usual => self.largest.max(1),
            (0, 0) if self.largest <= jumbo => self.largest,
            (of_usual, of_jumbo) if of_jumbo > of_usual => jumbo,
            _ => usual,
        }
    }
}

impl Listener for Listening {
    fn packet(&mut self, row: &PacketRow) {
        let name = Name { interface: row.interface, src: row.src, dst: row.dst };
        let is_wanted = self.only.is_empty() || self.only.contains(&name);
        if self.kept >= PASSAGES_ALL_MAX || !is_wanted {
            return;
        }
        if self.ways.len() >= WAYS_MAX && !self.ways.contains_key(&name) {
            return;
        }
        let way = self.ways.entry(name).or_default();
        if row.flags & SYN != 0 {
            way.acked = None;
        }
        let len = u32::try_from(row.len).unwrap_or(u32::MAX);
        let kept = Kept { t_ns: row.t_ns, seq: row.seq, ack: row.ack, len, newly: 0, flags: row.flags };
        if row.len > 0 && way.data.len() < PASSAGES_MAX {
            if len >= way.largest {
                way.largest = len;
                way.headers = row.ip_bytes.saturating_sub(row.len).min(HEADERS_MAX) as u32;
            }
            way.data.push(kept);
            self.kept += 1;
        } else if row.len == 0 && row.flags & NOT_JUST_ACK == 0 && way.acks.len() < PASSAGES_MAX {
            let before = *way.acked.get_or_insert(row.acked);
            let newly = u32::try_from(row.acked.saturating_sub(before)).unwrap_or(u32::MAX);
            way.acked = Some(before.max(row.acked));
            way.acks.push(Kept { newly, ..kept });
            self.kept += 1;
        }
    }
}

#[cfg(test)]
mod tests;
