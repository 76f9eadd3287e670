//! Several hosts at each end of the emulated path, behind a switch, on one line.

use std::process::Command;
use std::time::Duration;

use e2e::path::{self, FAR};
use e2e::process::output;
use e2e::{Service, farlun_path, need, run, skip};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(180);

/// `farlun wan` with these flags, which a shell takes apart, and COMMAND for a shell.
fn wan(flags: &str, command: &str) -> Command {
    let mut shell = Command::new("sh");
    let line = format!("exec '{}' wan --validity off {flags} -- sh -c \"$0\"", farlun_path().display());
    shell.args(["-c", &line, command]);
    shell
}

/// What a command of the document did.
fn role<'a>(document: &'a Value, host: &str) -> &'a Value {
    let others = document["others"].as_array().expect("a list of commands");
    let all = [&document["near"], &document["far"]].into_iter().chain(others);
    all.into_iter().find(|role| role["host"] == host).unwrap_or_else(|| panic!("no {host}: {document}"))
}

/// Answers every connection with the name of its host.
const NAMED: &str = r#"'exec perl -MIO::Socket::INET -e "
    \$l = IO::Socket::INET->new(Listen => 8, LocalPort => 9, ReuseAddr => 1) or die;
    while (\$c = \$l->accept) { print \$c \$ENV{FARLUN_HOST}, 10 > 9 ? chr(10) : 0; close \$c }"'"#;

/// A shell function that says who answers at an address, as JSON.
const ASK: &str = r#"ask() { exec 3<>/dev/tcp/$1/9 && read -r name <&3 && echo "{\"answer\": \"$name\", \"own\": \"$FARLUN_ADDRESS\"}"; }"#;

#[test]
fn everybody_reaches_everybody_and_the_document_tells_of_all() {
    need!(path::available(), skip::program("perl"), skip::program("bash"));
    let script = tempfile::NamedTempFile::new().expect("a file for a script");
    std::fs::write(script.path(), format!("{ASK}\nask $1\n")).expect("a script");
    let ask = format!("bash {}", script.path().display());
    let flags = format!(
        "--json --delay 2ms --far {NAMED} --far {NAMED} --far {NAMED} --near '{ask} $FARLUN_ADDRESS_FAR2' --near '{ask} 198.18.0.103' --near '{ask} $FARLUN_FAR'"
    );
    let finished = run(&mut wan(&flags, &format!("{ask} {FAR}")), LIMIT).expect_code(0);
    let document = finished.json();
    for (host, address, asked) in [
        ("near", "198.18.0.1", "far"),
        ("near2", "198.18.0.12", "far2"),
        ("near3", "198.18.0.13", "far3"),
        ("near4", "198.18.0.14", "far"),
    ] {
        let role = role(&document, host);
        let expected = serde_json::json!({"answer": asked, "own": address});
        assert_eq!((&role["output"], &role["exit_code"]), (&expected, &Value::from(0)), "{document:#}");
        assert_eq!(role["asked_to_end"], false, "{document:#}");
    }
    for host in ["far", "far2", "far3"] {
        assert_eq!(role(&document, host)["asked_to_end"], true, "{document:#}");
    }
    assert_eq!(document["path"]["hosts"].as_object().map(serde_json::Map::len), Some(7), "{document:#}");
    assert_eq!(document["path"]["hosts"]["far3"][0], "198.18.0.103", "{document:#}");
}

#[test]
fn hosts_of_one_end_share_its_line_and_have_a_switch_to_themselves() {
    need!(path::available(), skip::program("ping"));
    let ping = "ping -q -c 3 -i 0.1 -W 10";
    // A line so long that no busy machine makes a switch look like it.
    let flags = format!(
        "--json --delay 1s --near '{ping} $FARLUN_NEAR' --near '{ping} {FAR}' --near '{ping} -6 $FARLUN_ADDRESS6_NEAR2'"
    );
    let finished = run(&mut wan(&flags, &format!("{ping} {FAR}")), LIMIT).expect_code(0);
    let mut fastest_ms: Vec<f64> = finished
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("rtt min/avg/max/mdev = ")?.split('/').next()?.parse().ok())
        .collect();
    fastest_ms.sort_by(f64::total_cmp);
    let [switch, switch6, line, line_too] = fastest_ms[..] else { panic!("four of them: {finished:#?}") };
    assert!(switch < 2000.0 && switch6 < 2000.0, "they do not cross the line: {fastest_ms:?}");
    assert!(line >= 2000.0 && line_too >= 2000.0, "they do: {fastest_ms:?}");
    // Six echoes and their answers; what stays at an end is not counted.
    assert_eq!(finished.json()["validity"]["segments"], 12, "{finished:#?}");
}

