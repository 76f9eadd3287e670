//! Linux's initiator, open-iscsi, on our target.

use std::fs;
use std::process::Command;

use e2e::image::sha256;
use e2e::process::output;
use e2e::{need, skip};

use crate::machine::{self, HOST, IQN, Machine};

/// Settings that have both digests.
pub(crate) const DIGESTS: &[(&str, &str)] =
    &[("node.conn[0].iscsi.HeaderDigest", "CRC32C"), ("node.conn[0].iscsi.DataDigest", "CRC32C")];
const SECRET: &str = "the secret of alice";
const TARGET_SECRET: &str = "the secret of the disk";

/// Starts iscsid with these settings of its configuration file.
#[track_caller]
pub(crate) fn configure(machine: &mut Machine, settings: &[(&str, &str)]) {
    let base = [
        ("node.startup", "manual"),
        ("node.session.initial_login_retry_max", "2"),
        ("node.session.timeo.replacement_timeout", "120"),
        ("node.conn[0].timeo.noop_out_interval", "1"),
        ("node.conn[0].timeo.noop_out_timeout", "2"),
    ];
    let lines = base.iter().chain(settings).map(|(name, value)| format!("{name} = {value}\n"));
    let lines: String = lines.collect();
    machine.run(&format!(
        "modprobe -a iscsi_tcp sd_mod\n\
         echo InitiatorName={IQN}.initiator >/etc/iscsi/initiatorname.iscsi\n\
         cat >/etc/iscsi/iscsid.conf <<'END'\n{lines}END\n\
         iscsid -f >/run/iscsid.said 2>&1 &\n\
         until iscsiadm -m session >/run/none 2>&1; [ $? = 21 ]; do sleep 0.1; done"
    ));
}

/// Discovers the target at a portal and logs in there.
#[track_caller]
pub(crate) fn login(machine: &mut Machine) {
    let discovered = machine.run(&format!("iscsiadm -m discovery -t sendtargets -p {}:3260", HOST[0]));
    assert!(discovered.contains(&format!("{}:3260,1 {IQN}", HOST[0])), "{discovered}");
    machine.run(&format!("iscsiadm -m node -T {IQN} -p {}:3260 --login", HOST[0]));
}

/// The disk of LUN 0 when it is there, such as `/dev/sda`.
#[track_caller]
pub(crate) fn disk(machine: &mut Machine) -> String {
    let path = "/sys/class/iscsi_session/session*/device/target*/*:0/block/sd*";
    machine.wait_for(&format!("[ -b /dev/$(ls -d {path} 2>/dev/null | head -1 | sed s,.*/,,) ]"));
    machine.run(&format!("echo /dev/$(ls -d {path} | head -1 | sed s,.*/,,)"))
}

#[track_caller]
pub(crate) fn logout(machine: &mut Machine) {
    machine.run(&format!("iscsiadm -m node -T {IQN} --logout"));
}

/// SCSI commands of the only session, as the kernel counts them.
#[track_caller]
pub(crate) fn commands_sent(machine: &mut Machine) -> u64 {
    let text = machine.run("iscsiadm -m session -s");
    let value = text.lines().find_map(|line| line.trim().strip_prefix("scsicmd_pdus: "));
    value
        .and_then(|value| value.trim().parse().ok())
        .unwrap_or_else(|| panic!("no number of commands: {text}"))
}

/// fio, which writes at random places of a block device and reads them back with their checksums. It creates no file where
/// udev has not yet made the device.
fn fio(disk: &str, size: &str, more: &str) -> String {
    format!(
        "fio --name=verified --filename={disk} --allow_file_create=0 --direct=1 --ioengine=libaio --rw=randwrite \
         --size={size} --verify=crc32c --verify_fatal=1 --do_verify=1 --verify_backlog=256 --randseed=7 {more}"
    )
}

/// Starts a load of verified writes in the guest that goes on until [`end_load`].
#[track_caller]
fn start_load(machine: &mut Machine, disk: &str) {
    machine.wait_for(&format!("[ -b {disk} ]"));
    let fio = fio(disk, "8M", "--bs=16k --iodepth=16 --rate_iops=800");
    machine.start("load", &format!("until [ -e /run/enough ]; do {fio} || exit 1; done"));
}

/// Panics unless every block that the load wrote was found.
#[track_caller]
fn end_load(machine: &mut Machine) {
    machine.run("[ ! -e /run/load.code ] && touch /run/enough");
    let said = machine.finish("load");
    assert!(said.contains("err= 0"), "{said}");
}

