//! The emulated path does what its model says, seen by programs that know nothing of it: ping and iperf3.

use std::time::Duration;

use e2e::path::{self, FAR};
use e2e::{decide, farlun, farlun_path, need, run, skip};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(180);

/// Runs `near` over a path with these flags; the document, and what was printed.
#[track_caller]
fn over(flags: &str, far: Option<&str>, near: &[&str]) -> (Value, String) {
    let mut command = farlun(["wan", "--json", "--validity", "off"]);
    command.args(flags.split_whitespace());
    if let Some(far) = far {
        command.args(["--far", far]);
    }
    let finished = run(command.arg("--").args(near), LIMIT);
    assert_eq!(finished.code, 0, "{flags}\n{finished:#?}");
    (finished.json(), finished.stderr)
}

/// The numbers of the echoes that came back, in order.
fn echoes(printed: &str) -> Vec<u32> {
    let numbers =
        printed.lines().filter_map(|line| line.split("icmp_seq=").nth(1)?.split(' ').next()?.parse().ok());
    numbers.collect()
}

#[test]
fn packets_of_a_list_are_lost_and_no_others() {
    need!(path::available(), skip::program("ping"));
    // All are sent before the first comes back: from then on ping waits for no more than two round trips.
    let ping = ["ping", "-c", "9", "-i", "0.01", "-W", "3", FAR];
    // The answer to the fourth request is the second that far sends: requests 2 and 3 never came.
    let (document, printed) = over("--delay 500ms --loss near:packets:2-3,far:packets:2", None, &ping);
    assert_eq!(echoes(&printed), [1, 5, 6, 7, 8, 9], "{printed}");
    assert_eq!(document["validity"]["dropped_lost"], 3, "{document}");
    let six = ["sh", "-c", "exec ping -c 4 -i 0.01 -W 3 $FARLUN_FAR"];
    let (_, printed) = over("--delay 500ms --loss near:packets:1 --ipv6", None, &six);
    assert_eq!(echoes(&printed), [2, 3, 4], "{printed}");
}

#[test]
fn a_policer_lets_a_burst_pass_and_drops_the_rest() {
    need!(path::available(), skip::program("ping"));
    // 1 458 bytes of payload are 1 524 on the wire: six of them in a burst of 10 kB. The next one has tokens after 5 s.
    let ping = ["ping", "-c", "9", "-i", "0.01", "-W", "1", "-s", "1458", FAR];
    let (document, printed) = over("--delay 1ms --police near:1kbit/10KB", None, &ping);
    assert_eq!(echoes(&printed), [1, 2, 3, 4, 5, 6], "{printed}");
    let validity = &document["validity"];
    assert_eq!((&validity["dropped_policed"], &validity["dropped_queue_full"]), (&3.into(), &0.into()));
    assert_eq!(document["path"]["near"]["police"], "1kbit/10000B", "{document}");
}

#[test]
fn the_congestion_control_of_the_path_is_that_of_sockets_that_choose_none() {
    need!(path::available(), skip::program("ss"));
    let program = farlun_path().display();
    for (family, flag, expected) in [("", "", "reno"), ("--ipv6", "", "reno"), ("", "--cc cubic", "cubic")] {
        let far = format!("exec {program} stream serve --listen [$FARLUN_FAR]:5201");
        let far = if family.is_empty() { far.replace(['[', ']'], "") } else { far };
        let to = if family.is_empty() { "$FARLUN_FAR" } else { "[$FARLUN_FAR]" };
        // It sends until it is asked to end, so that the look at its socket is in time.
        let near = format!(
            "{program} stream {to}:5201 --time 60s {flag} >/dev/null 2>&1 & sender=$!
             until ss -tinH state established dport = :5201 | grep -q bytes_acked; do sleep 0.02; done
             ss -tinH state established dport = :5201 >&2; kill $sender; wait $sender; true"
        );
        let flags = format!("--delay 1ms --rate 10mbit --congestion reno {family}");
        let (document, printed) = over(&flags, Some(&far), &["sh", "-c", &near]);
        let words: Vec<&str> = printed.split_whitespace().collect();
        assert!(words.contains(&expected), "{family} {flag}\n{printed}");
        assert_eq!(document["path"]["congestion"], "reno", "{document}");
    }
}

#[test]
fn a_route_that_locks_its_congestion_control_is_named() {
    need!(path::available(), skip::program("ip"));
    let near = format!(
        "ip route change 198.18.0.0/24 dev wan0 proto kernel scope link src 198.18.0.1 congctl lock reno || exit 1
         {} stream {FAR}:5201 --time 1s --cc cubic; test $? = 1",
        farlun_path().display()
    );
    let (_, printed) = over("--delay 1ms", None, &["sh", "-c", &near]);
    let said = format!("the route to {FAR} locks another congestion control than 'cubic'");
    assert!(printed.contains(&said), "{printed}");
}