#[test]
fn a_full_line_is_shared() {
    need!(path::available(), skip::program("iperf3"));
    let flags = "--json --delay 5ms --rate 100mbit --far 'iperf3 -s -1' --far 'iperf3 -s -1' \
                 --near 'iperf3 -c $FARLUN_ADDRESS_FAR2 -n 4M -J >&2'";
    let finished = run(&mut wan(flags, "iperf3 -c $FARLUN_FAR -n 4M >&2"), LIMIT).expect_code(0);
    let document = finished.json();
    for host in ["near", "near2", "far", "far2"] {
        assert_eq!(
            role(&document, host)["exit_code"].as_u64().map(|code| code < 2),
            Some(true),
            "{document:#}"
        );
    }
    // Both transfers, one after the other or side by side: 8 MiB are 5 794 packets of 1 448 bytes.
    assert!(document["validity"]["segments"].as_u64() > Some(5_794), "{document:#}");
}

#[test]
fn each_near_host_may_have_a_line_to_itself() {
    need!(path::available(), skip::program("ping"));
    let ping = "ping -q -c 3 -i 0.1 -W 10 -s 1184";
    let named = format!("{ping} {FAR} | sed s/^/$FARLUN_HOST:/ >&2");
    let flags = format!("--json --rate 150kbit --near-rates 50kbit,100kbit --near '{named}'");
    let finished = run(&mut wan(&flags, &named), LIMIT).expect_code(0);
    let fastest_ms = |host: &str| -> f64 {
        let start = format!("{host}:rtt min/avg/max/mdev = ");
        let line = finished.stderr.lines().find_map(|line| line.strip_prefix(&start));
        let fastest = line.and_then(|line| line.split('/').next()?.parse().ok());
        fastest.unwrap_or_else(|| panic!("{host}: {finished:#?}"))
    };
    // An echo takes 1250 bytes on the wire, there and back.
    let (near, near2) = (fastest_ms("near"), fastest_ms("near2"));
    assert!(near >= 400.0 && (200.0..near).contains(&near2), "{near} {near2}");
    let shown = &finished.json()["path"]["near_rates_bits_per_s"];
    assert_eq!(*shown, serde_json::json!([50_000, 100_000]), "{finished:#?}");
}

#[test]
fn another_command_that_fails_is_told_and_one_that_never_ends_is_ended() {
    need!(path::available());
    let failed = run(&mut wan("--near 'exit 7'", "true"), LIMIT);
    let text = "the command in near2 ended with exit code 7";
    assert!(failed.code == 1 && failed.stderr.contains(text), "{failed:#?}");
    let worse = run(&mut wan("--near 'exit 7'", "exit 9"), LIMIT);
    assert_eq!(worse.code, 9, "{worse:#?}");
    let endless =
        run(&mut wan("--json --near 'exec sleep 1000' --near 'sleep 1000 & sleep 1000'", "true"), LIMIT);
    let document = endless.expect_code(0).json();
    for host in ["near2", "near3"] {
        assert_eq!(role(&document, host)["asked_to_end"], true, "{document:#}");
        assert_eq!(role(&document, host)["exit_code"], 143, "{document:#}");
    }
}

#[test]
fn mistakes_are_named() {
    let many = "--near true ".repeat(16);
    for (flags, said) in [
        (many.as_str(), "17 near hosts, expected at most 16"),
        ("--host --far true", "cannot be used with"),
        ("--near-rates 60mbit --near true", "1 given, expected one for each near host, 2 in all"),
        ("--near-rates 2gbit", "come to 2gbit, expected no more than the --rate of 1gbit in all"),
        ("--near-rates 60mbit --ring 256", "a ring empties at the rate of one line"),
        ("--near-rates 60mbit,0", "'0' is not a rate such as"),
        ("--device tap", "'tap' is no device; there are auto, tun and veth"),
    ] {
        run(&mut wan(flags, "true"), LIMIT).expect_code(2).expect_said(said);
    }
    need!(path::available());
    let silent = run(
        &mut wan(
            "--far 'exec perl -MIO::Socket::INET -e \"\\$l = IO::Socket::INET->new(Listen => 1, LocalPort => 9); sleep\"' --far 'exit 4'",
            "true",
        ),
        LIMIT,
    );
    silent
        .expect_code(1)
        .expect_said("the command 'exit 4' ended with exit code 4 before anything in far2 listened");
}