#[test]
fn mutual_chap_and_digests() {
    need!(machine::available());
    let mut machine = Machine::boot();
    let disk_file = machine.disk("disk", 32);
    let secrets = machine.folder().join("secrets");
    fs::write(&secrets, format!("alice {SECRET}\nthe-disk {TARGET_SECRET}\n")).expect("a file of secrets");
    output(Command::new("chmod").arg("600").arg(&secrets));
    let (lun, secrets) = (format!("file:{}", disk_file.display()), secrets.display().to_string());
    let chap =
        ["--chap", "alice", "--chap-secret-file", &secrets, "--chap-target-user", "the-disk", "--lun", &lun];
    let _target = machine.serve(chap);
    let mut settings = DIGESTS.to_vec();
    settings.extend([
        ("node.session.auth.authmethod", "CHAP"),
        ("node.session.auth.username", "alice"),
        ("node.session.auth.password", SECRET),
        ("node.session.auth.username_in", "the-disk"),
        ("node.session.auth.password_in", TARGET_SECRET),
        ("discovery.sendtargets.auth.authmethod", "CHAP"),
        ("discovery.sendtargets.auth.username", "alice"),
        ("discovery.sendtargets.auth.password", SECRET),
        ("discovery.sendtargets.auth.username_in", "the-disk"),
        ("discovery.sendtargets.auth.password_in", TARGET_SECRET),
    ]);
    configure(&mut machine, &settings);
    login(&mut machine);
    let session = machine.run("iscsiadm -m session -P 2");
    for said in ["HeaderDigest: CRC32C", "DataDigest: CRC32C", "username: alice", "username_in: the-disk"] {
        assert!(session.contains(said), "no '{said}' in {session}");
    }
    let disk = disk(&mut machine);
    let sums = machine.run(&format!(
        "dd if=/dev/urandom of=/tmp/data bs=1M count=8 2>/dev/null\n\
         dd if=/tmp/data of={disk} bs=256k oflag=direct conv=fsync 2>/dev/null\n\
         dd if={disk} bs=64k count=128 iflag=direct 2>/dev/null | sha256sum; sha256sum </tmp/data"
    ));
    let sums: Vec<&str> = sums.split_whitespace().filter(|word| word.len() == 64).collect();
    assert_eq!(sums[0], sums[1], "what was read is not what was written");
    logout(&mut machine);
    fs::File::options().write(true).open(&disk_file).and_then(|file| file.set_len(8 << 20)).expect("the LUN");
    assert_eq!(sha256(&disk_file), sums[0], "the file of the LUN holds something else");

    // open-iscsi's codes: 24, the target refuses; 19, what the target has proved is wrong.
    for (name, code) in [("password", 24), ("password_in", 19)] {
        let node = format!("iscsiadm -m node -T {IQN} -p {}:3260", HOST[0]);
        let update = format!("{node} -o update -n node.session.auth.{name} -v");
        let right = if name == "password" { SECRET } else { TARGET_SECRET };
        machine.run(&format!("{update} 'somebody else entirely'"));
        let refused = machine.try_run(&format!("{node} --login"));
        assert_eq!(refused.code, code, "with a wrong {name}: {refused:?}");
        machine.run(&format!("{update} '{right}'"));
    }
}

#[test]
fn ext4_keeps_its_files() {
    need!(machine::available(), skip::program("e2fsck"));
    let mut machine = Machine::boot();
    let disk_file = machine.disk("disk", 256);
    let _target = machine.serve(["--insecure", "--lun", &format!("file:{}", disk_file.display())]);
    configure(&mut machine, &[]);
    login(&mut machine);
    let disk = disk(&mut machine);
    let files = machine.run(&format!(
        "set -e\n\
         mkfs.ext4 -q {disk}; mount {disk} /mnt\n\
         cp -a /usr/sbin /usr/share /usr/lib/modules /mnt\n\
         cd /mnt; find . -type f -exec sha256sum {{}} + >/tmp/sums; cd /\n\
         umount /mnt; echo 3 >/proc/sys/vm/drop_caches; mount {disk} /mnt\n\
         cd /mnt; sha256sum --quiet -c /tmp/sums; cd /; umount /mnt\n\
         e2fsck -fn {disk} >/tmp/said 2>&1 || {{ cat /tmp/said; exit 1; }}\n\
         wc -l </tmp/sums"
    ));
    assert!(files.parse::<u32>().expect("a number of files") > 300, "{files} files are too few");
    logout(&mut machine);
    output(Command::new("e2fsck").arg("-fn").arg(&disk_file));
}

