//! Every status, every violation, every limit.

use super::*;
use crate::params::Digest;

#[test]
fn every_refusal_has_its_status() {
    let me = "InitiatorName=iqn.a";
    let disk = "TargetName=iqn.2026-11.io.farlun:disk";
    let long = format!("{me}{}", "x".repeat(224));
    #[rustfmt::skip]
    let table: &[(u8, &[&str], (u8, u8))] = &[
        (0x87, &[disk], login_status::MISSING_PARAMETER),
        (0x87, &["InitiatorName=", disk], login_status::MISSING_PARAMETER),
        (0x87, &[me], login_status::MISSING_PARAMETER),
        (0x87, &[me, "SessionType=Tea", disk], login_status::SESSION_TYPE_NOT_SUPPORTED),
        (0x87, &[me, "TargetName=iqn.other"], login_status::NOT_FOUND),
        (0x87, &[me, "TargetName=iqn.2026-11.io.farlun:private"], login_status::AUTHORIZATION_FAILURE),
        (0x81, &[me, disk, "AuthMethod=CHAP"], login_status::AUTHENTICATION_FAILURE),
        (0x81, &[me, disk, "CHAP_A=5"], login_status::AUTHENTICATION_FAILURE),
        (0x81, &[me, disk, "MaxBurstLength=512"], login_status::INITIATOR_ERROR),
        (0x81, &[me, disk, "AuthMethod=None", "AuthMethod=None"], login_status::INITIATOR_ERROR),
        (0x87, &[me, me, disk], login_status::INITIATOR_ERROR),
        (0x87, &[long.as_str(), disk], login_status::INITIATOR_ERROR),
        (0x87, &[me, disk, "MaxBurstLength=512", "MaxBurstLength=512"], login_status::INITIATOR_ERROR),
        (0x87, &[me, disk, "MaxBurstLength=Irrelevant"], login_status::INITIATOR_ERROR),
        (0x87, &[me, disk, "MaxRecvDataSegmentLength=1"], login_status::INITIATOR_ERROR),
        (0x87, &[me, disk, "no equals sign"], login_status::INITIATOR_ERROR),
        (0xc7, &[me, disk], login_status::INITIATOR_ERROR),
        (0x85, &[me, disk], login_status::INITIATOR_ERROR),
        (0x86, &[me, disk], login_status::INITIATOR_ERROR),
        (0x8b, &[me, disk], login_status::INITIATOR_ERROR),
        (0x0f, &[me, disk], login_status::INITIATOR_ERROR),
    ];
    for (flags, lines, status) in table {
        let (target, response, _) = ask(*flags, lines);
        assert_eq!((response.status_class, response.status_detail), *status, "{flags:#x} {lines:?}");
        assert!(target.is_closed() && target.outcome().is_none() && !response.transit);
        assert_eq!(response.itt, 0x55);
    }
}

#[test]
fn refusals_that_need_more_than_text() {
    let lines = text(&["InitiatorName=iqn.a", "TargetName=iqn.2026-11.io.farlun:disk"]);
    let status = |request: LoginRequest, full: bool| {
        let mut target = Target::new(LoginPolicy::default());
        let error = target.handle_request(&request, &lines, &mut OneTarget { assigned: 0, full });
        assert!(matches!(error, Err(LoginError::Refused { .. })) && target.is_closed());
        let (response, _) = target.poll_transmit().unwrap();
        (response.status_class, response.status_detail)
    };
    let good = request(0x87);
    assert_eq!(status(LoginRequest { version_min: 1, ..good }, false), login_status::UNSUPPORTED_VERSION);
    assert_eq!(status(LoginRequest { tsih: 8, ..good }, false), login_status::SESSION_DOES_NOT_EXIST);
    assert_eq!(status(LoginRequest { tsih: 7, ..good }, false), login_status::TOO_MANY_CONNECTIONS);
    assert_eq!(status(good, true), login_status::OUT_OF_RESOURCES);
}

#[test]
fn a_connection_joins_with_what_is_its_own() {
    let lines = text(&[
        "InitiatorName=iqn.a",
        "TargetName=iqn.2026-11.io.farlun:disk",
        "MaxRecvDataSegmentLength=1024",
        "HeaderDigest=CRC32C",
        "FirstBurstLength=65536",
        "MaxConnections=8",
    ]);
    let mut target = Target::new(LoginPolicy::default());
    let joining = LoginRequest { tsih: 9, cid: 3, cmd_sn: 500, ..request(0x87) };
    target.handle_request(&joining, &lines, &mut directory()).unwrap();
    let (response, answer) = target.poll_transmit().unwrap();
    assert_eq!((response.status_class, response.tsih, response.transit), (0, 9, true));
    assert_eq!((response.exp_cmd_sn, response.max_cmd_sn), (500, 520), "the window of the session");
    let answer = String::from_utf8(answer).unwrap();
    for expected in ["HeaderDigest=CRC32C", "FirstBurstLength=Reject", "MaxConnections=Reject"] {
        assert!(answer.split('\0').any(|pair| pair == expected), "{answer:?}");
    }
    let admitted = target.outcome().unwrap();
    assert!(admitted.joins && admitted.tsih == 9 && admitted.candidate.cid == 3);
    let params = &admitted.params;
    assert_eq!((params.header_digest, params.peer_max_recv_data_segment_len), (Digest::Crc32c, 1024));
    assert_eq!((params.first_burst_len, params.max_connections), (512, 4), "as the session has it");
}

