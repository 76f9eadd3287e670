//! The packets of a run's busiest connection, from the table `packets`.

use std::path::Path;

use event::{Direction, Fate, Packet};
use tables::{Packets, TableError};

use super::Gaps;
use super::packet::{Drawing, Kind, PASSAGES_MAX, Passage, Tap};
use super::whole::Whole;
use crate::Span;
use crate::diagram::{Flow, Flows, Hosts};
use crate::path::line::ETHERNET_BYTES;

/// Columns that are needed here.
const COLUMNS: [&str; 16] = [
    "ingress_t_ns",
    "scheduled_t_ns",
    "egress_t_ns",
    "direction",
    "fate",
    "ip_bytes",
    "segments",
    "src_host",
    "dst_host",
    "src_port",
    "dst_port",
    "seq",
    "ack",
    "payload_bytes",
    "tcp_flags",
    "unseen_ns",
];
/// SYN, FIN and RST.
const NOT_JUST_ACK: u32 = 2 | 1 | 4;

/// Gaps of the busiest connection between some hosts, from the first packets of a window; `None` without a table, or
/// with too few packets. The figures also have some of all its packets.
///
/// # Errors
/// [`TableError`] if a table is there and cannot be read.
pub fn collect(
    dir: &Path,
    between: Hosts,
    window: Span,
    drawing: Drawing,
) -> Result<Option<Gaps>, TableError> {
    let mut flows = [Flows::default(), Flows::default()];
    let walked = tables::read_pieces::<Packet>(dir, Some(&COLUMNS), |packets| {
        for row in (0..packets.seq.len()).filter(|row| between.have(&packets, *row)) {
            flows[usize::from(packets.direction[row] == Direction::FarToNear)].add(&packets, row);
        }
    })?;
    if !walked {
        return Ok(None);
    }
    let [out, back] = flows.map(|flows| flows.busiest_with_bytes());
    let (flow, towards) = match (out, back) {
        (Some((flow, out)), Some((_, back))) if out >= back => (flow, Direction::NearToFar),
        (_, Some((flow, _))) => (flow, Direction::FarToNear),
        (Some((flow, _)), None) => (flow, Direction::NearToFar),
        (None, None) => return Ok(None),
    };
    let whole = [
        (Kind::Data, Tap::Sent),
        (Kind::Data, Tap::Received),
        (Kind::Acks, Tap::Sent),
        (Kind::Acks, Tap::Received),
    ]
    .map(|seen| (seen, Whole::new(drawing, seen == (Kind::Data, Tap::Sent))));
    let mut walk = Walk { flow, towards, window, data: Vec::new(), acks: Vec::new(), acked: None, whole };
    tables::read_pieces::<Packet>(dir, Some(&COLUMNS), |packets| {
        (0..packets.seq.len()).for_each(|row| walk.take(&packets, row));
    })?;
    let mut gaps = Gaps::of(&walk.data, &walk.acks, drawing);
    for ((kind, tap), whole) in walk.whole {
        let mut taps = gaps.iter_mut().flat_map(|gaps| &mut gaps.taps);
        if let Some(here) = taps.find(|here| (here.kind, here.tap) == (kind, tap)) {
            here.shown.whole = whole.finish();
        }
    }
    Ok(gaps)
}

/// Takes one connection's packets out of the table, which has each direction in order.
struct Walk {
    flow: Flow,
    /// Direction of most of its payload.
    towards: Direction,
    window: Span,
    data: Vec<Passage>,
    acks: Vec<Passage>,
    /// The furthest acknowledgement so far.
    acked: Option<u32>,
    /// Points of all packets for figures, of each kind at the first tap and at the last.
    whole: [((Kind, Tap), Whole); 4],
}

impl Walk {
    fn take(&mut self, packets: &Packets, row: usize) {
        if Flow::of(packets, row) != Some(self.flow) || packets.fate[row] == Fate::Duplicate {
            return;
        }
        let (payload, flags) = (packets.payload_bytes[row], packets.tcp_flags[row]);
        let is_data = packets.direction[row] == self.towards && payload > 0;
        let is_ack = packets.direction[row] != self.towards && payload == 0 && flags & NOT_JUST_ACK == 0;
        let newly = if is_ack { self.newly_acked(packets.ack[row]) } else { 0 };
        let sent_ns = packets.ingress_t_ns[row];
        let segments = packets.segments[row].max(1);
        let arrived = packets.fate[row] == Fate::Delivered;
        if is_data || is_ack {
            let kind = if is_data { Kind::Data } else { Kind::Acks };
            for ((_, tap), whole) in self.whole.iter_mut().filter(|((of, _), _)| *of == kind) {
                match tap {
                    Tap::Sent => whole.pass(sent_ns, segments),
                    _ if arrived => whole.pass(packets.egress_t_ns[row], segments),
                    _ => {}
                }
            }
        }
        if !(self.window.start_ns..self.window.end_ns).contains(&sent_ns) {
            return;
        }
        // Every packet of a super-packet has headers of its own on the line.
        let headers = packets.ip_bytes[row].saturating_sub(payload);
        let wire_bytes = packets.ip_bytes[row]
            .saturating_add(segments.saturating_mul(ETHERNET_BYTES))
            .saturating_add((segments - 1).saturating_mul(headers));
        let list = match (is_data, is_ack) {
            (true, _) => &mut self.data,
            (_, true) => &mut self.acks,
            _ => return,
        };
        if list.len() < PASSAGES_MAX {
            list.push(Passage {
                sent_ns,
                arrived_ns: arrived.then(|| (packets.scheduled_t_ns[row], packets.egress_t_ns[row])),
                bytes: if is_data { wire_bytes } else { newly },
                segments,
                unseen_ns: packets.unseen_ns[row],
            });
        }
    }

    /// Newly acknowledged bytes of an acknowledgement; 0 for the first one, and for a late one.
    fn newly_acked(&mut self, ack: u32) -> u32 {
        let before = *self.acked.get_or_insert(ack);
        let step = ack.wrapping_sub(before).cast_signed();
        if step > 0 {
            self.acked = Some(ack);
        }
        step.max(0).cast_unsigned()
    }
}
