//! Speed of dissection and diagnosis of captures: `cargo run --release -p analysis --example packets_per_second
//! [-- PACKETS [FOLDER]]`.
//!
//! Makes captures in the folder for temporary files and reads them as `farlun analyze` does: four connections with
//! reads of 64 KiB in Data-In PDUs of 8 KiB, an acknowledgement for every other packet, 128 bytes of each kept, without
//! loss and with one packet in 500 lost and told of by selective acknowledgements; and an eighth as many whole packets.
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

/// A capture to be made: name, bytes kept of each packet, one packet in so many is lost, one in so many of the packets
/// that were asked for.
const SHAPES: [(&str, usize, u64, u64); 3] =
    [("headers", 128, u64::MAX, 1), ("headers_with_loss", 128, 500, 1), ("whole", usize::MAX, u64::MAX, 8)];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let packets: u64 = std::env::args().nth(1).map_or(Ok(4_000_000), |text| text.parse())?;
    if let Some(folder) = std::env::args().nth(2) {
        return keep(Path::new(&folder), packets);
    }
    let path = std::env::temp_dir().join(format!("farlun-packets-{}.pcap", std::process::id()));
    let mut found = Vec::new();
    for (name, keep, lost_one_in, part) in SHAPES {
        let asked = packets / part;
        write(&path, keep, lost_one_in, asked)?;
        let before = Instant::now();
        let dissection = Dissector::new().read(File::open(&path)?, &mut (), |_| {})?;
        let capture = DiagnosedCapture::new(dissection);
        let seconds = before.elapsed().as_secs_f64();
        let totals = &capture.dissection().totals;
        let iscsi = capture.connections().filter_map(|connection| connection.summary.iscsi.as_ref());
        let commands = iscsi.filter_map(|iscsi| iscsi.commands.completed.estimate());
        found.push(serde_json::json!({
            "name": name,
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
    for (name, keep, lost_one_in, part) in SHAPES {
        let path = folder.join(name).with_extension("pcap");
        let written = write(&path, keep, lost_one_in, packets / part)?;
        captures.push(serde_json::json!({"name": name, "path": path, "packets": written}));
    }
    println!("{}", serde_json::json!({"captures": captures}));
    Ok(())
}

/// Writes a capture; its packets, which are at least as many as asked for.
fn write(path: &Path, keep: usize, lost_one_in: u64, packets: u64) -> std::io::Result<u64> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    out.write_all(&FILE_HEADER)?;
    let mut connections: Vec<Reads> = (0..4).map(|port| Reads::new(40_000 + port, lost_one_in)).collect();
    let (mut written, mut t_ns) = (0, 0);
    while written < packets {
        for connection in &mut connections {
            connection.turn(|frame| {
                t_ns += 1_000;
                written += 1;
                record(&mut out, t_ns, frame, keep)
            })?;
        }
    }
    out.flush()?;
    Ok(written)
}

/// The most memory this process had, from its status; 0 where the system does not say.
fn peak_memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kib| kib * 1024)
}
