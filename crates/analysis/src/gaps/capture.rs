//! Gaps between the packets of a capture, collected from its rows: of the direction that carried most, at the tap of its
//! summary, or between two taps if the capture shows it at several.

use std::collections::HashMap;

use dissect::{ConnectionSummary, DirectionKey, DirectionSummary, Dissection, PacketRow, RowSink};
use serde::Serialize;
use wire::inet::tcp::{FIN, RST, SYN};

use super::Gaps;
use super::packet::{Drawing, PASSAGES_MAX, Passage};
use super::pairs::{self, Kept};
use crate::path::line::ETHERNET_BYTES;

/// Limit of directions.
const WAYS_MAX: usize = 4_096;
/// Limit of kept packets over all directions.
const PASSAGES_ALL_MAX: usize = 1_000_000;
/// Packet sizes that a super-packet may consist of, if the handshake is not in the capture.
const MTUS: [u32; 2] = [1_500, 9_000];
/// Upper limit of the headers of IP and TCP, in bytes.
const HEADERS_MAX: usize = 160;
/// Flags that a pure acknowledgement does not have.
const NOT_JUST_ACK: u8 = SYN | FIN | RST;

/// Collects packets from the rows of a dissection.
#[derive(Debug, Default)]
pub struct GapCollector {
    ways: HashMap<DirectionKey, Way>,
    /// Packets kept of all directions.
    kept: usize,
    /// Selected directions; all if empty.
    only: Vec<DirectionKey>,
}

/// Gaps and their direction.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// The gaps; `None` if too few packets were kept.
    pub gaps: Option<Gaps>,
    /// Direction of the packets.
    pub of: Busiest,
}

/// The direction of a connection that carried most.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Busiest {
    /// Address of the sender.
    pub from: String,
    /// Address of the receiver.
    pub to: String,
    /// Packets with data.
    pub data_packets: u64,
    /// Packets that were examined: the first ones.
    pub looked_at: u64,
    /// True if each packet is known at two taps.
    pub two_taps: bool,
}

/// Packets of one direction at one tap.
#[derive(Debug, Default)]
struct Way {
    data: Vec<Kept>,
    acks: Vec<Kept>,
    /// Last cumulative acknowledgement.
    acked: Option<u64>,
    /// Payload of the largest segment.
    largest: u32,
    /// Headers of IP and TCP in front of it, in bytes.
    headers: u32,
}

/// The direction that carried most, with both directions of its connection at each tap.
struct Chosen<'a> {
    data: &'a DirectionSummary,
    taps: Vec<[DirectionKey; 2]>,
}

impl GapCollector {
    /// Gaps of the direction that carried most; `None` without data.
    #[must_use]
    pub fn finish(mut self, capture: &Dissection, drawing: Drawing) -> Option<Found> {
        let chosen = Chosen::of(capture)?;
        let kept =
            chosen.taps.first().and_then(|[data, _]| self.ways.get(data)).map_or(0, |way| way.data.len());
        let looked_at = chosen.data.data_packets.min(kept as u64);
        let (data, acks, two_taps) = self.between(&chosen).unwrap_or_default();
        let DirectionSummary { from, to, data_packets, .. } = chosen.data;
        let of =
            Busiest { from: from.clone(), to: to.clone(), data_packets: *data_packets, looked_at, two_taps };
        Some(Found { gaps: Gaps::of(&data, &acks, drawing), of })
    }

    /// Collector for a second pass that keeps the busiest connection alone, if earlier connections have used up the limit
    /// of this one.
    #[must_use]
    pub fn again(&self, capture: &Dissection) -> Option<GapCollector> {
        let chosen = Chosen::of(capture)?;
        let most = chosen.data.data_packets.min(PASSAGES_MAX as u64);
        let lacks = |[data, _]: &[DirectionKey; 2]| {
            self.ways.get(data).is_none_or(|way| (way.data.len() as u64) < most)
        };
        let only = || chosen.taps.iter().flatten().copied().collect();
        (self.only.is_empty() && self.kept >= PASSAGES_ALL_MAX && chosen.taps.first().is_some_and(lacks))
            .then(|| GapCollector { only: only(), ..GapCollector::default() })
    }

    /// Data and acknowledgements of a direction; true if each packet is known at two taps.
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
        let there = |name: &DirectionKey| self.ways.get(name).filter(|_| first != last);
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
    fn of(capture: &'a Dissection) -> Option<Chosen<'a>> {
        let both = |connection: &'a ConnectionSummary| {
            let [first, second] = &connection.directions;
            [(connection, first, second), (connection, second, first)]
        };
        let carried =
            |(_, data, _): &(&ConnectionSummary, &DirectionSummary, &DirectionSummary)| data.payload_bytes;
        let (connection, data, acks) =
            capture.connections.iter().flat_map(both).max_by_key(carried).filter(|all| carried(all) > 0)?;
        let name = |interface: u32, direction: &DirectionSummary| {
            let (src, dst) = (direction.from.parse().ok()?, direction.to.parse().ok()?);
            Some(DirectionKey { interface, src, dst })
        };
        let told = [name(data.interface, data)?, name(acks.interface, acks)?];
        let elsewhere =
            connection.also_at.iter().filter_map(|tap| Some([name(*tap, data)?, name(*tap, acks)?]));
        Some(Chosen { data, taps: std::iter::once(told).chain(elsewhere).collect() })
    }
}

impl Way {
    /// Payload of a packet on the wire: the MSS, if the handshake is in the capture. Otherwise segments longer than a packet
    /// are taken for a number of whole packets.
    fn packet_payload(&self, name: DirectionKey, mss_bytes: Option<u64>) -> u32 {
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

impl RowSink for GapCollector {
    fn packet(&mut self, row: &PacketRow) {
        let name = row.direction;
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
            let before = *way.acked.get_or_insert(row.acked_offset);
            let newly = u32::try_from(row.acked_offset.saturating_sub(before)).unwrap_or(u32::MAX);
            way.acked = Some(before.max(row.acked_offset));
            way.acks.push(Kept { newly, ..kept });
            self.kept += 1;
        }
    }
}

#[cfg(test)]
mod tests;
