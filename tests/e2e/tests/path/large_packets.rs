//! A path that drops large packets and does not say so: both ends have an MTU of 1 500, a link between them carries 1 400,
//! and no ICMP message comes back. A bridge drops what is longer than its port takes.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use e2e::process::output;
use e2e::{Finished, Service, farlun_path, need, path, run, skip, until};

const LIMIT: Duration = Duration::from_secs(120);
const IQN: &str = "iqn.2026-11.io.farlun:large";
const FAR: &str = "10.78.0.2";
const LEN: usize = 1 << 20;

/// Namespaces of a path: near 10.78.0.1, far 10.78.0.2, and two bridges between them.
struct Hole {
    near: Service,
    far: Service,
    middle: Service,
}

fn room() -> Service {
    let mut command = Command::new("unshare");
    let mut room = Service::start(command.args(["--net", "sh", "-c", "echo ready; exec sleep 3600"]));
    room.next_line(LIMIT);
    room
}

#[track_caller]
fn within(room: &Service, script: &str) {
    let mut command = Command::new("nsenter");
    output(command.args(["--net", "--target", &room.id().to_string(), "sh", "-euc", script]));
}

/// A command that starts farlun in a room.
fn farlun(room: &Service, arguments: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["--net", "--target", &room.id().to_string()]).arg(farlun_path());
    command.args(arguments.split_whitespace());
    command
}

impl Hole {
    #[track_caller]
    fn new() -> Hole {
        let hole = Hole { near: room(), far: room(), middle: room() };
        let middle = hole.middle.id();
        for (end, number) in [(&hole.near, 1), (&hole.far, 2)] {
            // Packets one by one: a super-packet passes a port of any MTU.
            within(
                end,
                &format!(
                    "ip link add end0 type veth peer name end{number} netns {middle}\n\
                     ip address add 10.78.0.{number}/24 dev end0\n\
                     ip link set end0 gso_max_segs 1 up; ip link set lo up\n\
                     echo 1 > /proc/sys/net/ipv4/tcp_no_metrics_save"
                ),
            );
        }
        within(
            &hole.middle,
            "ip link add link1 type veth peer name link2\n\
             for n in 1 2; do\n\
             ip link add bridge$n type bridge; ip link set link$n mtu 1400\n\
             for device in end$n link$n; do ip link set $device master bridge$n up; done\n\
             ip link set bridge$n up; done",
        );
        // Links need a second until they carry packets; round trips of that second would make timeouts long.
        within(
            &hole.near,
            &format!("until ping -c 3 -i 0.2 -W 1 {FAR} | grep -q ' 0% packet loss'; do :; done"),
        );
        hole
    }

    #[track_caller]
    fn serve(&self) -> Service {
        let flags = format!("target --lun memory:1MiB --iqn {IQN} --listen {FAR}:3260 --insecure");
        let mut target = Service::start(&mut farlun(&self.far, &flags));
        target.next_line(LIMIT);
        target
    }

    /// Runs `farlun read` or `farlun write` with a file.
    fn moved(&self, command: &str, file: &Path, flags: &str) -> Finished {
        let line = format!("{command} {} --json {flags} iscsi://{FAR}/{IQN}/0", file.display());
        run(&mut farlun(&self.near, &line), LIMIT).expect_code(0)
    }
}

fn available() -> Result<(), String> {
    path::available()?;
    ["ip", "nsenter", "ping"].into_iter().try_for_each(skip::program)
}

#[test]
fn they_are_named_and_smaller_ones_carry_the_data() {
    need!(available());
    let hole = Hole::new();
    let _target = hole.serve();
    let folder = tempfile::tempdir().expect("a folder");
    let (image, copy) = (folder.path().join("image"), folder.path().join("copy"));
    let bytes: Vec<u8> = (0..LEN).map(|n| (n >> 9) as u8 ^ n as u8).collect();
    fs::write(&image, &bytes).expect("an image");

    let written = hole.moved("write -i", &image, "");
    for words in ["large packets do not get through", "net.ipv4.tcp_mtu_probing=1", "--mss 1220"] {
        assert!(written.stderr.contains(words), "{words}: {written:#?}");
    }
    assert_eq!(written.json()["reconnects"], 1, "{written:#?}");

    let read = hole.moved("read -o", &copy, "");
    for words in
        ["if large packets do not get through", "net.ipv4.tcp_mtu_probing=1 on its host", "--mss 1220"]
    {
        assert!(read.stderr.contains(words), "{words}: {read:#?}");
    }
    assert!(fs::read(&copy).expect("a copy") == bytes, "the copy differs");
}

/// An initiator that waits for ever (`--timeout`): the target says what is wrong, and `top` beside it.
#[test]
fn the_target_and_top_name_them_as_well() {
    need!(available());
    let hole = Hole::new();
    let target = hole.serve();
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("copy");
    let line = format!("read -o {} --timeout 600s iscsi://{FAR}/{IQN}/0", copy.display());
    let mut initiator = Service::start(&mut farlun(&hole.near, &line));
    until("the target names them", LIMIT, || {
        let said = target.stderr();
        said.contains("iqn.")
            && said.contains("large packets do not get through")
            && said.contains("tcp_mtu_probing=1")
    });
    assert!(initiator.alive(), "the initiator still waits: {}", initiator.stderr());
    // Root sees every namespace otherwise, and other tests have the same addresses.
    let line = format!("top --once --json --interval 200ms --netns {}", hole.far.id());
    let top = run(&mut farlun(&hole.far, &line), LIMIT).expect_code(0).json();
    let rows = top["connections"].as_array().expect("connections");
    let limiters: Vec<_> = rows.iter().map(|row| (&row["role"], &row["limiter"])).collect();
    assert_eq!(limiters, [(&"target".into(), &"path-mtu".into())], "{top:#}");
}

#[test]
fn a_segment_size_that_is_given_is_used_from_the_start() {
    need!(available());
    let hole = Hole::new();
    let _target = hole.serve();
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("copy");
    let read = hole.moved("read -o", &copy, "--mss 1220");
    assert_eq!((read.json()["reconnects"].as_u64(), read.stderr.as_str()), (Some(0), ""), "{read:#?}");
    assert_eq!(fs::read(&copy).expect("a copy"), vec![0; LEN]);
}
