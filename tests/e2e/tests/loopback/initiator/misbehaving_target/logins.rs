//! Targets that refuse a login: over CHAP's algorithms, over discovery with CHAP, over the initiator's name.

use std::io::Write;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::process::Command;

use e2e::{Finished, farlun, run};
use proto::login::{Algorithm, ChapTarget, Credentials, LoginPolicy, Secret};
use wire::iscsi::{LoginRequest, LoginResponse, Pdu, login_status};

use super::LIMIT;
use crate::peers::fake_target::{DISK_BYTES, FakeTarget, IQN, Link, Verdict, accept};
use crate::peers::pdu;

const SECRET: &str = "the-secret-of-alice";

/// A connection in the security stage.
struct Talk {
    stream: TcpStream,
    request: LoginRequest,
}

impl Talk {
    /// Takes the first request; its text.
    fn begin(listener: &TcpListener) -> (Talk, String) {
        let mut stream = pdu::patient(accept(listener));
        let (request, text) = request(&mut stream);
        (Talk { stream, request }, text)
    }

    /// Answers with `text` and takes the next request; its text.
    fn go_on(&mut self, text: &str) -> String {
        self.answer((0, 0), text);
        let (request, text) = request(&mut self.stream);
        self.request = request;
        text
    }

    fn refuse(mut self, status: (u8, u8)) {
        self.answer(status, "");
    }

    fn answer(&mut self, (status_class, status_detail): (u8, u8), text: &str) {
        let LoginRequest { csg, isid, itt, cmd_sn, .. } = self.request;
        let response = LoginResponse {
            transit: false,
            is_continued: false,
            csg,
            nsg: 0,
            version_max: 0,
            version_active: 0,
            data_segment_len: 0,
            isid,
            tsih: 0,
            itt,
            stat_sn: 0,
            exp_cmd_sn: cmd_sn,
            max_cmd_sn: cmd_sn,
            status_class,
            status_detail,
        };
        self.stream.write_all(&pdu::bytes(response, text.as_bytes())).expect("the initiator reads");
    }
}

fn request(stream: &mut TcpStream) -> (LoginRequest, String) {
    let (request, text) = pdu::read(stream).expect("a login request").expect("a login request");
    let Pdu::LoginRequest(request) = request else { panic!("no login: {request:?}") };
    (request, String::from_utf8(text).expect("text"))
}

/// Takes a login by CHAP with MD5; every text of it.
fn log_in_by_md5(listener: &TcpListener) -> (Link, Vec<String>) {
    let alice = Credentials::new("alice", Secret::new(SECRET.as_bytes()), false).expect("a long secret");
    let chap = ChapTarget::new(vec![alice], None).expect("one user").with_algorithms(&[Algorithm::Md5]);
    let policy = LoginPolicy { private_key: false, chap: Some(chap), ..LoginPolicy::default() };
    Link::log_in_with(accept(listener), policy)
}

fn with_alice(url: &str) -> String {
    url.replace("iscsi://", &format!("iscsi://alice%{SECRET}@"))
}

/// Refuses at once what is not MD5 alone.
fn refuse_the_choice(listener: &TcpListener) -> String {
    let (mut talk, text) = Talk::begin(listener);
    assert!(text.contains("AuthMethod=CHAP"), "{text}");
    let offer = talk.go_on("AuthMethod=CHAP\0");
    talk.refuse(login_status::AUTHENTICATION_FAILURE);
    offer
}

#[test]
fn a_target_that_takes_md5_alone_is_offered_that() {
    let fake = FakeTarget::start(|listener| {
        assert_eq!(refuse_the_choice(listener), "CHAP_A=8,7,6,5\0");
        let (mut link, texts) = log_in_by_md5(listener);
        assert!(texts.iter().any(|text| text == "CHAP_A=5\0"), "{texts:?}");
        link.serve(|_, _| Verdict::Serve);
    });
    run(&mut farlun(["inquiry", &with_alice(&fake.url())]), LIMIT).expect_code(0);
    fake.join();
}

