//! Who may log in, and what arrives undamaged: CHAP, access by name, and digests, with ourselves, libiscsi and tgt.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use proto::login::{
    ChapInitiator, Credentials, Initiator, Joined, RANDOM_BYTES, Request, Secret, Security, Session,
};
use proto::params::Wishes;
use tempfile::TempDir;
use wire::iscsi::Pdu;

use e2e::ours::Target;
use e2e::process::output;
use e2e::relay::Relay;
use e2e::tgtd::{self, Tgtd};
use e2e::{Finished, farlun, need, run, skip};

use crate::peers::pdu;
use crate::peers::raw_initiator::ping;

const MINUTE: Duration = Duration::from_secs(60);
const SECRETS: &str = "alice the-secret-of-alice\nbob the-secret-of-bob\ndisk the-secret-of-the-disk\n";

/// A folder with a file of secrets that only its owner can read.
fn secrets() -> (TempDir, PathBuf) {
    let folder = tempfile::Builder::new().prefix("farlun-chap-").tempdir().expect("a temporary folder");
    let file = folder.path().join("secrets");
    fs::write(&file, SECRETS).expect("a file of secrets");
    fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("its mode");
    (folder, file)
}

/// A target that alice may use, and that can prove itself.
fn guarded() -> (TempDir, Target) {
    let (folder, file) = secrets();
    let file = file.to_str().expect("a path of plain characters");
    let flags = ["--chap", "alice", "--chap-secret-file", file, "--chap-target-user", "disk"];
    let target = Target::serve_with(&["memory:64MiB"], &flags);
    (folder, target)
}

fn inquiry(url: &str, flags: &[&str], environment: &[(&str, &str)]) -> Finished {
    run(farlun(["inquiry", url]).args(flags).envs(environment.iter().copied()), MINUTE)
}

/// A URL with somebody before its host.
fn with_user(url: &str, user: &str) -> String {
    url.replace("iscsi://", &format!("iscsi://{user}@"))
}

#[test]
fn our_own_two_by_chap() {
    let (_folder, target) = guarded();
    let url = with_user(&target.url(0), "alice");
    let secret = ("FARLUN_CHAP_SECRET", "the-secret-of-alice");
    inquiry(&url, &[], &[secret]).expect_code(0);
    inquiry(&with_user(&target.url(0), "alice%the-secret-of-alice"), &[], &[]).expect_code(0);
    let portal = with_user(&target.portal(), "alice%the-secret-of-alice");
    run(&mut farlun(["ls", &portal]), MINUTE).expect_code(0);
    let mutual = ["--chap-target-user", "disk"];
    let theirs = ("FARLUN_CHAP_TARGET_SECRET", "the-secret-of-the-disk");
    inquiry(&url, &mutual, &[secret, theirs]).expect_code(0);
    let wrong = ("FARLUN_CHAP_TARGET_SECRET", "not-what-the-disk-knows");
    inquiry(&url, &mutual, &[secret, wrong]).expect_code(3).expect_sentence(&["could not prove itself"]);
}

/// Logs in by CHAP as a host of always the same name and ISID: a new session, or a connection of session `tsih`.
fn log_in_as(target: &Target, user: &str, tsih: u16) -> Result<(TcpStream, u16), String> {
    let secret = Secret::new(format!("the-secret-of-{user}").as_bytes());
    let ours = Credentials::new(user, secret, false).expect("a long secret");
    let chap = ChapInitiator::new(ours, None).expect("one direction");
    let request = Request {
        session: Session::Normal { target_name: target.iqn().to_owned() },
        initiator_name: "iqn.2026-11.org.example:host".to_owned(),
        initiator_alias: None,
        isid: [0x80, 0, 0, 1, 0, 2],
        cid: u16::from(tsih != 0),
        wishes: Wishes { max_connections: 4, ..Wishes::default() },
        security: Security::Chap(Box::new(chap)),
        private_key: false,
    };
    let random = [7; RANDOM_BYTES];
    let mut login = match tsih {
        0 => Initiator::with_random(request, random),
        tsih => Initiator::joining(request, random, Joined { tsih, cmd_sn: 1 }),
    };
    let mut stream = pdu::patient(TcpStream::connect(target.address()).expect("the target accepts"));
    while let Some((request, text)) = login.poll_transmit() {
        stream.write_all(&pdu::bytes(request, &text)).expect("the target reads");
        let answer = pdu::read(&mut stream).expect("an answer").expect("an answer");
        let (Pdu::LoginResponse(response), text) = answer else { panic!("{answer:?}") };
        login.handle_response(&response, &text).map_err(|error| error.to_string())?;
    }
    Ok((stream, login.outcome().expect("a session").tsih))
}

