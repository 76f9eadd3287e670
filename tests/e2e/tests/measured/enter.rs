//! `farlun wan enter` from outside a path: it takes the one that runs, so no other may run beside it.

use std::process::Command;
use std::time::Duration;

use e2e::{farlun, farlun_path, need, path, run, skip};

const LIMIT: Duration = Duration::from_secs(180);

#[test]
fn every_host_can_be_entered() {
    need!(path::available(), skip::program("ip"));
    let _turn = path::turn();
    let mut enter = String::new();
    for (host, address) in [("near2", "198.18.0.12"), ("far2", "198.18.0.102")] {
        enter += &format!(
            "{0} wan enter {host} -- ip -brief address | grep -q {address}/24 && \
             {0} wan enter {host} -- sh -c 'test $FARLUN_HOST = {host}' && ",
            farlun_path().display()
        );
    }
    let missing = format!("! {} wan enter near3", farlun_path().display());
    let listens = "exec perl -MIO::Socket::INET -e \"\\$l = IO::Socket::INET->new(Listen => 1, LocalPort => 9); sleep\"";
    let flags = format!("--near true --far '{listens}' --far '{listens}'");
    let line = format!("exec '{}' wan --validity off {flags} -- sh -c \"$0\"", farlun_path().display());
    let mut wan = Command::new("sh");
    let finished = run(wan.args(["-c", &line, &(enter + &missing)]), LIMIT).expect_code(0);
    let text = "the path that runs has no host near3; it has far, far2, near, near2";
    assert!(finished.stderr.contains(text), "{finished:#?}");
    let words = run(farlun(["wan", "enter", "middle"]).arg("--").arg("true"), LIMIT);
    words.expect_code(2).expect_said("'middle' is no host; there are near, near2 to near16");
}