#[test]
fn fio_finds_every_block() {
    need!(machine::available());
    let mut machine = Machine::boot();
    let _target = machine.serve(["--insecure", "--lun", "memory:128MiB"]);
    configure(&mut machine, DIGESTS);
    login(&mut machine);
    let disk = disk(&mut machine);
    machine.run(&fio(&disk, "24M", "--bsrange=4k-256k --iodepth=16"));
    machine.run(&fio(&disk, "4M", "--bs=512 --blockalign=512 --iodepth=4 --number_ios=2000"));
    logout(&mut machine);
}

#[test]
fn every_mix_of_bursts() {
    need!(machine::available());
    let mut machine = Machine::boot();
    let _target = machine.serve(["--insecure", "--lun", "memory:64MiB"]);
    configure(
        &mut machine,
        &[("node.session.iscsi.FirstBurstLength", "16384"), ("node.session.iscsi.MaxBurstLength", "65536")],
    );
    let node = format!("iscsiadm -m node -T {IQN} -p {}:3260", HOST[0]);
    machine.run(&format!("iscsiadm -m discovery -t sendtargets -p {}:3260", HOST[0]));
    for (initial_r2t, immediate, digest) in
        [("Yes", "No", "None"), ("Yes", "Yes", "CRC32C"), ("No", "No", "CRC32C"), ("No", "Yes", "None")]
    {
        for (name, value) in [
            ("session.iscsi.InitialR2T", initial_r2t),
            ("session.iscsi.ImmediateData", immediate),
            ("conn[0].iscsi.DataDigest", digest),
        ] {
            machine.run(&format!("{node} -o update -n 'node.{name}' -v {value}"));
        }
        machine.run(&format!("{node} --login"));
        let session = machine.run("iscsiadm -m session -P 2");
        for said in [
            format!("InitialR2T: {initial_r2t}"),
            format!("ImmediateData: {immediate}"),
            format!("DataDigest: {digest}"),
            // It is of no account where nothing is sent before a request for it.
            format!(
                "FirstBurstLength: {}",
                if initial_r2t == "Yes" && immediate == "No" { 0 } else { 16384 }
            ),
            "MaxBurstLength: 65536".to_owned(),
        ] {
            assert!(session.contains(&said), "no '{said}' in {session}");
        }
        let disk = disk(&mut machine);
        machine.run(&fio(&disk, "6M", "--bsrange=4k-512k --iodepth=8"));
        logout(&mut machine);
    }
}

#[test]
fn a_writer_outlives_its_target() {
    need!(machine::available());
    let mut machine = Machine::boot();
    let lun = format!("file:{}", machine.disk("disk", 128).display());
    let mut target = machine.serve(["--insecure", "--lun", &lun]);
    configure(&mut machine, &[]);
    login(&mut machine);
    let disk = disk(&mut machine);
    let statistics = format!("/sys/block/{}/stat", disk.trim_start_matches("/dev/"));
    start_load(&mut machine, &disk);
    for step in 1..=3 {
        // Some hundred writes more, so that each end of the target is in the middle of the load.
        machine.wait_for(&format!("[ $(awk '{{ print $5 }}' {statistics}) -gt {} ]", step * 400));
        if step == 2 {
            target.service.terminate();
        } else {
            target.service.kill();
        }
        target = machine.serve(["--insecure", "--lun", &lun]);
        // The unit attention of a new target process reaches Linux with the first command that this completes.
        machine.wait_for(&format!("[ $(dmesg | grep -c 'Power-on or device reset occurred') -gt {step} ]"));
    }
    end_load(&mut machine);
    let sessions = machine.run("iscsiadm -m session");
    assert_eq!(sessions.lines().count(), 1, "{sessions}");
    logout(&mut machine);
}

