//! PDUs in a stream of bytes, and the packets that carry them.
//!
//! PDUs know their connection by the session's name, packets by ports. The join is by time: a PDU lies in the stream in
//! which a packet left when the socket took the PDU.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;

use event::{Host, PduKind, PduSeen, Way};
use tables::{Pdus, TableError};

/// A packet that leaves when its socket has taken a PDU does so within this time.
const LEAVES_WITHIN_NS: u64 = 20_000_000;
/// The share of PDUs that must be found in their packets.
const FOUND_SHARE: f64 = 0.5;

/// A PDU as its sender made it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pdu {
    /// Sender.
    pub from: Host,
    /// Type.
    pub kind: PduKind,
    /// True if it carries the status of its command.
    pub has_status: bool,
    /// Time at which the socket took its last byte; if unknown, time at which the PDU was made.
    pub t_ns: u64,
    /// Initiator task tag.
    pub itt: u32,
    /// Number of its command.
    pub cmd_sn: u32,
    /// Buffer offset of its data.
    pub offset_bytes: u32,
    /// Length of its data.
    pub len_bytes: u32,
    /// Offset of its first byte in its stream.
    pub stream_begin: u64,
    /// Offset behind its last byte.
    pub stream_end: u64,
}

/// A packet's payload, as far as the join needs it.
pub(super) struct Carried {
    pub(super) from: Host,
    pub(super) t_ns: u64,
    pub(super) bytes: Range<u64>,
}

/// The PDUs of the connection whose packets these are (first transmissions, in order of the stream).
pub(super) fn of_packets(dirs: &[PathBuf], packets: &[Carried]) -> Result<Vec<Pdu>, TableError> {
    let mut candidates: HashMap<(u64, u32), Vec<Pdu>> = HashMap::new();
    let reach = |host| {
        let of_host = || packets.iter().filter(|p| p.from == host).map(|p| &p.bytes);
        of_host().map(|b| b.start).min().unwrap_or(0)..of_host().map(|b| b.end).max().unwrap_or(0)
    };
    let (near, far) = (reach(Host::Near), reach(Host::Far));
    let mut take = |piece: Pdus| {
        for row in 0..piece.t_ns.len() {
            // A peer without records is known by the PDUs that our end received.
            let from = match (piece.host[row], piece.direction[row]) {
                (host, Way::Out) => host,
                (Host::Near, Way::In) => Host::Far,
                (Host::Far, Way::In) => Host::Near,
            };
            let reach = if from == Host::Near { &near } else { &far };
            let (begin, end) = (piece.stream_begin[row], piece.stream_end[row]);
            if begin <= end && begin < reach.end && end > reach.start {
                let key = (piece.session[row], piece.connection[row]);
                candidates.entry(key).or_default().push(pdu(&piece, row, from));
            }
        }
    };
    for dir in dirs {
        tables::read_pieces::<PduSeen>(dir, None, &mut take)?;
    }
    let once = candidates.into_values().map(|mut pdus| {
        // A PDU recorded by both ends is one PDU; the sender's row has the earlier time and stays.
        pdus.sort_unstable_by_key(|p| (p.from == Host::Far, p.stream_begin, p.t_ns));
        pdus.dedup_by_key(|p| (p.from, p.stream_begin));
        pdus
    });
    let best = once.map(|pdus| (found_share(&pdus, packets), pdus));
    let best = best.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(share, _)| *share >= FOUND_SHARE);
    Ok(best.map_or_else(Vec::new, |(_, pdus)| pdus))
}

/// Indices of the PDUs, in stream order, with bytes in a packet.
pub(crate) fn inside(pdus: &[Pdu], from: Host, bytes: &Range<u64>) -> Range<usize> {
    let of_host = if from == Host::Near {
        0..pdus.partition_point(|p| p.from == Host::Near)
    } else {
        pdus.partition_point(|p| p.from == Host::Near)..pdus.len()
    };
    let list = &pdus[of_host.clone()];
    let first = list.partition_point(|p| p.stream_end <= bytes.start);
    let last = list.partition_point(|p| p.stream_begin < bytes.end);
    of_host.start + first..of_host.start + last.max(first)
}

/// The share of PDUs that a packet carried at their time.
fn found_share(pdus: &[Pdu], packets: &[Carried]) -> f64 {
    let carried = |pdu: &&Pdu| {
        let last_byte = pdu.stream_end.saturating_sub(1);
        let carries = |p: &&Carried| p.from == pdu.from && p.bytes.contains(&last_byte);
        let after = packets.partition_point(|p| p.t_ns.saturating_add(LEAVES_WITHIN_NS) < pdu.t_ns);
        let until_ns = pdu.t_ns.saturating_add(LEAVES_WITHIN_NS);
        let near_then = packets[after..].iter().take_while(|p| p.t_ns <= until_ns);
        near_then.into_iter().any(|p| carries(&p))
    };
    let (first, last) = (packets.first().map_or(0, |p| p.t_ns), packets.last().map_or(0, |p| p.t_ns));
    let there: Vec<&Pdu> = pdus.iter().filter(|p| (first..=last).contains(&p.t_ns)).take(200).collect();
    if there.is_empty() {
        0.0
    } else {
        there.iter().filter(|p| carried(p)).count() as f64 / there.len() as f64
    }
}

fn pdu(columns: &Pdus, row: usize, from: Host) -> Pdu {
    let socketed = columns.socketed_t_ns[row];
    Pdu {
        from,
        kind: columns.kind[row],
        has_status: columns.has_status[row] != 0,
        t_ns: if socketed > 0 { socketed } else { columns.t_ns[row] },
        itt: columns.itt[row],
        cmd_sn: columns.cmd_sn[row],
        offset_bytes: columns.offset_bytes[row],
        len_bytes: columns.len_bytes[row],
        stream_begin: columns.stream_begin[row],
        stream_end: columns.stream_end[row],
    }
}
