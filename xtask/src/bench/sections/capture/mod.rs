//! `farlun capture` beside tcpdump: CPU per packet at a fixed rate, packets lost at the highest rate there is, and the
//! cost of a capture for the traffic.
//!
//! Two network namespaces are joined by a veth pair. Datagrams of 1000 bytes go to an address behind it that does not
//! exist, so that next to nothing but sending them, and capturing them, takes time.

mod capturing;
mod rooms;
mod send;

use anyhow::{Context, Result};

use self::capturing::{Capturing, Seen, Tool};
use self::rooms::Rooms;
use crate::bench::length::Length;
use crate::bench::rounds::{Figure, Plan, Series, head, interleave, row};

pub(crate) use send::run as generate;

/// Tools in the order of the columns.
const TOOLS: [Tool; 2] = [Tool::Farlun, Tool::Tcpdump];
/// Most of tcpdump's CPU time per packet.
const CPU_MAX: f64 = 0.4;
const RATE_PER_S: u64 = 150_000;
/// Rate that should be lossless, if the generator gets there.
const LOSSLESS_PER_S: f64 = 500_000.0;
/// Least ratio of the rate of traffic that leaves room, with a capture, to that without.
const TRAFFIC_MIN: f64 = 0.97;
/// Most of the processors that such traffic may take.
const TRAFFIC_BUSY_MAX: f64 = 0.5;

pub(super) fn run(length: Length) -> Result<bool> {
    let Plan { rounds, seconds } = length.plan(7, 5);
    let rooms = Rooms::new()?;
    let mut good = true;

    head(
        &format!(
            "farlun capture --snap 96 beside tcpdump -s 96 -B 65536, {RATE_PER_S} datagrams per second, {rounds} rounds \
             of {seconds} s"
        ),
        ["farlun", "tcpdump"],
    );
    let one = |tool: Tool| -> Result<Seen> {
        let capturing = Capturing::start(&rooms, tool)?;
        let sent = rooms.send(Some(RATE_PER_S), seconds)?;
        capturing.finish(sent)
    };
    let runs = interleave(rounds, |tool| one(TOOLS[tool]))?;
    good &= rows(&runs, Some(CPU_MAX));

    head(&format!("as fast as two threads send, {rounds} rounds of {seconds} s"), ["farlun", "tcpdump"]);
    let one = |tool: Tool| -> Result<Seen> {
        let capturing = Capturing::start(&rooms, tool)?;
        let sent = rooms.send(None, seconds)?;
        capturing.finish(sent)
    };
    let runs = interleave(rounds, |tool| one(TOOLS[tool]))?;
    rows(&runs, None);
    let lost: u64 = runs.iter().map(|[ours, _]| ours.sent.packets.saturating_sub(ours.kept)).sum();
    let unreported: u64 = runs.iter().map(|[ours, _]| ours.unreported()).sum();
    let rate = runs.iter().map(|[ours, _]| ours.sent.per_s()).fold(f64::INFINITY, f64::min);
    let limit = if rate < LOSSLESS_PER_S { " (the generator's limit)" } else { "" };
    println!(
        "\nfarlun lost {lost} packets, {unreported} of them unreported, at {:.0} thousand per second{limit}",
        rate / 1e3
    );
    good &= lost == 0;

    head(
        &format!("iperf3 -b 2G over the same devices, {rounds} rounds of {seconds} s"),
        ["captured", "not captured"],
    );
    let traffic = |is_captured: bool| -> Result<[f64; 2]> {
        let capturing = is_captured.then(|| Capturing::start(&rooms, Tool::Farlun)).transpose()?;
        let measured = rooms.iperf3(seconds)?;
        drop(capturing);
        Ok(measured)
    };
    let runs: Vec<[[f64; 2]; 2]> = interleave(rounds, |side| traffic(side == 0))?;
    let of = |index: usize| runs.iter().map(|pair| [pair[0][index], pair[1][index]]).collect::<Vec<_>>();
    let share = Series { figure: Figure::neutral("busy share of all processors", 2), rounds: of(1) };
    let busy = share.side(1).median;
    let leaves_room = busy <= TRAFFIC_BUSY_MAX;
    good &= leaves_room;
    // Traffic that leaves no room says nothing about captures.
    let rate = Figure::rate("Mb/s", 1).bound(leaves_room.then_some(TRAFFIC_MIN));
    good &= row(&Series { figure: rate, rounds: of(0) });
    row(&share);
    if !leaves_room {
        println!(
            "\nnothing is said of that: without a capture {busy:.2} of the processors were busy, at most 0.5 may be"
        );
    }
    Ok(good)
}

/// Prints the figures of captures; whether the CPU time keeps its bound, if it has one.
fn rows(runs: &[[Seen; 2]], cpu_max: Option<f64>) -> bool {
    let print = |figure: Figure, of: fn(&Seen) -> f64| {
        let rounds = runs.iter().map(|pair| pair.each_ref().map(of)).collect();
        row(&Series { figure, rounds })
    };
    print(Figure::neutral("packets sent, thousands per second", 1), |seen| seen.sent.per_s() / 1e3);
    let good = print(Figure::cost("CPU in ns per packet, user and system", 0).bound(cpu_max), Seen::cpu_ns);
    print(Figure::neutral("packets kept of those sent", 4), Seen::kept_share);
    good
}

/// The number that the line with `label` begins with, such as `123 packets dropped by kernel`.
fn number_before(text: &str, label: &str) -> Result<u64> {
    let line = text.lines().find(|line| line.contains(label));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.with_context(|| format!("no '{label}' in {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_tcpdump() {
        let said = "7 packets captured\n9 packets received by filter\n2 packets dropped by kernel\n";
        assert_eq!(number_before(said, "dropped by kernel").ok(), Some(2));
        assert!(number_before(said, "by interface").is_err());
    }
}
