//! `farlun capture` beside tcpdump: CPU per packet at a fixed rate, packets lost at the highest rate there is, and what a
//! capture costs the traffic.
//!
//! Two network namespaces are joined by a veth pair. Datagrams of 1000 bytes go to an address behind it that does not
//! exist, so that next to nothing but sending them, and capturing them, takes time.

mod capturing;
mod rooms;
mod send;

use anyhow::{Context, Result, ensure};

use self::capturing::{Capturing, Seen, Tool};
use self::rooms::Rooms;
use super::spread::Spread;
use super::{Bound, Length, head, interleave, row};

pub(crate) use send::run as generate;

/// Of the CPU time per packet to tcpdump's.
const CPU_MAX: f64 = 0.4;
const RATE_PER_S: u64 = 150_000;
/// What should be lossless, if the generator gets there.
const LOSSLESS_PER_S: f64 = 500_000.0;
/// Of the rate of traffic that leaves room, with a capture to that without.
const TRAFFIC_MIN: f64 = 0.97;
/// What of the processors such traffic takes at most.
const TRAFFIC_BUSY_MAX: f64 = 0.5;

pub(super) fn run(length: Length) -> Result<bool> {
    let (rounds, seconds) = if length == Length::Full { (7, 5) } else { (1, 2) };
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
    let runs = interleave(rounds, || one(Tool::Farlun), || one(Tool::Tcpdump))?;
    let of = |figure: fn(&Seen) -> f64| -> Vec<[f64; 2]> {
        runs.iter().map(|pair| [figure(&pair[0]), figure(&pair[1])]).collect()
    };
    row("packets sent, thousands per second", &of(|seen| seen.sent.per_s() / 1e3), 1, Bound::None);
    good &= row("CPU in ns per packet, user and system", &of(Seen::cpu_ns), 0, Bound::AtMost(CPU_MAX));
    row("packets kept of those sent", &of(Seen::kept_share), 4, Bound::None);

    head(&format!("as fast as two threads send, {rounds} rounds of {seconds} s"), ["farlun", "tcpdump"]);
    let one = |tool: Tool| -> Result<Seen> {
        let capturing = Capturing::start(&rooms, tool)?;
        let sent = rooms.send(None, seconds)?;
        capturing.finish(sent)
    };
    let runs = interleave(rounds, || one(Tool::Farlun), || one(Tool::Tcpdump))?;
    let of = |figure: fn(&Seen) -> f64| -> Vec<[f64; 2]> {
        runs.iter().map(|pair| [figure(&pair[0]), figure(&pair[1])]).collect()
    };
    row("packets sent, thousands per second", &of(|seen| seen.sent.per_s() / 1e3), 1, Bound::None);
    row("CPU in ns per packet, user and system", &of(Seen::cpu_ns), 0, Bound::None);
    row("packets kept of those sent", &of(Seen::kept_share), 4, Bound::None);
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
    let runs = interleave(rounds, || traffic(true), || traffic(false))?;
    let of = |index: usize| runs.iter().map(|pair| [pair[0][index], pair[1][index]]).collect::<Vec<_>>();
    let busy = Spread::of(runs.iter().map(|[_, alone]| alone[1])).median;
    let leaves_room = busy <= TRAFFIC_BUSY_MAX;
    good &= leaves_room;
    // Traffic that leaves no room says nothing about captures.
    let bound = if leaves_room { Bound::AtLeast(TRAFFIC_MIN) } else { Bound::None };
    good &= row("Mb/s", &of(0), 1, bound);
    row("busy share of all processors", &of(1), 2, Bound::None);
    if !leaves_room {
        println!(
            "\nnothing is said of that: without a capture {busy:.2} of the processors were busy, at most 0.5 may be"
        );
    }
    Ok(good)
}

/// The number that the line with `label` begins with, such as `123 packets dropped by kernel`.
fn number_before(text: &str, label: &str) -> Result<u64> {
    let line = text.lines().find(|line| line.contains(label));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.with_context(|| format!("no '{label}' in {text}"))
}

/// CPU time of the threads that a process has, to the nanosecond (`/proc/PID/task/*/schedstat`).
fn cpu_ns(pid: u32) -> Result<u64> {
    let mut sum = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).context("the process is gone")? {
        let text = match std::fs::read_to_string(task?.path().join("schedstat")) {
            // The thread ended meanwhile.
            Err(error) if matches!(error.raw_os_error(), Some(2 | 3)) => continue,
            text => text?,
        };
        let first = text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
        sum += first.with_context(|| format!("schedstat says '{text}'"))?;
    }
    ensure!(sum > 0, "this kernel does not count what threads run (CONFIG_SCHED_INFO)");
    Ok(sum)
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

    #[test]
    fn this_process_uses_cpu_time() {
        assert!(cpu_ns(std::process::id()).is_ok_and(|ns| ns > 0));
    }
}