#[test]
fn a_secret_is_not_blamed_for_algorithms() {
    let fake = FakeTarget::start(|listener| {
        let offers = [refuse_the_choice(listener), refuse_the_choice(listener)];
        listener.set_nonblocking(true).expect("a socket option");
        assert!(listener.accept().is_err(), "there was nothing left to try");
        offers
    });
    let strong = ["--chap-algorithms", "sha256,sha3-256"];
    let said = run(farlun(["inquiry", &with_alice(&fake.url())]).args(strong), LIMIT).expect_code(3);
    let words =
        "it refused CHAP_A=7,8 (--chap-algorithms sha256,sha3-256) before it saw a CHAP name or secret";
    assert!(said.stderr.contains(words), "{said:#?}");
    let single = ["--chap-algorithms", "md5"];
    let said = run(farlun(["inquiry", &with_alice(&fake.url())]).args(single), LIMIT).expect_code(3);
    said.expect_said("it refused CHAP_A=5 (--chap-algorithms md5) before it saw a CHAP name or secret");
    assert_eq!(fake.join(), ["CHAP_A=7,8\0", "CHAP_A=5\0"]);
}

/// A portal as LIO's default is: it checks sessions by CHAP, and has nothing to check discovery with.
#[test]
fn discovery_that_refuses_chap_is_tried_without() {
    let fake = FakeTarget::start(|listener| {
        let (mut talk, text) = Talk::begin(listener);
        assert!(text.contains("SessionType=Discovery") && text.contains("AuthMethod=CHAP,None"), "{text}");
        let offer = talk.go_on("AuthMethod=CHAP\0");
        assert!(offer.starts_with("CHAP_A="), "{offer}");
        let answer = talk.go_on("CHAP_A=5\0CHAP_I=1\0CHAP_C=0x00112233445566778899aabbccddeeff\0");
        assert!(answer.starts_with("CHAP_N=alice\0"), "{answer}");
        talk.refuse(login_status::AUTHENTICATION_FAILURE);
        let open = LoginPolicy { private_key: false, ..LoginPolicy::default() };
        let (mut link, texts) = Link::log_in_with(accept(listener), open);
        assert!(texts[0].contains("AuthMethod=None\0"), "{texts:?}");
        link.serve(|link, request| match request {
            Pdu::TextRequest(request) => {
                link.answer_text(request, format!("TargetName={IQN}\0").as_bytes());
                Verdict::Taken
            }
            _ => Verdict::Serve,
        });
        log_in_by_md5(listener).0.serve(|_, _| Verdict::Serve);
    });
    let portal = with_alice(&format!("iscsi://{}", fake.address));
    let listed = run(&mut farlun(["ls", &portal, "--json"]), LIMIT).expect_code(0);
    assert_eq!(listed.json()["targets"][0]["luns"][0]["bytes"], DISK_BYTES, "{listed:#?}");
    for words in ["discovery at the target does not take", "discovery is tried without CHAP"] {
        assert!(listed.stderr.contains(words), "{words}: {listed:#?}");
    }
    fake.join();
}

#[test]
fn discovery_that_refuses_chap_and_wants_it_says_so_once() {
    let fake = FakeTarget::start(|listener| {
        for method in ["AuthMethod=CHAP,None\0", "AuthMethod=None\0"] {
            let (talk, text) = Talk::begin(listener);
            assert!(text.contains(method), "{text}");
            talk.refuse(login_status::AUTHENTICATION_FAILURE);
        }
    });
    let portal = with_alice(&format!("iscsi://{}", fake.address));
    let said = run(&mut farlun(["ls", &portal]), LIMIT).expect_code(3);
    assert!(said.stderr.contains("discovery at the target refused AuthMethod=CHAP before"), "{said:#?}");
    assert!(!said.stderr.contains("wants a CHAP name"), "it was given one: {said:#?}");
    fake.join();
}

