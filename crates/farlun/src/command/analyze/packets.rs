//! The segments of a capture's connections as the Parquet table `packets`, for SQL and pandas.
//!
//! Each connection is written as seen by the tap nearest its initiator, as in the report. A tap knows one time of a
//! packet and not its fate, so the three times of a row are one, and the fate is `seen`. Hosts are numbers in the
//! table: their addresses are printed beside it.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context;
use dissect::{DirectionKey, Dissection, PacketRow, RowSink};
use event::{Direction, Fate, Instant, Packet, Tcp};
use serde::Serialize;
use tables::{TableError, Writer};

use super::captured::Captured;
use super::tapped::Tapped;

/// Near hosts are numbered from 0, far ones from this, or from the next multiple if there are as many near ones.
const FAR: u32 = 100;

/// A table that was written.
#[derive(Serialize)]
pub(super) struct Table {
    pub(super) path: PathBuf,
    pub(super) rows: u64,
    /// Addresses by the numbers of hosts.
    pub(super) hosts: BTreeMap<u32, IpAddr>,
}

/// Writes the packets of a capture into a folder; the files are read a second time.
pub(super) fn write(folder: &Path, read: &Captured) -> anyhow::Result<Table> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let path = folder.join("packets.parquet");
    let (ways, hosts) = ways(read.capture.dissection());
    let mut writing = Writing { ways, writer: Writer::create(&path)?, failed: None };
    Tapped::again(read, &mut writing)?;
    if let Some(error) = writing.failed {
        return Err(error.into());
    }
    Ok(Table { rows: writing.writer.finish()?, path, hosts })
}

/// One direction of a connection.
struct Way {
    direction: Direction,
    src_host: u32,
    dst_host: u32,
    /// Payload of a packet, if both ends said.
    mss_bytes: Option<u64>,
    packets: u64,
}

struct Writing {
    ways: HashMap<DirectionKey, Way>,
    writer: Writer<Packet>,
    failed: Option<TableError>,
}

/// Both ways of every connection, and the hosts.
fn ways(capture: &Dissection) -> (HashMap<DirectionKey, Way>, BTreeMap<u32, IpAddr>) {
    let ends = capture.connections.iter().filter_map(|connection| {
        let address = |text: &str| text.parse::<SocketAddr>().ok();
        let [out, _] = &connection.directions;
        Some((connection, address(&out.from)?, address(&out.to)?))
    });
    let ends: Vec<_> = ends.collect();
    let (mut near, mut far): (Vec<IpAddr>, Vec<IpAddr>) = (Vec::new(), Vec::new());
    for (_, from, to) in &ends {
        for (hosts, end) in [(&mut near, from), (&mut far, to)] {
            if !hosts.contains(&end.ip()) {
                hosts.push(end.ip());
            }
        }
    }
    let first_far = (near.len() as u32).next_multiple_of(FAR).max(FAR);
    let number =
        |hosts: &[IpAddr], end: &SocketAddr| hosts.iter().position(|ip| *ip == end.ip()).unwrap_or(0) as u32;
    let mut ways = HashMap::new();
    for (connection, from, to) in &ends {
        let (src_host, dst_host) = (number(&near, from), first_far + number(&far, to));
        let [out, back] = &connection.directions;
        let way = |direction, src_host, dst_host, mss_bytes| Way {
            direction,
            src_host,
            dst_host,
            mss_bytes,
            packets: 0,
        };
        let there = way(Direction::NearToFar, src_host, dst_host, out.mss_bytes);
        let here = way(Direction::FarToNear, dst_host, src_host, back.mss_bytes);
        ways.insert(DirectionKey { interface: out.interface, src: *from, dst: *to }, there);
        ways.insert(DirectionKey { interface: back.interface, src: *to, dst: *from }, here);
    }
    let numbered = |first: u32, hosts: Vec<IpAddr>| (first..).zip(hosts);
    (ways, numbered(0, near).chain(numbered(first_far, far)).collect())
}

impl RowSink for Writing {
    fn packet(&mut self, row: &PacketRow) {
        let Some(way) = self.ways.get_mut(&row.direction) else { return };
        if self.failed.is_some() {
            return;
        }
        way.packets += 1;
        let segments = way.mss_bytes.map_or(1, |mss| (row.len as u64).div_ceil(mss.max(1)).max(1));
        let t = Instant::from_nanos(row.t_ns);
        let packet = Packet {
            ingress: t,
            scheduled: t,
            egress: t,
            direction: way.direction,
            number: way.packets,
            fate: Fate::Seen,
            ip_bytes: u32::try_from(row.ip_bytes).unwrap_or(u32::MAX),
            segments: u16::try_from(segments).unwrap_or(u16::MAX),
            src_host: way.src_host,
            dst_host: way.dst_host,
            tcp: Some(Tcp {
                src_port: row.direction.src.port(),
                dst_port: row.direction.dst.port(),
                seq: row.seq,
                ack: row.ack,
                payload_bytes: u32::try_from(row.len).unwrap_or(u32::MAX),
                flags: row.flags,
            }),
            unseen_ns: 0,
        };
        self.failed = self.writer.push(&packet).err();
    }
}