#[test]
fn fields_and_stages_must_not_change_between_requests() {
    let lines = text(&["InitiatorName=iqn.a", "TargetName=iqn.2026-11.io.farlun:disk"]);
    let stay = request(0x04);
    for second in [
        LoginRequest { cid: 5, ..stay },
        LoginRequest { tsih: 5, ..stay },
        LoginRequest { isid: [1; 6], ..stay },
        LoginRequest { csg: 0, ..stay },
    ] {
        let mut target = Target::new(LoginPolicy::default());
        target.handle_request(&stay, &lines, &mut directory()).unwrap();
        assert!(!target.poll_transmit().unwrap().0.transit);
        assert!(target.handle_request(&second, &[], &mut directory()).is_err(), "{second:?}");
        let (response, _) = target.poll_transmit().unwrap();
        assert_eq!((response.status_class, response.status_detail), login_status::INITIATOR_ERROR);
    }
}

#[test]
fn another_pdu_during_the_login() {
    let mut target = Target::new(LoginPolicy::default());
    target.handle_other(1);
    assert!(target.is_closed() && target.poll_transmit().is_none());

    let mut target = Target::new(LoginPolicy::default());
    target.handle_request(&request(0x44), b"Initiator", &mut directory()).unwrap();
    target.poll_transmit().unwrap();
    target.handle_other(0x77);
    let (response, _) = target.poll_transmit().unwrap();
    assert_eq!((response.status_class, response.status_detail), login_status::INVALID_DURING_LOGIN);
    assert!(target.is_closed() && response.itt == 0x77);
}

#[test]
fn too_much_of_everything_ends_the_login() {
    let mut target = Target::new(LoginPolicy::default());
    let mut directory = directory();
    let mut sent = 0;
    while !target.is_closed() {
        let _ = target.handle_request(&request(0x44), &[b'a'; SEGMENT_BYTES], &mut directory);
        sent += 1;
    }
    assert_eq!(sent, TEXT_BYTES / SEGMENT_BYTES + 1);

    let mut target = Target::new(LoginPolicy::default());
    let mut rounds = 0;
    while !target.is_closed() {
        let lines = text(&["InitiatorName=iqn.a", "TargetName=iqn.2026-11.io.farlun:disk"]);
        let data = if rounds == 0 { lines } else { Vec::new() };
        let _ = target.handle_request(&request(0x04), &data, &mut directory);
        rounds += 1;
    }
    assert_eq!(rounds, ROUNDS + 1);

    let mut initiator = Initiator::new(normal());
    let mut rounds = 0;
    while initiator.handle_response(&response(0x04), &[]).is_ok() {
        rounds += 1;
    }
    assert_eq!(rounds, ROUNDS);
    assert!(initiator.outcome().is_none());
}

#[test]
fn what_the_initiator_does_not_take() {
    let class = |status_class, status_detail| LoginResponse { status_class, status_detail, ..response(0) };
    let refused = |class, detail, reason: &str| LoginError::Refused {
        status: Status { class, detail },
        reason: reason.to_owned(),
    };
    let address = "[2001:db8::7]:3261".parse().unwrap();
    let answer = |offered: &str, value: &str| {
        let (key, offered, value) = ("MaxBurstLength", offered.to_owned(), value.to_owned());
        LoginError::Protocol(Violation::Answer { key, offered, value })
    };
    let field = |field, found, expected| LoginError::Protocol(Violation::Field { field, found, expected });
    let both = LoginError::Protocol(Violation::Flags("a response with both C and T"));
    #[rustfmt::skip]
    let table: Vec<(LoginResponse, &[u8], LoginError)> = vec![
        (class(2, 1), b"", refused(2, 1, "the target wants a CHAP name and secret, as in iscsi://NAME%SECRET@HOST")),
        (class(2, 3), b"", refused(2, 3, "iqn.2026-11.io.farlun:disk is not there, `farlun ls` shows what is")),
        (class(3, 2), b"", refused(3, 2, "")),
        (class(9, 9), b"\xff\xff", refused(9, 9, "")),
        (class(1, 1), b"TargetAddress=[2001:db8::7]:3261\0", LoginError::Redirected { address, permanent: false }),
        (class(1, 2), b"TargetAddress=[\0", Violation::Redirection.into()),
        (class(1, 2), b"", Violation::Redirection.into()),
        (response(0x83), b"", field("CSG", 0, 1)),
        (response(0x86), b"", field("NSG", 2, 3)),
        (response(0xc7), b"", both),
        (LoginResponse { version_active: 1, ..response(0x87) }, b"", field("Version-active", 1, 0)),
        (response(0x87), b"MaxBurstLength=16777215\0", answer("16773120", "16777215")),
        (response(0x87), b"MaxBurstLength=512\0MaxBurstLength=512\0", Violation::Twice("MaxBurstLength").into()),
        (response(0x87), b"MaxBurstLength=512\0FirstBurstLength=1024\0", Violation::Bursts { first: 1024, max: 512 }.into()),
        (response(0x87), b"TaskReporting=FastAbort,RFC3720\0", Violation::LateOffer.into()),
    ];
    for (response, data, expected) in table {
        let mut initiator = Initiator::new(normal());
        assert_eq!(initiator.handle_response(&response, data), Err(expected), "{response:?}");
        assert!(initiator.outcome().is_none());
        assert_eq!(initiator.handle_response(&response, data), Err(Violation::AfterEnd.into()));
    }
}

#[test]
fn errors_say_what_was_found() {
    let refused = LoginError::Refused {
        status: Status::new(login_status::NOT_FOUND),
        reason: "iqn.a is not there".to_owned(),
    };
    assert_eq!(refused.to_string(), "login refused: target not found (0x0203): iqn.a is not there");
    let bare = LoginError::Refused { status: Status { class: 3, detail: 1 }, reason: String::new() };
    assert_eq!(bare.to_string(), "login refused: service unavailable (0x0301)");
}
