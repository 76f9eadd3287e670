//! `farlun wan --host`: the machine itself is the far end. It is a machine of its own here, a network namespace in which
//! nothing else lives, so that the one that runs the tests is left alone.

use std::process::Command;
use std::time::Duration;

use e2e::path;
use e2e::{Finished, farlun_path, need, run, skip};

const LIMIT: Duration = Duration::from_secs(180);

/// A shell function that shows what the machine has: devices, addresses and routes.
const STATE: &str = "state() { ip address; ip -4 route; ip -6 route; ip rule; \
                     cat /proc/sys/net/ipv4/tcp_rmem /proc/sys/net/ipv4/tcp_no_metrics_save; }";

/// Runs a script on a machine of its own; `$farlun` is the program.
fn on_a_machine(script: &str) -> Finished {
    let text = format!("set -eu\nfarlun='{}'\n{STATE}\nip link set lo up\n{script}", farlun_path().display());
    run(Command::new("unshare").args(["--net", "bash", "-c", &text]), LIMIT)
}

#[test]
fn programs_that_run_here_are_far_away() {
    need!(path::available(), skip::program("perl"), skip::program("ping"), skip::program("ip"));
    let finished = on_a_machine(
        r#"
        state >/tmp/farlun-here-$$
        perl -MIO::Socket::INET -e '
            $l = IO::Socket::INET->new(Listen => 8, LocalPort => 9) or die; $| = 1; print "ready\n";
            while ($c = $l->accept) { print $c $c->peerhost, "\n"; shutdown $c, 1; exit if <$c> eq "last" }' >/tmp/farlun-ready-$$ &
        server=$!
        until grep -q ready /tmp/farlun-ready-$$; do sleep 0.05; done
        near='exec 3<>/dev/tcp/$FARLUN_FAR/9; cat <&3; ping -q -c 2 -i 0.2 $FARLUN_FAR >&2; ping -q -c 1 -6 $FARLUN_FAR6 >&2'
        $farlun wan --validity off --delay 20ms --host --near 'ping -q -c 1 $FARLUN_FAR >&2' -- bash -c "$near"
        # COMMAND's last word reaches the server, which ends on it, although the path goes with COMMAND.
        $farlun wan --validity off --delay 300ms --host -- bash -c 'exec 3<>/dev/tcp/$FARLUN_FAR/9; cat <&3 >&2; printf last >&3'
        wait $server
        state | diff /tmp/farlun-here-$$ - >&2
        rm /tmp/farlun-here-$$ /tmp/farlun-ready-$$"#,
    )
    .expect_code(0);
    assert_eq!(finished.stdout, "198.18.0.1\n", "{finished:#?}");
    let fastest: Vec<f64> = finished
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("rtt min/avg/max/mdev = ")?.split('/').next()?.parse().ok())
        .collect();
    assert!(fastest.len() == 3 && fastest.iter().all(|ms| *ms >= 40.0), "{finished:#?}");
}

#[test]
fn a_runner_that_is_killed_leaves_the_machine_as_it_was() {
    need!(path::available(), skip::program("ip"));
    on_a_machine(
        r#"
        before=$(state)
        ready=$(mktemp -u) && mkfifo "$ready"
        $farlun wan --host -- bash -c "echo >'$ready'; sleep 1000" & runner=$!
        read -r _ <"$ready"
        rm "$ready"
        kill -9 $runner
        for i in $(seq 1000); do
            if test "$(state)" = "$before"; then exit 0; fi
            sleep 0.05
        done
        state >&2
        exit 6"#,
    )
    .expect_code(0);
}

#[test]
fn a_machine_behind_a_tunnel_or_without_ipv6_can_be_the_far_end() {
    need!(path::available(), skip::program("ip"), skip::program("ping"));
    // As tunnels set it that want everything: a default route in two halves.
    let halves = "ip link add t0 type veth peer name t1; ip link set t0 up; ip address add 10.9.0.1/24 dev t0
        ip route add 0.0.0.0/1 dev t0; ip route add 128.0.0.0/1 dev t0";
    on_a_machine(&format!("{halves}\nexec $farlun wan --host -- ping -q -c 1 198.18.0.2")).expect_code(0);
    for all in ["default", "all"] {
        let script = format!(
            "echo 1 >/proc/sys/net/ipv6/conf/{all}/disable_ipv6
             $farlun wan --host -- sh -ec 'ping -q -c 1 $FARLUN_FAR; ping -q -c 1 -6 $FARLUN_FAR6'
             test $(cat /proc/sys/net/ipv6/conf/{all}/disable_ipv6) = 1"
        );
        on_a_machine(&script).expect_code(0);
    }
}

/// Another device of the machine has the networks of the path.
#[test]
fn a_route_with_a_congestion_control_takes_the_place_of_no_other() {
    need!(path::available(), skip::program("ip"));
    let script = r#"
        ip link add t0 type veth peer name t1
        ip link set t0 up
        ip link set t1 up
        ip address add 2001:2::77/64 dev t0 nodad
        state >/tmp/farlun-routes-$$
        $farlun wan --host --congestion reno -- true
        ip -6 route show 2001:2::/64
        state | diff /tmp/farlun-routes-$$ - >&2
        rm /tmp/farlun-routes-$$"#;
    let finished = on_a_machine(script).expect_code(0);
    let own = finished.stdout.lines().filter(|line| line.contains("dev t0")).count();
    assert_eq!(own, 1, "{finished:#?}");
}

#[test]
fn what_is_in_the_way_is_named() {
    need!(path::available(), skip::program("ip"), skip::program("setpriv"));
    on_a_machine("ip address add 198.18.0.2/32 dev lo\nexec $farlun wan --host -- true")
        .expect_code(2)
        .expect_said("198.18.0.2/24 is an address of this machine already");
    on_a_machine("ip route add 198.18.0.0/15 dev lo\nexec $farlun wan --host -- true")
        .expect_code(2)
        .expect_said("this machine has a route to 198.18.0.0/15 already");
    on_a_machine("exec $farlun wan --host -- $farlun wan --host -- true").expect_code(2);
    let finished = on_a_machine(
        "cat /proc/sys/net/ipv4/tcp_pacing_ss_ratio >&2
        $farlun wan --host --device veth --ring 256 -- true || code=$?
        cat /proc/sys/net/ipv4/tcp_pacing_ss_ratio >&2
        exit $code",
    );
    finished.expect_code(2).expect_said("needs a TUN").expect_said("200\n");
    need!(path::available_to_nobody());
    let mut nobody = path::as_nobody(farlun_path().to_str().expect("a path of plain characters"));
    run(nobody.args(["wan", "--host", "--", "true"]), LIMIT).expect_code(2).expect_said("needs root");
}