#[test]
fn a_runner_that_is_killed_leaves_nothing_on_any_host() {
    need!(path::available());
    // What has left its parents behind, on each of four hosts; each says which namespace is to be empty afterwards.
    let stray = "setsid sleep 1000 & readlink /proc/self/ns/net >&2";
    let listens = format!(
        "{stray}; exec perl -MIO::Socket::INET -e \"\\$l = IO::Socket::INET->new(Listen => 1, LocalPort => 9); sleep\""
    );
    let flags = format!("--far '{listens}' --far '{listens}' --near '{stray}; sleep 1000'");
    let mut service = Service::start(&mut wan(&flags, &format!("{stray}; echo ready; sleep 1000")));
    assert_eq!(service.next_line(LIMIT), "ready");
    let mut namespaces = Vec::new();
    e2e::until("all four hosts have said who they are", LIMIT, || {
        let said = service.stderr();
        namespaces = said.lines().filter(|line| line.starts_with("net:[")).map(str::to_owned).collect();
        namespaces.len() == 4
    });
    assert!(namespaces.iter().all(|namespace| !inside(namespace).is_empty()));
    service.kill_alone();
    e2e::until("nothing is left on the hosts", LIMIT, || {
        namespaces.iter().all(|namespace| inside(namespace).is_empty())
    });
}

#[test]
fn runner_and_guard_that_are_killed_together_leave_nothing() {
    need!(path::available(), skip::program("ps"));
    let probe = run(Command::new("unshare").args(["-Urpf", "--mount-proc", "true"]), LIMIT);
    need!(if probe.code == 0 {
        Ok(())
    } else {
        Err(format!("no /proc can be mounted: {}", probe.stderr.trim()))
    });
    let mut ways = vec![Command::new("sh")];
    if path::available_to_nobody().is_ok() {
        ways.push(path::as_nobody("sh"));
        let mut unshared = Command::new("unshare");
        unshared.args(["-Urnm", "sh"]);
        ways.push(unshared);
    }
    let here = std::fs::read_link("/proc/self/ns/pid").expect("a PID namespace");
    // A daemon, one that has gone to a network namespace of its own, and one of COMMAND's own.
    let command = "setsid sleep 1000 & unshare --net sleep 1000 & sleep 1000 &
        until grep -qx sleep /proc/$!/comm; do :; done; ps -o pid= -p $$ >&2 || exit 9
        readlink /proc/self/ns/pid; sleep 1000";
    for mut way in ways {
        let line = format!("exec '{}' wan --validity off -- sh -c \"$0\"", farlun_path().display());
        let mut service = Service::start(way.args(["-c", &line, command]));
        let namespace = service.next_line(LIMIT);
        assert_ne!(namespace, here.to_string_lossy(), "commands have no PID namespace of their own");
        let within = || of_namespace("pid", &namespace);
        assert!(within().len() >= 4, "the guard, COMMAND and what it has started: {:?}", within());
        let runner = service.id().to_string();
        let guard = within().into_iter().find(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.ends_with(b"\0wan\0guard\0")
        });
        let both = [runner, guard.expect("a guard")];
        output(Command::new("kill").args(["-s", "KILL"]).args(&both));
        e2e::until("nothing is left", LIMIT, || within().is_empty());
    }
}

/// The processes of a network namespace, named as the links in /proc name it.
fn inside(namespace: &str) -> Vec<String> {
    of_namespace("net", namespace)
}

fn of_namespace(kind: &str, namespace: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").expect("/proc");
    let pids = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let of = |pid: &String| std::fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok();
    pids.filter(|pid| of(pid).is_some_and(|link| link.to_string_lossy() == namespace)).collect()
}
