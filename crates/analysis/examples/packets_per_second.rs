//! Speed of dissection and diagnosis of captures: `cargo run --release -p analysis --example packets_per_second
//! [-- PACKETS [FOLDER]]`.
//!
//! Makes captures in the folder for temporary files and reads them as `farlun analyze` does: four connections with
//! reads of 64 KiB in Data-In PDUs of 8 KiB, an acknowledgement for every other packet, 128 bytes of each kept: without
//! loss, with one packet in 500 lost and reported by selective acknowledgements, with every packet twice, and as four
//! rings leave them that are drained in turn; and an eighth as many whole packets.
//! Prints one JSON document; `cargo xtask bench analyze` reads it. With FOLDER the captures are written there and not
//! read: `farlun analyze` of two builds reads the same ones then.

#[path = "../../dissect/tests/tapped/mod.rs"]
mod tapped;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use analysis::capture::DiagnosedCapture;
use dissect::Dissector;
use tapped::{FILE_HEADER, Reads, record};

/// A capture to be made.
struct Shape {
    name: &'static str,
    /// Bytes kept of each packet.
    keep: usize,
    /// One packet in so many is lost.
    lost_one_in: u64,
    /// One in so many of the requested packets.
    part: u64,
    arrival: Arrival,
}

/// Order and number of the packets in the file.
#[derive(Clone, Copy, PartialEq)]
enum Arrival {
    InOrder,
    /// Every packet twice, 5 ns apart.
    Doubled,
    /// Each connection in a ring; one ring is drained after the other.
    Rings,
}

/// Packets of all rings between two turns.
const TURN_PACKETS: u64 = 2_048;

const HEADERS: Shape =
    Shape { name: "headers", keep: 128, lost_one_in: u64::MAX, part: 1, arrival: Arrival::InOrder };
const SHAPES: [Shape; 5] = [
    HEADERS,
    Shape { name: "headers_with_loss", lost_one_in: 500, ..HEADERS },
    Shape { name: "doubled_headers", arrival: Arrival::Doubled, ..HEADERS },
    Shape { name: "headers_of_rings", arrival: Arrival::Rings, ..HEADERS },
    Shape { name: "whole", keep: usize::MAX, part: 8, ..HEADERS },
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let packets: u64 = std::env::args().nth(1).map_or(Ok(4_000_000), |text| text.parse())?;
    if let Some(folder) = std::env::args().nth(2) {
        return keep(Path::new(&folder), packets);
    }
    let path = std::env::temp_dir().join(format!("farlun-packets-{}.pcap", std::process::id()));
    let mut found = Vec::new();
    for shape in &SHAPES {
        write(&path, shape, packets)?;
        let before = Instant::now();
        let dissection = Dissector::new().read(File::open(&path)?, &mut (), |_| {})?;
        let capture = DiagnosedCapture::new(dissection);
        let seconds = before.elapsed().as_secs_f64();
        let totals = &capture.dissection().totals;
        let iscsi = capture.connections().filter_map(|connection| connection.summary.iscsi.as_ref());
        let commands = iscsi.filter_map(|iscsi| iscsi.commands.completed.estimate());
        found.push(serde_json::json!({
            "name": shape.name,
            "packets": totals.packets,
            "commands": commands.sum::<u64>(),
            "seconds": seconds,
            "packets_per_s": totals.packets as f64 / seconds,
        }));
    }
    std::fs::remove_file(&path)?;
    println!("{}", serde_json::json!({"shapes": found, "peak_bytes": peak_memory_bytes()}));
    Ok(())
}

/// Writes the captures to `folder` and prints their paths and packets.
fn keep(folder: &Path, packets: u64) -> Result<(), Box<dyn std::error::Error>> {
    let mut captures = Vec::new();
    for shape in &SHAPES {
        let path = folder.join(shape.name).with_extension("pcap");
        let written = write(&path, shape, packets)?;
        captures.push(serde_json::json!({"name": shape.name, "path": path, "packets": written}));
    }
    println!("{}", serde_json::json!({"captures": captures}));
    Ok(())
}

/// Writes a capture; returns its packets, which are at least as many as its part of `packets`.
fn write(path: &Path, shape: &Shape, packets: u64) -> std::io::Result<u64> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    out.write_all(&FILE_HEADER)?;
    let mut connections: Vec<Reads> =
        (0..4).map(|port| Reads::new(40_000 + port, shape.lost_one_in)).collect();
    let mut rings = vec![Vec::new(); connections.len()];
    let (mut written, mut drained, mut t_ns) = (0, 0, 0);
    while written < packets / shape.part {
        for (connection, ring) in connections.iter_mut().zip(&mut rings) {
            connection.turn(|frame| {
                t_ns += 1_000;
                written += 1;
                if shape.arrival == Arrival::Doubled {
                    written += 1;
                    record(ring, t_ns, frame, shape.keep)?;
                    return record(ring, t_ns + 5, frame, shape.keep);
                }
                record(ring, t_ns, frame, shape.keep)
            })?;
            if shape.arrival != Arrival::Rings {
                out.write_all(ring)?;
                ring.clear();
            }
        }
        if written - drained >= TURN_PACKETS {
            drained = written;
            drain(&mut rings, &mut out)?;
        }
    }
    drain(&mut rings, &mut out)?;
    out.flush()?;
    Ok(written)
}

/// Writes one ring after the other.
fn drain(rings: &mut [Vec<u8>], out: &mut impl Write) -> std::io::Result<()> {
    rings.iter_mut().try_for_each(|ring| {
        out.write_all(ring)?;
        ring.clear();
        Ok(())
    })
}

/// The most memory this process had, from its status; 0 where the system does not say.
fn peak_memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kib| kib * 1024)
}