/// One user knows name, ISID and handle of another's session, and gets neither into it nor into its place.
#[test]
fn a_session_is_its_users() {
    let (_folder, file) = secrets();
    let file = file.to_str().expect("a path of plain characters");
    let flags = ["--chap", "alice", "--chap", "bob", "--chap-secret-file", file];
    let target = Target::serve_with(&["memory:1MiB"], &flags);
    let (mut stream, tsih) = log_in_as(&target, "alice", 0).expect("alice");
    let refused = |tsih, words: &str| {
        let error = log_in_as(&target, "bob", tsih).expect_err("bob is in");
        assert!(error.contains(words), "{error}");
    };
    refused(0, "authorization failure");
    refused(tsih, "0x020a");
    stream.write_all(&ping(7, b"alive")).expect("the target reads");
    let (answer, data) = pdu::read(&mut stream).expect("an answer").expect("an answer");
    assert!(matches!(answer, Pdu::NopIn(_)) && data == b"alive", "alice's session goes on: {answer:?}");
    log_in_as(&target, "alice", tsih).expect("another connection of alice's");
    drop(stream);
    let said = target.service.stderr();
    assert!(said.contains("another CHAP user has a session with this name and ISID"), "{said}");
}

/// A registration from before users were kept goes to the first user, whose name is in the file from then on; another user is
/// a line in the log.
#[test]
fn the_first_user_of_a_registration_is_kept() {
    let (folder, file) = secrets();
    let file = file.to_str().expect("a path of plain characters");
    let disk = folder.path().join("disk");
    fs::File::create(&disk).and_then(|disk| disk.set_len(1 << 20)).expect("a disk");
    let kept = folder.path().join("disk.farlun-reservations");
    let old = "farlun reservations 1\nregistration 0000000000000007 800000010002 iqn.2026-11.org.example:host\n\
               reservation 1 0\nend\n";
    fs::write(&kept, old).expect("a file of reservations");
    let flags = ["--chap", "alice", "--chap", "bob", "--chap-secret-file", file];
    let serve = || Target::serve_with(&[&format!("file:{}", disk.display())], &flags);
    let target = serve();
    drop(log_in_as(&target, "alice", 0).expect("alice"));
    e2e::until("the file names the user", MINUTE, || {
        fs::read_to_string(&kept).is_ok_and(|text| text.contains(" iqn.2026-11.org.example:host alice\n"))
    });
    drop(target);
    let target = serve();
    drop(log_in_as(&target, "bob", 0).expect("bob"));
    e2e::until("the log names alice", MINUTE, || {
        target
            .service
            .stderr()
            .contains("LUN 0 has a registration of CHAP user alice for this initiator name and ISID")
    });
}

#[test]
fn users_are_bound_and_old_algorithms_are_off() {
    let (_folder, file) = secrets();
    fs::write(
        &file,
        format!("{SECRETS}@alice iqn.2026-11.org.example:HOST\n@bob iqn.2026-11.org.example:b\n"),
    )
    .expect("a file of secrets");
    let file = file.to_str().expect("a path of plain characters");
    let flags = ["--chap", "alice", "--chap", "bob", "--chap-secret-file", file];
    let target =
        Target::serve_with(&["memory:1MiB"], &[&flags[..], &["--chap-algorithms", "sha256"]].concat());
    log_in_as(&target, "alice", 0).expect("alice is this host");
    let error = log_in_as(&target, "bob", 0).expect_err("bob is another");
    assert!(error.contains("authorization failure"), "{error}");
    let url = with_user(&target.url(0), "alice%the-secret-of-alice");
    let host = ["--initiator-name", "iqn.2026-11.org.example:host"];
    inquiry(&url, &host, &[]).expect_code(0);
    for old in ["md5", "sha1", "sha1,md5"] {
        inquiry(&url, &[&host[..], &["--chap-algorithms", old]].concat(), &[]).expect_code(3);
    }
}