/// LIO whose discovery wants names of its own.
#[test]
fn discovery_that_refuses_chap_and_hangs_up_without_tells_the_refusal() {
    let fake = FakeTarget::start(|listener| {
        let (mut talk, _) = Talk::begin(listener);
        talk.go_on("AuthMethod=CHAP\0");
        talk.go_on("CHAP_A=5\0CHAP_I=1\0CHAP_C=0x00112233445566778899aabbccddeeff\0");
        talk.refuse(login_status::AUTHENTICATION_FAILURE);
        let (_, text) = Talk::begin(listener);
        assert!(text.contains("AuthMethod=None\0"), "{text}");
    });
    let portal = with_alice(&format!("iscsi://{}", fake.address));
    let said = run(&mut farlun(["ls", &portal]), LIMIT).expect_code(3);
    let words = "discovery at the target does not take this CHAP name with this secret";
    assert_eq!(
        said.stderr.matches(words).count(),
        2,
        "in the line about the next try and at the end: {said:#?}"
    );
    fake.join();
}

/// Runs a command at a target that admits nobody; the initiator's name and address as the target saw them.
fn turned_away(command: impl FnOnce(&str) -> Command) -> (Finished, String, IpAddr) {
    let fake = FakeTarget::start(|listener| {
        let (talk, text) = Talk::begin(listener);
        let address = talk.stream.peer_addr().expect("it is connected").ip();
        talk.refuse(login_status::AUTHORIZATION_FAILURE);
        (text, address)
    });
    let finished = run(&mut command(&fake.url()), LIMIT).expect_code(3);
    let (text, address) = fake.join();
    let name = text.split('\0').find_map(|pair| pair.strip_prefix("InitiatorName="));
    (finished, name.expect("a name").to_owned(), address)
}

#[test]
fn every_command_has_the_name_and_the_source_that_it_is_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, [0; 512]).expect("a file");
    let (file, copy) = (file.display().to_string(), folder.path().join("copy").display().to_string());
    let name = "iqn.2026-11.org.example:me";
    for words in
        [&["ls"][..], &["inquiry"], &["bench"], &["doctor"], &["read", "-o", &copy], &["write", "-i", &file]]
    {
        let command = |url: &str| {
            let mut command = farlun(words);
            command.args([url, "--initiator-name", name, "--bind", "127.0.0.7"]);
            command
        };
        let (finished, seen, address) = turned_away(command);
        assert_eq!((seen.as_str(), address), (name, IpAddr::from([127, 0, 0, 7])), "{words:?}");
        if words[0] != "ls" {
            let said = format!("does not admit {name}; the name is that of --initiator-name");
            finished.expect_said(&said);
        }
    }
}

#[test]
fn a_refusal_by_name_says_where_the_name_came_from() {
    let (finished, seen, _) = turned_away(|url| farlun(["inquiry", url]));
    let is_named = std::path::Path::new("/etc/iscsi/initiatorname.iscsi").exists();
    let origin = if is_named { "that of /etc/iscsi" } else { "made from this host's" };
    assert!(finished.stderr.contains(&format!("does not admit {seen}; the name was ")) || is_named);
    assert!(
        finished.stderr.contains(origin) && finished.stderr.contains("--initiator-name"),
        "{finished:#?}"
    );
}

#[test]
fn names_and_sources_that_cannot_be_are_bad_usage() {
    for (flags, said) in [
        (["--initiator-name", "me"], "'me' is no iSCSI name"),
        (["--bind", "203.0.113.1"], "203.0.113.1: "),
        (["--bind", "farlun-none"], "neither an address nor a device"),
        (["--chap-algorithms", "md5,md4"], "expected some of sha3-256,sha256,sha1,md5"),
    ] {
        run(farlun(["inquiry", "iscsi://127.0.0.1:1/x/0"]).args(flags), LIMIT)
            .expect_code(2)
            .expect_said(said);
    }
    // An address of one family reaches none of the other.
    let url = "iscsi://127.0.0.1:1/iqn.2026-11.org.example:x/0";
    let said = run(&mut farlun(["inquiry", url, "--bind", "::1"]), LIMIT).expect_code(1);
    said.expect_sentence(&["from ::1: 127.0.0.1 is an address of the other family"]);
}