#[test]
fn multipath_outlives_each_portal() {
    need!(machine::available());
    let mut machine = Machine::boot_with(2);
    let second = format!("{}:3260", HOST[1]);
    let lun = format!("file:{}", machine.disk("disk", 128).display());
    let _target = machine.serve(["--insecure", "--listen", &second, "--lun", &lun]);
    // Without it the paths' block devices would hold the requests of a dead path for two minutes.
    configure(&mut machine, &[("node.session.timeo.replacement_timeout", "2")]);
    machine.run(
        "set -e\n\
         modprobe -a dm_multipath dm_round_robin dm_service_time\n\
         /lib/systemd/systemd-udevd --daemon\n\
         cat >/etc/multipath.conf <<'END'\n\
         defaults {\n\
         user_friendly_names yes\n\
         find_multipaths no\n\
         path_grouping_policy multibus\n\
         polling_interval 1\n\
         max_polling_interval 1\n\
         no_path_retry 60\n\
         }\n\
         END\n\
         multipathd -d >/run/multipathd.said 2>&1 &",
    );
    login(&mut machine);
    machine.run(&format!("iscsiadm -m node -T {IQN} -p {second} --login"));
    paths(&mut machine, "A", 2);
    start_load(&mut machine, "/dev/mapper/mpatha");
    for link in [1, 0] {
        machine.set_link(link, "down");
        paths(&mut machine, "F", 1);
        let before = written(&mut machine);
        machine.wait_for(&format!("[ $(awk '{{ print $5 }}' /sys/block/dm-0/stat) -gt {} ]", before + 50));
        machine.set_link(link, "up");
        paths(&mut machine, "A", 2);
    }
    end_load(&mut machine);
}

/// Waits until so many paths of the multipath device are active (A) or failed (F).
#[track_caller]
fn paths(machine: &mut Machine, state: &str, count: u32) {
    let count_now =
        format!("$(dmsetup status mpatha 2>/dev/null | grep -oE '[0-9]+:[0-9]+ {state}' | wc -l)");
    machine.wait_for(&format!("[ {count_now} = {count} ]"));
}

/// Writes that the multipath device has completed.
#[track_caller]
fn written(machine: &mut Machine) -> u64 {
    machine.run("awk '{ print $5 }' /sys/block/dm-0/stat").parse().expect("a number of writes")
}

/// Linux's initiator sets its receive buffer, so that the kernel does not adapt it to the path: a session reads no more
/// than the buffer in a round trip, over its only connection.
#[test]
fn one_session_over_a_long_path() {
    const RTT_MS: u64 = 40;
    const READ_BYTES: u64 = 8 << 20;
    need!(machine::available(), skip::program("ss"));
    let mut machine = Machine::boot();
    let _target = machine.serve(["--insecure", "--lun", "memory:64MiB"]);
    configure(&mut machine, &[("node.session.cmds_max", "256"), ("node.session.queue_depth", "128")]);
    machine.run(&format!("set -e; modprobe sch_netem; tc qdisc add dev eth0 root netem delay {RTT_MS}ms"));
    // Linux's default, and more than the 512 KiB that are asked for.
    for (limit, buffer_bytes) in [("212992", 212_992), ("4194304", 512 << 10)] {
        machine.run(&format!("echo {limit} >/proc/sys/net/core/rmem_max"));
        login(&mut machine);
        // The target takes eight.
        assert_eq!(machine.run("ls /sys/class/iscsi_connection | wc -l"), "1", "connections of a session");
        let disk = disk(&mut machine);
        machine.wait_for(&format!("[ -b {disk} ]"));
        let said = machine.run(&format!(
            "fio --name=reads --filename={disk} --allow_file_create=0 --direct=1 --ioengine=libaio --rw=read \
             --bs=128k --iodepth=64 --size={READ_BYTES}"
        ));
        let time = said.split(", run=").nth(1).and_then(|rest| rest.split('-').next()?.parse::<u64>().ok());
        let time_ms = time.unwrap_or_else(|| panic!("no time in {said}"));
        let mut command = Command::new("ss");
        command.args(["-tinH", "state", "established", "sport", "=", ":3260"]);
        let socket = output(&mut machine.near(&command));
        let window = socket.split("snd_wnd:").nth(1).and_then(|rest| rest.split_whitespace().next());
        let window_bytes: u64 =
            window.and_then(|window| window.parse().ok()).unwrap_or_else(|| panic!("no window in {socket}"));
        println!("{limit}: window of {window_bytes} bytes, {READ_BYTES} bytes in {time_ms} ms");
        // Part of the buffer is for what the kernel keeps beside the data.
        assert!((buffer_bytes / 2..=buffer_bytes * 5 / 4).contains(&window_bytes), "{window_bytes} bytes");
        let round_trips = READ_BYTES / (buffer_bytes * 5 / 4);
        assert!(time_ms >= (round_trips - 1) * RTT_MS, "{time_ms} ms for {round_trips} round trips");
        logout(&mut machine);
    }
}