#[test]
fn those_without_the_secret_stay_out() {
    let (_folder, target) = guarded();
    inquiry(&target.url(0), &[], &[]).expect_code(3).expect_sentence(&["CHAP name and secret"]);
    for user in ["alice%the-secret-of-bob", "bob%the-secret-of-bob", "nobody%the-secret-of-alice"] {
        let said = inquiry(&with_user(&target.url(0), user), &[], &[]).expect_code(3);
        assert!(!said.stderr.contains("the-secret"), "{said:#?}");
        said.expect_sentence(&["does not take this CHAP name"]);
    }
    inquiry(&with_user(&target.url(0), "alice%short"), &[], &[]).expect_code(2).expect_sentence(&["12"]);
    inquiry(&with_user(&target.url(0), "alice"), &[], &[]).expect_code(2).expect_sentence(&["no secret"]);
}

#[test]
fn what_a_target_does_not_start_with() {
    let (folder, file) = secrets();
    let text = file.to_str().expect("a path of plain characters");
    let serve = |flags: &[&str]| {
        let mut command = farlun(["target", "--lun", "memory:1MiB", "--listen", "127.0.0.1:0"]);
        run(command.args(flags), MINUTE).expect_code(2)
    };
    serve(&["--chap", "carol", "--chap-secret-file", text]).expect_sentence(&["carol"]);
    serve(&["--chap", "alice", "--chap-target-user", "alice", "--chap-secret-file", text])
        .expect_sentence(&["the same CHAP secret"]);
    assert!(serve(&["--chap", "alice"]).stderr.contains("--chap-secret-file"));
    fs::set_permissions(&file, Permissions::from_mode(0o644)).expect("its mode");
    serve(&["--chap", "alice", "--chap-secret-file", text])
        .expect_sentence(&["others may read", "chmod 600"]);
    fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("its mode");
    fs::write(&file, "alice short\n").expect("a file of secrets");
    serve(&["--chap", "alice", "--chap-secret-file", text]).expect_sentence(&["at least 12"]);
    drop(folder);
}

#[test]
fn only_initiators_of_the_list() {
    let target = Target::serve_with(&["memory:1MiB"], &["--allow", "iqn.2026-11.io.farlun:nobody"]);
    inquiry(&target.url(0), &[], &[]).expect_code(3).expect_sentence(&["does not admit", "may not use"]);
    let known = ["--allow", "iqn.2026-11.io.farlun:nobody", "--allow", "iqn.2026-11.org.example:me"];
    need!(skip::program("iscsi-inq"));
    let target = Target::serve_with(&["memory:1MiB"], &known);
    output(Command::new("iscsi-inq").args(["-i", "iqn.2026-11.org.example:me", &target.url(0)]));
    let refused =
        run(Command::new("iscsi-inq").args(["-i", "iqn.2026-11.org.example:you", &target.url(0)]), MINUTE);
    assert_ne!(refused.code, 0, "{refused:#?}");
}

#[test]
fn libiscsi_by_chap() {
    need!(skip::program("iscsi-ls"), skip::program("iscsi-inq"));
    let (_folder, target) = guarded();
    let portal = with_user(&target.portal(), "alice%the-secret-of-alice");
    let listed = output(Command::new("iscsi-ls").args(["-s", &portal]));
    assert!(listed.contains(target.iqn()) && listed.contains("Lun:0"), "{listed}");
    let url = with_user(&target.url(0), "alice%the-secret-of-alice");
    output(Command::new("iscsi-inq").arg(&url));
    let mutual = format!("{url}?target_user=disk&target_password=the-secret-of-the-disk");
    output(Command::new("iscsi-inq").arg(&mutual));
    for user in ["alice%the-secret-of-bob", "bob%the-secret-of-bob"] {
        let refused = run(Command::new("iscsi-inq").arg(with_user(&target.url(0), user)), MINUTE);
        assert_ne!(refused.code, 0, "{refused:#?}");
    }
}

