//! Portals that name a target and will not let us in.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};

use e2e::{Finished, farlun, run};
use serde_json::{Value, json};
use wire::iscsi::{LoginResponse, Pdu, login_status};

use super::LIMIT;
use crate::peers::fake_target::{DISK_BYTES, FakeTarget, IQN, Link, Verdict, accept};
use crate::peers::pdu;

/// `farlun ls` of a portal that says a target is at `address`, and refuses a session with it.
fn list(address: SocketAddr, status: (u8, u8)) -> Finished {
    let portal = FakeTarget::start(move |listener| {
        let mut link = Link::log_in(accept(listener), &[]);
        link.serve(|link, request| match request {
            Pdu::TextRequest(request) => {
                let text = format!("TargetName={IQN}\0TargetAddress={address},1\0");
                link.answer_text(request, text.as_bytes());
                Verdict::Taken
            }
            _ => Verdict::Serve,
        });
        refuse(accept(listener), status);
    });
    let url = format!("iscsi://{}", portal.address);
    let finished = run(&mut farlun(["ls", &url, "--timeout", "5s", "--json"]), LIMIT);
    portal.join();
    finished
}

fn refuse(stream: TcpStream, (status_class, status_detail): (u8, u8)) {
    let mut stream = pdu::patient(stream);
    let request = pdu::read(&mut stream).expect("a login request").expect("a login request").0;
    let Pdu::LoginRequest(request) = request else { panic!("no login: {request:?}") };
    let response = LoginResponse {
        transit: false,
        is_continued: false,
        csg: request.csg,
        nsg: 0,
        version_max: 0,
        version_active: 0,
        data_segment_len: 0,
        isid: request.isid,
        tsih: 0,
        itt: request.itt,
        stat_sn: 0,
        exp_cmd_sn: request.cmd_sn,
        max_cmd_sn: request.cmd_sn,
        status_class,
        status_detail,
    };
    stream.write_all(&pdu::bytes(response, &[])).expect("the initiator reads");
}

#[test]
fn a_target_is_listed_where_it_is() {
    let target = FakeTarget::serve_one(|_, _| Verdict::Serve);
    let listed = list(target.address, login_status::NOT_FOUND).expect_code(0).json();
    let found = &listed["targets"][0];
    let expected = json!([{
        "lun": 0,
        "bytes": DISK_BYTES,
        "kind": "disk",
        "write_protected": false,
        "url": target.url(),
    }]);
    assert_eq!((&found["luns"], &found["error"]), (&expected, &Value::Null), "{listed}");
    target.join();
}

#[test]
fn nobody_who_is_not_let_in_knocks_elsewhere() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    let listed = list(address, login_status::AUTHENTICATION_FAILURE).expect_code(3).json();
    let error = listed["targets"][0]["error"].as_str().expect("why");
    assert!(error.contains("CHAP"), "{listed}");
    listener.set_nonblocking(true).expect("a socket option");
    assert!(listener.accept().is_err(), "somebody has come");
}

#[test]
fn an_address_that_cannot_be_read_hides_no_target() {
    let portal = FakeTarget::start(move |listener| {
        let mut link = Link::log_in(accept(listener), &[]);
        link.serve(|link, request| match request {
            Pdu::TextRequest(request) => {
                let text = format!(
                    "TargetName={IQN}\0TargetAddress=[fe80::x]:1,1\0TargetAddress=192.0.2.1:3260,1\0"
                );
                link.answer_text(request, text.as_bytes());
                Verdict::Taken
            }
            _ => Verdict::Serve,
        });
        refuse(accept(listener), login_status::AUTHENTICATION_FAILURE);
    });
    let url = format!("iscsi://{}", portal.address);
    let listed = run(&mut farlun(["ls", &url, "--timeout", "5s", "--json"]), LIMIT).expect_code(3);
    assert_eq!(listed.json()["targets"][0]["addresses"], json!(["192.0.2.1:3260,1"]), "{listed:#?}");
    assert!(listed.stderr.contains("[fe80::x]:1,1"), "{listed:#?}");
    portal.join();
}
