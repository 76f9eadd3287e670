//! The command line of a cell: one `farlun wan` that a user can copy and run alone.
//!
//! Composes and quotes; runs nothing. Values are written so that nothing of them is lost.

use std::path::Path;
use std::time::Duration;

use event::{BitRate, Bytes, Direction};

use crate::plan::{Bench, Cell, Load, LoadKind, Lun, Queue};

/// The program's name in a command line that is shown; the path it really has, in one that is run.
const SHOWN_PROGRAM: &str = "farlun";
/// The far host's address inside every emulated path.
const FAR_ADDRESS: &str = "198.18.0.2";
const ISCSI_PORT: u16 = 3260;
const STREAM_PORT: u16 = 5201;
const IQN: &str = "iqn.2026-11.io.farlun:lab";

/// The words of a cell's command line, run by `program` at both ends.
pub(super) fn words(program: &str, cell: &Cell, luns: &[Lun], trace_dir: &Path) -> Vec<String> {
    let trace = trace_dir.display().to_string();
    let path = &cell.path;
    let mut words = Words::new(program);
    words.push(["wan", "--json", "--trace", &trace, "--delay", &exact_time(path.delay)]);
    // A bare number means packets.
    let queue = match path.queue {
        Queue::Packets(packets) => packets.to_string(),
        _ => format!("{}B", path.queue_bytes()),
    };
    words.push(["--rate", &exact_rate(path.rate), "--queue", &queue]);
    words.push(["--mtu", &path.mtu_bytes.to_string(), "--validity", cell.load.validity.name()]);
    for (flag, value) in &path.faults {
        words.push([&format!("--{flag}"), value]);
    }
    words.push(["--far", &quoted(&far(program, &cell.load, luns, &trace)), "--"]);
    words.0.extend(near(program, cell, &trace));
    words.0
}

/// The command line as it is shown, quoted so that a shell takes it.
pub(super) fn shown(cell: &Cell, luns: &[Lun], trace_dir: &Path) -> String {
    quoted(&words(SHOWN_PROGRAM, cell, luns, trace_dir))
}

fn far(program: &str, load: &Load, luns: &[Lun], trace: &str) -> Vec<String> {
    let mut words = Words::new(program);
    match load.kind {
        LoadKind::Stream { .. } => {
            words.push(["stream", "serve", "--json", "--listen", &format!("{FAR_ADDRESS}:{STREAM_PORT}")]);
        }
        LoadKind::Bench(_) => {
            words.push(["target", "--json"]);
            for lun in luns {
                words.push(["--lun", &lun.argument()]);
            }
            let listen = format!("{FAR_ADDRESS}:{ISCSI_PORT}");
            words.push(["--listen", &listen, "--insecure", "--iqn", IQN]);
        }
    }
    words.push(["--cc", &load.congestion, "--trace", trace]);
    words.0
}

fn near(program: &str, cell: &Cell, trace: &str) -> Vec<String> {
    let (load, rtt) = (&cell.load, cell.path.rtt());
    let time = exact_time(load.time_on(&cell.path));
    let mut words = Words::new(program);
    match &load.kind {
        LoadKind::Stream { direction } => {
            words.push(["stream", &format!("{FAR_ADDRESS}:{STREAM_PORT}"), "--json", "--time", &time]);
            if *direction == Direction::FarToNear {
                words.push(["--reverse"]);
            }
        }
        LoadKind::Bench(bench) => {
            words.push([
                "bench",
                &format!("iscsi://{FAR_ADDRESS}:{ISCSI_PORT}/{IQN}/{}", bench.lun),
                "--json",
            ]);
            bench_words(&mut words, bench);
            let warmup = bench.warmup.unwrap_or(load.start).on(rtt);
            words.push(["--time", &time, "--warmup", &exact_time(warmup)]);
            if let Some(bulk) = bench.warm_bulk {
                words.push(["--warm-bulk", &exact_time(bulk.on(rtt))]);
            }
        }
    }
    words.push(["--cc", &load.congestion, "--trace", trace]);
    words.0
}

fn bench_words(words: &mut Words, bench: &Bench) {
    words.push(["--op", bench.op.name(), "--block", &exact_bytes(bench.block_bytes)]);
    if let Some(depth) = bench.depth {
        words.push(["--depth", &depth.to_string()]);
    }
    if bench.random {
        words.push(["--random"]);
    }
}

struct Words(Vec<String>);