#[test]
fn our_own_two_with_digests() {
    let folder = tempfile::Builder::new().prefix("farlun-digest-").tempdir().expect("a temporary folder");
    let image = folder.path().join("image");
    let bytes: Vec<u8> = (0..8u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(&image, &bytes).expect("an image");
    let disk = folder.path().join("disk");
    fs::write(&disk, vec![0; bytes.len()]).expect("a disk");
    let disk = format!("file:{}", disk.display());
    for (far, near) in [("crc32c", "none"), ("none", "crc32c"), ("prefer", "prefer")] {
        let target = Target::serve_with(&["memory:8MiB", &disk], &["--digest", far]);
        for lun in [0, 1] {
            let url = target.url(lun);
            let copy = folder.path().join(format!("copy-{far}-{near}-{lun}"));
            run(farlun(["write", &url, "--digest", near, "-i"]).arg(&image), MINUTE).expect_code(0);
            run(farlun(["read", &url, "--digest", near, "-o"]).arg(&copy), MINUTE).expect_code(0);
            assert!(fs::read(&copy).expect("the copy") == bytes, "{far} and {near}, LUN {lun}");
        }
    }
}

#[test]
fn libiscsi_with_header_digests() {
    need!(skip::program("iscsi-perf"), skip::program("iscsi-inq"));
    // Debian's libiscsi has header digests only; the URL asks for them.
    let target = Target::serve(&["memory:64MiB"]);
    let url = format!("{}?header_digest=crc32c", target.url(0));
    output(Command::new("iscsi-inq").arg(&url));
    let mut load = Command::new("iscsi-perf");
    load.args(["-m", "32", "-b", "64", "-r", "-t", "1", "-x", "0", &url]);
    let finished = run(&mut load, MINUTE).expect_code(0);
    assert!(
        finished.stdout.contains("finished.") && !finished.stdout.contains("iops average 0 "),
        "{finished:#?}"
    );
}

#[test]
fn tgt_by_chap_and_with_digests() {
    need!(tgtd::available());
    let folder = tempfile::Builder::new().prefix("farlun-tgt-").tempdir().expect("a temporary folder");
    let disk = folder.path().join("disk");
    fs::File::create(&disk).and_then(|file| file.set_len(16 << 20)).expect("a disk");
    let tgtd = Tgtd::serve(&disk);
    let without = inquiry(&tgtd.url(1), &["--digest", "crc32c"], &[]).expect_code(1);
    without.expect_sentence(&["HeaderDigest=None"]);
    for key in ["HeaderDigest", "DataDigest"] {
        tgtd.set(key, "CRC32C");
    }
    inquiry(&tgtd.url(1), &["--digest", "crc32c"], &[]).expect_code(0);
    let image = folder.path().join("image");
    let bytes: Vec<u8> = (0..4u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(&image, &bytes).expect("an image");
    let copy = folder.path().join("copy");
    let url = tgtd.url(1);
    run(farlun(["write", &url, "--digest", "crc32c", "-i"]).arg(&image), MINUTE).expect_code(0);
    let part = ["--length", "4MiB", "--digest", "crc32c", "-o"];
    run(farlun(["read", &url]).args(part).arg(&copy), MINUTE).expect_code(0);
    assert!(fs::read(&copy).expect("the copy") == bytes, "the copy differs");

    tgtd.account("alice", "the-secret-of-alice", false);
    tgtd.account("disk", "the-secret-of-the-disk", true);
    inquiry(&url, &[], &[]).expect_code(3).expect_sentence(&["CHAP name and secret"]);
    let ours = with_user(&url, "alice%the-secret-of-alice");
    inquiry(&ours, &[], &[]).expect_code(0);
    let mutual = ["--chap-target-user", "disk"];
    inquiry(&ours, &mutual, &[("FARLUN_CHAP_TARGET_SECRET", "the-secret-of-the-disk")]).expect_code(0);
    let wrong = inquiry(&ours, &mutual, &[("FARLUN_CHAP_TARGET_SECRET", "not-what-the-disk-knows")]);
    wrong.expect_code(3).expect_sentence(&["could not prove itself"]);
    inquiry(&with_user(&url, "alice%the-secret-of-bob"), &[], &[]).expect_code(3);
}

/// A login request of an initiator with an ISID of its own choice.
fn login(isid: u8, iqn: &str, more: &str) -> Vec<u8> {
    let text =
        format!("InitiatorName=iqn.2026-11.org.example:twin\0TargetName={iqn}\0SessionType=Normal\0{more}");
    let mut bytes = vec![0; 48];
    bytes[..2].copy_from_slice(&[0x43, 0x87]);
    bytes[7] = text.len() as u8;
    bytes[8..14].copy_from_slice(&[0x80, 0, 0, 0, 0, isid]);
    bytes.extend_from_slice(text.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Logs in; the connection and the handle of the session.
fn log_in(target: &Target, isid: u8, more: &str) -> (TcpStream, u16) {
    let mut stream = TcpStream::connect(target.address()).expect("the target accepts");
    stream.set_read_timeout(Some(MINUTE)).expect("a timeout can be set");
    stream.write_all(&login(isid, target.iqn(), more)).expect("a login is taken");
    let mut header = [0; 48];
    stream.read_exact(&mut header).expect("an answer");
    assert_eq!((header[0], header[36], header[37]), (0x23, 0, 0), "a login response with success");
    let text_bytes = usize::from(header[7]).next_multiple_of(4);
    stream.read_exact(&mut vec![0; text_bytes]).expect("its text");
    (stream, u16::from_be_bytes([header[14], header[15]]))
}

#[test]
fn a_second_login_with_the_same_isid_ends_the_first_session() {
    let target = Target::serve(&["memory:1MiB"]);
    let log_in = |isid| log_in(&target, isid, "");
    let (mut first, first_tsih) = log_in(1);
    let (other, other_tsih) = log_in(2);
    let (again, again_tsih) = log_in(1);
    assert!(first_tsih != again_tsih && first_tsih != other_tsih && again_tsih != other_tsih);
    assert_eq!(first.read_to_end(&mut Vec::new()).expect("the end of the stream"), 0);
    for mut alive in [other, again] {
        // A NOP-Out that asks for an answer.
        let mut ping = [0; 48];
        (ping[0], ping[1], ping[19]) = (0x40, 0x80, 9);
        ping[20..24].fill(0xff);
        alive.write_all(&ping).expect("a ping is taken");
        let mut header = [0; 48];
        alive.read_exact(&mut header).expect("a pong");
        assert_eq!(header[0], 0x20);
    }
}

#[test]
fn a_target_rejects_damaged_data_and_leaves() {
    let target = Target::serve(&["memory:1MiB"]);
    let (mut stream, _) = log_in(&target, 1, "HeaderDigest=None\0DataDigest=CRC32C\0");
    // A NOP-Out with four bytes of data and a digest that is not theirs.
    let mut ping = [0; 56];
    (ping[0], ping[1], ping[7], ping[19]) = (0x40, 0x80, 4, 9);
    ping[20..24].fill(0xff);
    stream.write_all(&ping).expect("a ping is taken");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("the connection ends");
    assert_eq!(answer.len(), 48 + 48 + 4, "a Reject with the header, and its digest");
    assert_eq!((answer[0], answer[2], &answer[48..96]), (0x3f, 0x02, &ping[..48]));

    let (mut stream, _) = log_in(&target, 1, "HeaderDigest=CRC32C\0DataDigest=None\0");
    stream.write_all(&ping).expect("a ping is taken");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("the connection ends");
    assert!(answer.is_empty(), "nothing is said to a header that cannot be believed");
}

#[test]
fn an_initiator_ends_a_session_with_damaged_data() {
    let target = Target::serve(&["memory:64MiB"]);
    let folder = tempfile::Builder::new().prefix("farlun-digest-").tempdir().expect("a temporary folder");
    let copy = folder.path().join("copy");
    let relay = Relay::damaging(target.address(), 8 << 20);
    let url = target.url_at(&relay.address(), 0);
    let read = run(farlun(["read", &url, "--digest", "crc32c", "-o"]).arg(&copy), MINUTE);
    read.expect_code(1).expect_sentence(&["damaged on its way"]);
    assert!(!copy.exists(), "a partial file has the name of a whole one");
}

/// open-iscsi ends a discovery so. Of a session with LUNs it is told.
#[test]
fn a_discovery_that_ends_with_a_reset_is_no_line_of_the_log() {
    let mut target = Target::serve(&["memory:1MiB"]);
    let reset = |session: &str| {
        let text = format!("InitiatorName=iqn.2026-11.org.example:{session}\0SessionType={session}\0");
        let target_name = format!("TargetName={}\0", target.iqn());
        let text = if session == "Normal" { text + &target_name } else { text };
        let mut bytes = login(3, target.iqn(), "");
        bytes.truncate(48);
        bytes[7] = text.len() as u8;
        bytes.extend_from_slice(text.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        let mut stream = TcpStream::connect(target.address()).expect("the target accepts");
        stream.write_all(&bytes).expect("a login is taken");
        let mut header = [0; 48];
        stream.read_exact(&mut header).expect("an answer");
        assert_eq!((header[0], header[36], header[37]), (0x23, 0, 0), "a login response with success");
        net::tcp::abandon_on_close(&stream, true).expect("a socket option");
    };
    reset("Discovery");
    reset("Normal");
    e2e::until("the second is told", MINUTE, || target.service.stderr().contains("example:Normal"));
    target.service.terminate();
    let said = target.service.stderr();
    assert!(said.contains("reset") && !said.contains("example:Discovery"), "{said}");
}
