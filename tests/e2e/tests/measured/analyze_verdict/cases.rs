//! The cases: a limiter by construction, a load and a tap.

use e2e::tap::{At, Served, Tap};

/// A capture, and the limiters of which one is right.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) right: &'static [&'static str],
    pub(super) tap: Tap<'static>,
}

/// CUBIC on every route of a host: the congestion control that losses hold back.
const CUBIC: &str = "ip -o route show | while read -r route; do ip route change $route congctl cubic; done";
const MS8: &str = "--delay 4ms --rate 1gbit --queue 2MB";

/// A load of our own on a path of 8 ms and 1 Gb/s.
fn case(name: &'static str, right: &'static [&'static str], load: &'static str) -> Case {
    Case { name, right, tap: Tap { path: MS8, complete: false, load, ..Tap::default() } }
}

fn served(mut case: Case, flags: &'static str) -> Case {
    case.tap.target = Served::Farlun(flags);
    case
}

fn on_path(mut case: Case, path: &'static str) -> Case {
    case.tap.path = path;
    case
}

/// One of each end, of TCP and of iSCSI.
pub(super) fn short() -> Vec<Case> {
    let one = "FARLUN bench URL --json --op read --block 4KiB --depth 1 --time 1s";
    let four = "FARLUN bench URL --json --op read --block 4KiB --depth 4 --time 1s";
    let many = "FARLUN bench URL --json --op read --block 4KiB --depth 32 --random --time 1s";
    let bulk = "FARLUN bench URL --json --op read --block 1MiB --depth 8 --time 2s";
    vec![
        case("one read at a time", &["round-trip"], one),
        case("four reads at a time", &["queue-depth"], four),
        served(case("a window of four", &["command-window"], many), "--lun memory:64MiB --window 4"),
        served(case("a slow store", &["store-latency"], one), "--lun memory:64MiB,delay=read:20ms"),
        on_path(case("a full line", &["link-rate"], bulk), "--delay 4ms --rate 100mbit"),
        on_path(case("losses", &["loss"], bulk), "--delay 4ms --rate 1gbit --queue 2MB --loss 1%"),
    ]
}

/// The rest of the matrix.
pub(super) fn long() -> Vec<Case> {
    let one_write = "FARLUN bench URL --json --op write --overwrite --block 4KiB --depth 1 --time 1s";
    let four_writes = "FARLUN bench URL --json --op write --overwrite --block 4KiB --depth 4 --time 1s";
    let many_writes =
        "FARLUN bench URL --json --op write --overwrite --block 4KiB --depth 32 --random --time 1s";
    let bulk = "FARLUN bench URL --json --op read --block 1MiB --depth 8 --time 2s";
    let bulk_writes = "FARLUN bench URL --json --op write --overwrite --block 1MiB --depth 8 --time 2s";
    let nagle = "--lun memory:64MiB --compat nagle,separate-status";
    let small = "FARLUN bench URL --json --op read --block 1KiB --depth 1 --time 1s";
    let slower = "FARLUN bench URL --json --op read --block 1MiB --depth 8 --time 4s";
    let held = "FARLUN bench URL --json --op read --block 2KiB --depth 1 --time 1s";
    let lossy = "--delay 4ms --rate 1gbit --queue 2MB --loss 1%";
    let narrow = "sysctl -qw net.ipv4.tcp_rmem='4096 32768 32768'";
    let mut cases = vec![
        case("one write at a time", &["round-trip"], one_write),
        case("four writes at a time", &["queue-depth"], four_writes),
        served(
            case("a window of eight, writes", &["command-window"], many_writes),
            "--lun memory:64MiB --window 8",
        ),
        served(
            case("a slow store, writes", &["store-latency"], four_writes),
            "--lun memory:64MiB,delay=write:20ms",
        ),
        on_path(case("a full line, writes", &["link-rate"], bulk_writes), "--delay 4ms --rate 100mbit"),
        on_path(case("losses, writes", &["loss"], bulk_writes), lossy),
        served(case("delayed acknowledgements", &["nagle"], small), nagle),
        served(
            case("status on its own", &["separate-status"], held),
            "--lun memory:64MiB --compat nagle,separate-status",
        ),
        on_path(
            case(
                "four reads over a longer way",
                &["queue-depth"],
                "FARLUN bench URL --json --op read --block 64KiB --depth 4 --time 2s",
            ),
            "--delay 20ms --rate 1gbit --queue 4MB",
        ),
    ];
    let r2t = |name, load| Case {
        name,
        right: &["r2t"],
        tap: Tap { path: MS8, target: Served::Tgt, complete: false, load, ..Tap::default() },
    };
    cases.push(r2t(
        "R2Ts of tgt",
        "FARLUN bench URL --json --op write --overwrite --block 1MiB --depth 1 --time 1s",
    ));
    cases.push(r2t(
        "R2Ts of tgt with libiscsi",
        "for n in 1 2 3 4 5 6 7 8; do qemu-io -f raw -c 'write -P 7 0 4M' URL; done",
    ));
    let ring = on_path(
        served(case("a small ring", &["device-queue"], slower), "--lun memory:64MiB --no-pacing"),
        "--delay 50ms --rate 100mbit --queue 2MB --ring 80",
    );
    cases.push(Case { tap: Tap { at: At::Far, ..ring.tap }, ..ring });
    let window = case("a small window of the reader", &["receive-window"], bulk);
    cases.push(Case { tap: Tap { settings: [narrow, ""], ..window.tap }, ..window });
    let window = case("a small window of the target", &["receive-window"], bulk_writes);
    cases.push(Case { tap: Tap { settings: ["", narrow], ..window.tap }, ..window });
    cases
}

/// Stacks that are not ours: QEMU with libiscsi, and tgt.
pub(super) fn foreign() -> Vec<Case> {
    let qemu = |name, right, path, settings, load| Case {
        name,
        right,
        tap: Tap { path, settings, target: Served::Tgt, complete: false, load, ..Tap::default() },
    };
    let bulk = "qemu-img bench -f raw -t none -c 400 -d 32 -s 65536 URL";
    let long = "qemu-img bench -f raw -t none -c 1000 -d 32 -s 65536 URL";
    // PDUs larger than the buffer: else each stop is at the end of one, and looks like the target's time.
    let large = "qemu-img bench -f raw -t none -c 100 -d 8 -s 1048576 URL";
    let narrow = "sysctl -qw net.ipv4.tcp_rmem='4096 32768 32768'";
    let short = "sysctl -qw net.ipv4.tcp_wmem='4096 32768 32768'";
    let none = ["", ""];
    vec![
        qemu(
            "QEMU one read at a time",
            &["round-trip"],
            MS8,
            none,
            "qemu-img bench -f raw -t none -c 200 -d 1 -s 4096 URL",
        ),
        qemu(
            "QEMU four reads at a time",
            &["queue-depth"],
            "--delay 20ms --rate 1gbit --queue 4MB",
            none,
            "qemu-img bench -f raw -t none -c 200 -d 4 -s 65536 URL",
        ),
        qemu("QEMU on a full line", &["link-rate"], "--delay 4ms --rate 100mbit", none, bulk),
        qemu(
            "QEMU with losses",
            &["loss"],
            "--delay 4ms --rate 1gbit --queue 2MB --loss 1%",
            ["", CUBIC],
            long,
        ),
        qemu("QEMU with a small window", &["receive-window"], MS8, [narrow, ""], bulk),
        qemu("tgt with a small send buffer", &["send-buffer"], MS8, ["", short], large),
        qemu(
            "QEMU's writes",
            &["r2t"],
            MS8,
            none,
            "qemu-img bench -f raw -t none -w -c 40 -d 1 -s 1048576 URL",
        ),
    ]
}