#[test]
fn what_a_host_says_on_its_own_link_is_no_packet_of_the_path() {
    need!(path::available(), skip::program("ping"));
    // The groups of all hosts of a link, and the one of routers, which the kernel itself asks now and then.
    let near = "ping -c 3 -i 0.05 -W 1 ff02::1%wan0; ping -c 2 -i 0.05 -W 1 ff02::2%wan0; \
                ping -b -c 2 -i 0.05 -W 1 255.255.255.255; true";
    let (document, printed) = over("--delay 2ms", None, &["sh", "-c", near]);
    assert!(printed.contains("3 packets transmitted"), "{printed}");
    assert_eq!(document["validity"]["packets"], 0, "{document}");
}

#[test]
fn one_seed_one_history() {
    need!(path::available(), skip::program("ping"));
    let ping = ["ping", "-c", "60", "-i", "0.01", "-W", "5", FAR];
    let lost = |seed| echoes(&over(&format!("--delay 1s --loss burst:15%/2 --seed {seed}"), None, &ping).1);
    let first = lost(3);
    assert!((20..60).contains(&first.len()), "a quarter of them is lost on one of the ways: {first:?}");
    assert_eq!(first, lost(3));
    assert_ne!(first, lost(4));
}

#[test]
fn delays_rates_and_outages_are_those_of_each_direction() {
    need!(path::available(), skip::program("ping"));
    let flags = "--delay near:20ms,far:400ms --rate near:100kbit,far:100mbit";
    // 1 000 bytes of payload are 1 066 on the wire: 85 ms at 100 kb/s, 0.1 ms at 100 Mb/s.
    let (document, printed) = over(flags, None, &["ping", "-c", "5", "-i", "0.2", "-s", "1000", FAR]);
    let times: Vec<f64> = printed
        .lines()
        .filter_map(|line| line.split("time=").nth(1)?.split(' ').next()?.parse().ok())
        .collect();
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    assert_eq!(times.len(), 5, "{printed}");
    // A busy machine only adds; five times in a row by more than 80 ms it does not. Either figure of the other direction
    // would be more than that.
    assert!((505.0..585.0).contains(&least), "{times:?}");
    assert_eq!(document["path"]["far"]["delay_ns"], 400_000_000, "{document}");
    let ping = ["ping", "-c", "60", "-i", "0.1", FAR];
    let (document, printed) = over("--delay 500ms --down near:1s+2s", None, &ping);
    let there = echoes(&printed);
    let missing = 60 - there.len();
    // The line is up again long before the last one; when the first ones are sent is not known.
    assert!(missing > 0 && there.last() == Some(&60), "{printed}");
    let gaps = there.windows(2).filter(|pair| pair[1] != pair[0] + 1).count() + usize::from(there[0] != 1);
    assert_eq!(gaps, 1, "what is missing was sent meanwhile, one after the other\n{printed}");
    assert_eq!(document["validity"]["dropped_line_down"], missing, "{document}");
}

#[test]
fn every_fault_at_once_and_tcp_still_gets_everything_across() {
    need!(path::available(), skip::program("iperf3"));
    let flags = "--delay 5ms --rate 200mbit --mtu 1400 --loss 0.1% --jitter 200us --reorder 0.5% --duplicate 1% \
                 --merge-acks 125us --queue 400 --seed 5";
    let near = ["iperf3", "-c", FAR, "-n", "8M", "-C", "cubic", "-J"];
    let (document, _) = over(flags, Some("iperf3 -s -1"), &near);
    let validity = &document["validity"];
    for fault in ["dropped_lost", "duplicated"] {
        assert!(validity[fault].as_u64() > Some(0), "{fault}: {validity}");
    }
    decide!(validity["dropped_unasked"] == 0, path::kept_up(&document), "{validity}");
    // 8 MiB are at least 6 228 packets of 1 348 bytes of payload: they were cut.
    assert!(validity["segments"].as_u64() > Some(6_228), "{validity}");
    assert_eq!(validity["packets"], validity["segments"], "{validity}");
    assert_eq!(document["path"]["segment"], true);
}