impl Words {
    fn new(program: &str) -> Words {
        Words(vec![program.to_owned()])
    }

    fn push<const N: usize>(&mut self, words: [&str; N]) {
        self.0.extend(words.map(str::to_owned));
    }
}

/// Words as a POSIX shell takes them.
pub fn quoted(words: &[String]) -> String {
    words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

fn exact_bytes(bytes: u64) -> String {
    match Bytes(bytes).to_string() {
        short if Bytes::parse(&short) == Ok(bytes) => short,
        _ => bytes.to_string(),
    }
}

fn exact_rate(rate: BitRate) -> String {
    match rate.to_string() {
        short if short.parse() == Ok(rate) => short,
        _ => format!("{}bit", rate.0),
    }
}

fn exact_time(time: Duration) -> String {
    match event::format_delay(time) {
        short if event::parse_delay(&short) == Ok(time) => short,
        _ => format!("{}ns", time.as_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Plan, Source, Variant};

    fn command_of(plan: &Plan, slug: &str) -> String {
        let cell = plan.cells().into_iter().find(|cell| cell.slug() == slug).unwrap();
        shown(&cell, &plan.luns, Path::new("out/r1"))
    }

    #[test]
    fn the_commands_of_the_tour() {
        let plan = Source::find("tour").unwrap().plan(Variant::Quick).unwrap();
        for (slug, command) in [
            (
                "stream-delay-0",
                "farlun wan --json --trace out/r1 --delay 0 --rate 1gbit --queue 1000000B --mtu 1500 \
                 --validity throughput --far 'farlun stream serve --json --listen 198.18.0.2:5201 --cc cubic --trace out/r1' -- farlun stream \
                 198.18.0.2:5201 --json --time 2s --reverse --cc cubic --trace out/r1",
            ),
            (
                "read-delay-8ms",
                "farlun wan --json --trace out/r1 --delay 8ms --rate 1gbit --queue 2000000B --mtu 1500 \
                 --validity throughput --far 'farlun target --json --lun memory:1GiB --listen 198.18.0.2:3260 --insecure --iqn \
                 iqn.2026-11.io.farlun:lab --cc cubic --trace out/r1' -- farlun bench \
                 iscsi://198.18.0.2:3260/iqn.2026-11.io.farlun:lab/0 --json --op read --block 1MiB --time 2.32s \
                 --warmup 820ms --cc cubic --trace out/r1",
            ),
            (
                "write1m-delay-50ms",
                "farlun wan --json --trace out/r1 --delay 50ms --rate 1gbit --queue 12500000B --mtu 1500 \
                 --validity latency --far 'farlun target --json --lun memory:1GiB --listen 198.18.0.2:3260 --insecure --iqn \
                 iqn.2026-11.io.farlun:lab --cc cubic --trace out/r1' -- farlun bench \
                 iscsi://198.18.0.2:3260/iqn.2026-11.io.farlun:lab/0 --json --op write --block 1MiB --depth 1 \
                 --time 1.4s --warmup 200ms --warm-bulk 2.5s --cc cubic --trace out/r1",
            ),
        ] {
            assert_eq!(command_of(&plan, slug), command);
        }
    }

    #[test]
    fn faults_of_the_path_are_flags() {
        let mut plan = Source::find("tour").unwrap().plan(Variant::Quick).unwrap();
        plan.path.queue = Queue::Packets(256);
        plan.path.faults = [("loss", "0.01%".to_owned()), ("ring", "80".to_owned())].into();
        let command = command_of(&plan, "stream-delay-0");
        assert!(command.contains(" --queue 256 --mtu 1500 "), "{command}");
        assert!(command.contains(" --loss 0.01% --ring 80 --far "), "{command}");
    }

    #[test]
    fn words_survive_a_shell() {
        for (word, shell) in
            [("a-b", "a-b"), ("", "''"), ("two words", "'two words'"), ("it's", r"'it'\''s'"), ("$x", "'$x'")]
        {
            assert_eq!(quote(word), shell);
        }
    }

    #[test]
    fn values_lose_nothing() {
        assert_eq!(exact_time(Duration::from_micros(8_125)), "8125000ns");
        assert_eq!(exact_time(Duration::from_millis(1_500)), "1.5s");
        assert_eq!(exact_bytes(12_345_678), "12345678");
        assert_eq!(exact_bytes(4096), "4KiB");
        assert_eq!(exact_rate(BitRate(123_456_789)), "123456789bit");
    }
}
