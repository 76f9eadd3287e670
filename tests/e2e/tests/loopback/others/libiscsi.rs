//! Our target as libiscsi's tools see it: discovery, INQUIRY, READ CAPACITY (16), load.

use std::process::Command;
use std::time::Duration;

use e2e::ours::Target;
use e2e::process::output;
use e2e::{need, run, skip};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn discovery_lists_every_lun_with_its_size() {
    need!(skip::program("iscsi-ls"));
    let target = Target::serve(&["memory:64MiB", "memory:1GiB"]);
    let listed = output(Command::new("iscsi-ls").args(["-s", &target.portal()]));
    assert!(listed.contains(&format!("Target:{} Portal:{}", target.iqn(), target.address())), "{listed}");
    let luns: Vec<&str> = listed.lines().filter(|line| line.starts_with("Lun:")).collect();
    assert_eq!(luns.len(), 2, "{listed}");
    for (lun, line) in luns.iter().enumerate() {
        assert!(line.starts_with(&format!("Lun:{lun} ")) && line.contains("DIRECT_ACCESS"), "{listed}");
    }
}

#[test]
fn inquiry_describes_a_disk() {
    need!(skip::program("iscsi-inq"));
    let target = Target::serve(&["memory:64MiB"]);
    let said = output(Command::new("iscsi-inq").arg(target.url(0)));
    for expected in
        ["Peripheral Device Type:DIRECT_ACCESS", "Peripheral Qualifier:CONNECTED", "CmdQue:1", "Vendor:"]
    {
        assert!(said.contains(expected), "`{expected}` is missing\n{said}");
    }
}

#[test]
fn vital_product_data_pages() {
    need!(skip::program("iscsi-inq"));
    let target = Target::serve(&["memory:64MiB", "memory:64MiB"]);
    let page = |lun: u32, code: u8| {
        let code = code.to_string();
        output(Command::new("iscsi-inq").args(["-e", "1", "-c", &code, &target.url(lun)]))
    };
    let supported = page(0, 0x00);
    for name in ["SUPPORTED_VPD_PAGES", "UNIT_SERIAL_NUMBER", "DEVICE_IDENTIFICATION", "BLOCK_LIMITS"] {
        assert!(supported.contains(name), "{name} is missing\n{supported}");
    }
    let serial = page(0, 0x80);
    assert!(serial.contains("Unit Serial Number:"), "{serial}");
    let identification = page(0, 0x83);
    assert!(identification.contains("DESIGNATOR"), "{identification}");
    assert_ne!(identification, page(1, 0x83), "two LUNs have two names");
    assert_ne!(serial, page(1, 0x80), "two LUNs have two serial numbers");
    let limits = page(0, 0xb0);
    assert!(limits.to_lowercase().contains("optimal transfer length"), "{limits}");
}

/// The library sends DataDigest=None, whatever the URL says.
#[test]
fn header_digests_are_all_that_it_has() {
    need!(skip::program("iscsi-inq"));
    let inquiry = |digest: &str| {
        let target = Target::serve_with(&["memory:64MiB"], &["--digest", digest]);
        let url = format!("{}?header_digest=crc32c", target.url(0));
        let finished = run(Command::new("iscsi-inq").arg(&url), MINUTE);
        (finished, target.service.stderr())
    };
    let (finished, _) = inquiry("prefer");
    finished.expect_code(0);
    let (finished, said) = inquiry("crc32c");
    finished.expect_code(10);
    assert!(said.contains("DataDigest=None is all that the peer agrees to"), "{said}");
}

#[test]
fn capacity_is_what_was_asked_for() {
    need!(skip::program("iscsi-readcapacity16"));
    let target = Target::serve(&["memory:64MiB"]);
    let said = output(Command::new("iscsi-readcapacity16").arg(target.url(0)));
    assert!(said.contains("Total size:67108864"), "{said}");
}

#[test]
fn load_ends_without_an_error() {
    need!(skip::program("iscsi-perf"));
    let target = Target::serve(&["memory:64MiB"]);
    for shape in
        [["-m", "16", "-b", "8"].as_slice(), &["-m", "64", "-b", "8", "-r"], &["-m", "4", "-b", "2048"]]
    {
        // -x 0: a lost connection is an error and not a reason to try again.
        let mut load = Command::new("iscsi-perf");
        load.args(shape).args(["-t", "1", "-x", "0", &target.url(0)]);
        let finished = run(&mut load, MINUTE).expect_code(0);
        assert!(finished.stdout.contains("finished."), "{finished:#?}");
        assert!(!finished.stdout.contains("iops average 0 "), "nothing was read\n{finished:#?}");
    }
}