/// TCP leaves its checksums to the devices, so that nobody else would notice a byte out of place.
#[test]
fn what_gets_through_with_much_lost_is_what_was_sent() {
    need!(path::available());
    let scratch = tempfile::Builder::new().prefix("farlun-lossy-").tempdir().expect("a temporary folder");
    let (sent, got) = (scratch.path().join("sent"), scratch.path().join("got"));
    let bytes: Vec<u8> = (0..8u32 << 18).flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()).collect();
    std::fs::write(&sent, &bytes).expect("a file to send");
    let (farlun, iqn) = (farlun_path().display(), "iqn.2026-11.io.farlun:lossy");
    let far = format!("exec {farlun} target --insecure --iqn {iqn} --lun memory:8MiB --listen {FAR}:3260");
    let near = format!(
        "set -e; url=iscsi://{FAR}/{iqn}/0; {farlun} write $url -i {}; {farlun} read $url -o {}",
        sent.display(),
        got.display()
    );
    let flags =
        "--delay 1ms --rate 200mbit --queue 40 --loss 5% --duplicate 2% --jitter 500us --jitter-overtakes";
    let (document, _) = over(flags, Some(&far), &["sh", "-c", &near]);
    assert!(document["validity"]["dropped_lost"].as_u64() > Some(100), "{document}");
    assert!(std::fs::read(&got).expect("what was read") == bytes);
}

#[test]
fn a_path_whose_device_is_gone_ends_the_run() {
    need!(path::available(), skip::program("ip"));
    let near = ["sh", "-c", "ip link delete wan0; exec sleep 600"];
    let finished = run(farlun(["wan", "--delay", "2ms", "--"]).args(near), LIMIT);
    assert_eq!(finished.code, 1, "{finished:#?}");
    assert!(finished.stderr.contains("the path is gone"), "{finished:#?}");
}

/// The emulator stands still while a packet is on the path: the run is never valid, however quiet the machine is.
#[test]
fn the_exit_code_is_that_of_command_unless_a_class_is_named() {
    need!(path::available(), skip::program("bash"));
    for (flags, code, ok, said) in [
        (&[][..], 3, false, Some("farlun: warning: the run is not valid: packets were late by")),
        (&["--validity", "throughput"], 4, false, Some("farlun: the run is not valid: packets were late by")),
        (&["--validity", "latency"], 4, false, Some("farlun: the run is not valid: packets were late by")),
        (&["--validity", "off"], 3, true, None),
    ] {
        let stoppable = path::Stoppable::new();
        let [stop, go_on] = ["STOP", "CONT"].map(|signal| stoppable.send(signal));
        let near =
            format!("{stop}; echo >/dev/udp/{FAR}/9; sleep 0.05; {go_on}; : >/dev/tcp/{FAR}/9; exit 3");
        let mut command = farlun(["wan", "--json", "--delay", "2ms"]);
        command.args(flags).args(["--", "bash", "-c", &near]);
        let finished = run(&mut stoppable.runner(&command), LIMIT);
        assert_eq!(finished.code, code, "{flags:?}: {finished:#?}");
        let document = finished.json();
        assert_eq!(document["validity"]["ok"], ok, "{flags:?}: {document:#}");
        assert_eq!(document["near"]["exit_code"], 3, "{flags:?}: {document:#}");
        assert_eq!(document["validity"]["throughput"]["ok"], false, "{flags:?}: {document:#}");
        let warning = finished.stderr.lines().find(|line| line.contains("not valid"));
        assert!(
            warning.map_or(said.is_none(), |line| said.is_some_and(|said| line.starts_with(said))),
            "{finished:#?}"
        );
    }
}

#[test]
fn users_who_are_not_root_have_a_path_too() {
    need!(path::available(), skip::program("ping"), path::available_to_nobody());
    let path = farlun_path().to_str().expect("a path of plain characters");
    let near = format!("ping -c 2 -i 0.2 {FAR} && {path} wan enter far -- ip -brief address >&2");
    let mut command = path::as_nobody(path);
    command.args(["wan", "--json", "--validity", "off", "--delay", "2ms", "--", "sh", "-c", &near]);
    let finished = run(&mut command, LIMIT);
    assert_eq!(finished.code, 0, "{finished:#?}");
    assert_eq!(finished.json()["emulator"]["realtime"], false, "{finished:#?}");
    assert!(finished.stderr.contains("198.18.0.2/24"), "entered far: {finished:#?}");
}

#[test]
fn what_cannot_be_meant_is_bad_usage() {
    for (flags, said) in [
        ("--delay 500ms --rate 10gbit", "need up to 2.15GiB of memory"),
        ("--queue 100B", "give at least 1538 bytes"),
        ("--loss 1", "is not a loss such as 0.01%"),
        ("--ring 8", "80"),
        ("--congestion swift", "congestion control 'swift' is not available: this kernel has"),
    ] {
        let mut command = farlun(["wan"]);
        let finished = run(command.args(flags.split_whitespace()).args(["--", "true"]), LIMIT);
        assert_eq!(finished.code, 2, "{flags}: {finished:#?}");
        assert!(finished.stderr.contains(said), "{flags}: {finished:#?}");
    }
}
