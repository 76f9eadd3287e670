//! CHAP: both sides with each other for every algorithm, the texts of libiscsi and tgt, and every way to cheat.

use super::super::chap;
use super::*;

const RANDOM: [u8; RANDOM_BYTES] = *b"0123456789abcdefg";

fn credentials(name: &str, secret: &str) -> Credentials {
    Credentials::new(name, Secret::new(secret.as_bytes()), false).unwrap()
}

fn alice() -> Credentials {
    credentials("alice", "alice's secret")
}

fn disk() -> Credentials {
    credentials("disk", "the disk's secret")
}

fn target_with(chap: ChapTarget) -> Target {
    Target::new(LoginPolicy { chap: Some(chap), ..LoginPolicy::default() })
}

fn target() -> Target {
    target_with(ChapTarget::new(vec![credentials("bob", "secret of bob"), alice()], Some(disk())).unwrap())
}

fn initiator_with(chap: ChapInitiator, session: Session) -> Initiator {
    let security = Security::Chap(Box::new(chap));
    Initiator::with_random(Request { security, session, ..normal() }, RANDOM)
}

fn initiator(ours: Credentials, theirs: Option<Credentials>) -> Initiator {
    initiator_with(ChapInitiator::new(ours, theirs).unwrap(), normal().session)
}

/// Status and reason of a failed login.
fn refusal(result: Result<u32, LoginError>) -> (u8, u8, String) {
    match result.unwrap_err() {
        LoginError::Refused { status, reason } => (status.class, status.detail, reason),
        other => panic!("{other}"),
    }
}

#[test]
fn both_sides_with_every_algorithm() {
    for algorithm in Algorithm::STRONGEST_FIRST {
        let only = std::slice::from_ref(algorithm);
        for theirs in [None, Some(disk())] {
            let chap =
                ChapInitiator { algorithms: only.to_vec(), ..ChapInitiator::new(alice(), theirs).unwrap() };
            for session in [normal().session, Session::Discovery] {
                let mut initiator = initiator_with(chap.clone(), session);
                let mut target = target();
                assert_eq!(run(&mut initiator, &mut target), Ok(4), "{algorithm:?}");
                assert!(initiator.outcome().is_some() && target.outcome().is_some());
            }
        }
    }
}

#[test]
fn the_strongest_algorithm_that_the_target_allows() {
    let said = |target: &mut Target, offer: &str| {
        let mut directory = directory();
        let lines = ["InitiatorName=iqn.a", &format!("TargetName={TARGET}"), "AuthMethod=CHAP"];
        target.handle_request(&request(0x01), &text(&lines), &mut directory).unwrap();
        let (response, data) = target.poll_transmit().unwrap();
        assert!(!response.transit && keys(&data).contains(&"AuthMethod=CHAP".to_owned()));
        target.handle_request(&request(0x01), &text(&[offer]), &mut directory).map_err(|e| e.to_string())?;
        Ok::<_, String>(keys(&target.poll_transmit().unwrap().1)[0].clone())
    };
    assert_eq!(said(&mut target(), "CHAP_A=5,6,7,8").as_deref(), Ok("CHAP_A=8"));
    assert_eq!(said(&mut target(), "CHAP_A=5,0x7").as_deref(), Ok("CHAP_A=7"));
    assert_eq!(said(&mut target(), "CHAP_A=5").as_deref(), Ok("CHAP_A=5"));
    assert!(said(&mut target(), "CHAP_A=9,x,").unwrap_err().contains("authentication failure"));
    let chap = ChapTarget::new(vec![alice()], None).unwrap();
    let strict = chap.with_algorithms(&[Algorithm::Sha256]);
    assert!(said(&mut target_with(strict.clone()), "CHAP_A=5,6,8").is_err());
    assert_eq!(said(&mut target_with(strict), "CHAP_A=8,7").as_deref(), Ok("CHAP_A=7"));
}

#[test]
fn a_user_is_the_initiator_that_it_is_bound_to() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let log_in = |bound: &[&str]| {
        let chap = ChapTarget::new(vec![credentials("bob", "secret of bob"), alice()], None).unwrap();
        let bound = [("alice".to_owned(), names(bound)), ("bob".to_owned(), names(&[INITIATOR]))];
        let mut target = target_with(chap.with_initiators(bound.into()));
        let result = run(&mut initiator(alice(), None), &mut target);
        result.map(|_| target.outcome().unwrap().candidate.proof.clone())
    };
    assert_eq!(log_in(&["iqn.other", &INITIATOR.to_uppercase()]), Ok(Proof::User("alice".to_owned())));
    let refused = log_in(&["iqn.other"]).map(|_| 0);
    assert_eq!(refusal(refused).1, 2, "authorization failure");
    // Without a binding any initiator name is allowed.
    let mut target = target();
    run(&mut initiator(alice(), None), &mut target).unwrap();
    assert_eq!(target.outcome().unwrap().candidate.proof, Proof::User("alice".to_owned()));
    let mut open = Target::new(LoginPolicy::default());
    run(&mut Initiator::new(normal()), &mut open).unwrap();
    assert_eq!(open.outcome().unwrap().candidate.proof, Proof::NotNeeded);
}

#[test]
fn wrong_names_and_secrets_look_the_same() {
    let mut answers = Vec::new();
    for ours in [credentials("alice", "another secret"), credentials("nobody", "alice's secret")] {
        let (mut initiator, mut target) = (initiator(ours, None), target());
        let mut directory = directory();
        let mut last = None;
        while let Some((request, data)) = initiator.poll_transmit() {
            let _ = target.handle_request(&request, &data, &mut directory);
            last = target.poll_transmit();
            let (response, data) = last.as_ref().unwrap();
            if initiator.handle_response(response, data).is_err() {
                break;
            }
        }
        assert!(target.is_closed() && target.outcome().is_none());
        answers.push(last.unwrap());
    }
    assert_eq!((answers[0].0.status_class, answers[0].0.status_detail), (2, 1));
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn a_target_that_is_another_one_is_left() {
    for theirs in [credentials("disk", "not its secret"), credentials("tape", "the disk's secret")] {
        let mut initiator = initiator(alice(), Some(theirs));
        let (class, detail, reason) = refusal(run(&mut initiator, &mut target()));
        assert_eq!((class, detail), (2, 1));
        assert!(reason.contains("could not prove itself"), "{reason}");
        assert!(initiator.outcome().is_none());
    }
    // A target without credentials of its own refuses mutual CHAP.
    let mut silent = target_with(ChapTarget::new(vec![alice()], None).unwrap());
    let (class, detail, _) = refusal(run(&mut initiator(alice(), Some(disk())), &mut silent));
    assert_eq!((class, detail), (2, 1));
}

#[test]
fn nobody_passes_without_proof() {
    for security in [Security::Skip, Security::OfferNone] {
        let mut initiator = Initiator::new(Request { security, ..normal() });
        let (class, detail, reason) = refusal(run(&mut initiator, &mut target()));
        assert_eq!((class, detail), (2, 1));
        assert!(reason.contains("wants a CHAP name"), "{reason}");
    }
    let base = ["InitiatorName=iqn.a", &format!("TargetName={TARGET}")];
    for more in [&["AuthMethod=None"][..], &[], &["CHAP_A=5"], &["AuthMethod=CHAP", "CHAP_N=alice"]] {
        for flags in [0x81, 0x83] {
            let mut target = target();
            let lines = [&base[..], more].concat();
            let refused = target.handle_request(&request(flags), &text(&lines), &mut directory());
            assert!(refused.unwrap_err().to_string().contains("(0x0201)"), "{more:?}");
            assert!(target.outcome().is_none());
        }
    }
    // The stage ends when authentication is complete, however often the initiator asks for the next one.
    let mut target = target();
    let mut directory = directory();
    let lines = [&base[..], &["AuthMethod=CHAP"]].concat();
    target.handle_request(&request(0x87 & !0x04), &text(&lines), &mut directory).unwrap();
    assert!(!target.poll_transmit().unwrap().0.transit);
    target.handle_request(&request(0x83), &text(&["CHAP_A=7"]), &mut directory).unwrap();
    assert!(!target.poll_transmit().unwrap().0.transit);
    target.handle_request(&request(0x83), &[], &mut directory).unwrap();
    assert!(!target.poll_transmit().unwrap().0.transit && target.outcome().is_none());
    let error = target.handle_request(&request(0x87), &[], &mut directory).unwrap_err();
    assert!(error.to_string().contains("CSG"), "{error}");
}

#[test]
fn a_target_cannot_talk_us_out_of_it() {
    // Answers of a target that skips authentication: the method, and the stage.
    for (flags, lines) in [
        (0x81, &["AuthMethod=None"][..]),
        (0x01, &["AuthMethod=None"]),
        (0x81, &["AuthMethod=CHAP"]),
        (0x81, &[]),
        (0x81, &["AuthMethod=Reject"]),
    ] {
        for theirs in [None, Some(disk())] {
            let mut initiator = initiator(alice(), theirs);
            let (request, data) = initiator.poll_transmit().unwrap();
            assert!(!request.transit && keys(&data).contains(&"AuthMethod=CHAP".to_owned()));
            let refused = initiator.handle_response(&response(flags), &text(lines));
            assert!(refused.unwrap_err().to_string().contains("(0x0201)"), "{lines:?}");
        }
    }
    // A mutual exchange that ends before the target's part, and algorithms that were not offered.
    let mut mutual = initiator(alice(), Some(disk()));
    mutual.handle_response(&response(0x01), b"AuthMethod=CHAP\0").unwrap();
    let challenge = text(&["CHAP_A=7", "CHAP_I=1", "CHAP_C=0x00112233445566778899aabbccddeeff"]);
    mutual.handle_response(&response(0x01), &challenge).unwrap();
    assert!(mutual.poll_transmit().unwrap().0.transit);
    assert!(mutual.handle_response(&response(0x81), &[]).is_err());
    for wrong in ["CHAP_A=4", "CHAP_A=5,7", "CHAP_A=5"] {
        let chap = ChapInitiator::new(alice(), None).unwrap();
        let chap = ChapInitiator { algorithms: vec![Algorithm::Sha3_256, Algorithm::Sha256], ..chap };
        let mut initiator = initiator_with(chap, normal().session);
        initiator.handle_response(&response(0x01), b"AuthMethod=CHAP\0").unwrap();
        let challenge = text(&[wrong, "CHAP_I=1", "CHAP_C=0x0011"]);
        assert!(initiator.handle_response(&response(0x01), &challenge).is_err(), "{wrong}");
    }
}

#[test]
fn a_discovery_session_tells_nothing_and_may_go_on_without() {
    let chap = ChapInitiator::new(alice(), None).unwrap();
    let mut initiator = initiator_with(chap, Session::Discovery);
    let mut open = Target::new(LoginPolicy::default());
    assert!(run(&mut initiator, &mut open).is_ok() && initiator.outcome().is_some());
    let chap = ChapInitiator::new(alice(), Some(disk())).unwrap();
    let mut initiator = initiator_with(chap, Session::Discovery);
    assert!(run(&mut initiator, &mut Target::new(LoginPolicy::default())).is_err());
}

#[test]
fn a_challenge_that_comes_back_is_refused() {
    let mut target = target();
    let mut directory = directory();
    let lines = ["InitiatorName=iqn.a", &format!("TargetName={TARGET}"), "AuthMethod=CHAP"];
    target.handle_request(&request(0x01), &text(&lines), &mut directory).unwrap();
    target.handle_request(&request(0x01), &text(&["CHAP_A=5"]), &mut directory).unwrap();
    // The directory's random bytes are all 0x5a; the response is right, the challenge is the target's own.
    let challenge = chap::Challenge { id: 0x5a, bytes: vec![0x5a; 16] };
    let response_to = alice().respond(Algorithm::Md5, &challenge);
    let own = format!("CHAP_C=0x{}", "5a".repeat(16));
    let lines = ["CHAP_N=alice", &format!("CHAP_R={response_to}"), "CHAP_I=1", &own];
    let error = target.handle_request(&request(0x81), &text(&lines), &mut directory).unwrap_err();
    assert!(error.to_string().contains("sent back to us"), "{error}");

    let mut mutual = initiator(alice(), Some(disk()));
    mutual.handle_response(&response(0x01), b"AuthMethod=CHAP\0").unwrap();
    let own = text(&["CHAP_A=5", "CHAP_I=48", &format!("CHAP_C={}", chap::hex(&RANDOM[1..]))]);
    let error = mutual.handle_response(&response(0x01), &own).unwrap_err();
    assert!(error.to_string().contains("our own CHAP challenge"), "{error}");
}

#[test]
fn steps_out_of_order_and_values_out_of_shape() {
    let response_to = alice().respond(Algorithm::Md5, &chap::Challenge { id: 0x5a, bytes: vec![0x5a; 16] });
    let right = format!("CHAP_R={response_to}");
    let long = format!("CHAP_C=0x{}", "11".repeat(1025));
    #[rustfmt::skip]
    let table: &[&[&str]] = &[
        &["CHAP_A=5"],
        &["CHAP_N=alice"],
        &[&right],
        &["CHAP_N=alice", "CHAP_R=0x00"],
        &["CHAP_N=alice", "CHAP_R=xyz"],
        &["CHAP_N=", &right],
        &["CHAP_N=alice", &right, "CHAP_I=1"],
        &["CHAP_N=alice", &right, "CHAP_C=0x11"],
        &["CHAP_N=alice", &right, "CHAP_I=256", "CHAP_C=0x11"],
        &["CHAP_N=alice", &right, "CHAP_I=1", "CHAP_C=0x"],
        &["CHAP_N=alice", &right, "CHAP_I=1", &long],
        &["CHAP_N=alice", &right, "CHAP_N=alice"],
        &["AuthMethod=None"],
    ];
    for lines in table {
        let mut target = target();
        let mut directory = directory();
        let first = ["InitiatorName=iqn.a", &format!("TargetName={TARGET}"), "AuthMethod=CHAP"];
        target.handle_request(&request(0x01), &text(&first), &mut directory).unwrap();
        target.handle_request(&request(0x01), &text(&["CHAP_A=5"]), &mut directory).unwrap();
        target.poll_transmit();
        assert!(target.handle_request(&request(0x81), &text(lines), &mut directory).is_err(), "{lines:?}");
        assert!(target.outcome().is_none() && target.is_closed());
        assert_eq!(target.poll_transmit().unwrap().0.status_class, 2);
    }
}

/// Text of libiscsi with `iscsi://alice%...@host`: MD5 first, the operational keys after the stage.
#[test]
fn libiscsi_with_a_password() {
    let mut target = target();
    let mut directory = directory();
    let lines = [
        "InitiatorName=iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-ls",
        &format!("TargetName={TARGET}"),
        "SessionType=Normal",
        "AuthMethod=CHAP,None",
    ];
    target.handle_request(&request(0x01), &text(&lines), &mut directory).unwrap();
    let (response, data) = target.poll_transmit().unwrap();
    assert!(!response.transit && response.status_class == 0);
    assert_eq!(keys(&data), ["TargetPortalGroupTag=1", "AuthMethod=CHAP"]);
    target.handle_request(&request(0x01), &text(&["CHAP_A=5"]), &mut directory).unwrap();
    let (_, data) = target.poll_transmit().unwrap();
    assert_eq!(keys(&data), ["CHAP_A=5", "CHAP_I=90", "CHAP_C=0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"]);
    let challenge = chap::Challenge { id: 90, bytes: vec![0x5a; 16] };
    let right = format!("CHAP_R={}", alice().respond(Algorithm::Md5, &challenge));
    target.handle_request(&request(0x81), &text(&["CHAP_N=alice", &right]), &mut directory).unwrap();
    let (response, data) = target.poll_transmit().unwrap();
    assert!(response.transit && response.nsg == 1 && data.is_empty());
    target.handle_request(&request(0x87), &text(&["HeaderDigest=None"]), &mut directory).unwrap();
    assert!(target.poll_transmit().unwrap().0.transit && target.outcome().is_some());
}

/// Text of tgt: MD5 whatever else is offered, upper-case prefixes, T only with the last answer.
#[test]
fn tgt_with_an_account() {
    let mut initiator = initiator(alice(), Some(disk()));
    let said = keys(&initiator.poll_transmit().unwrap().1);
    assert!(said.contains(&"AuthMethod=CHAP".to_owned()), "{said:?}");
    let first = text(&["AuthMethod=CHAP", "TargetPortalGroupTag=1"]);
    initiator.handle_response(&response(0x00), &first).unwrap();
    let (request, data) = initiator.poll_transmit().unwrap();
    assert!(!request.transit && request.csg == 0);
    assert_eq!(keys(&data), ["CHAP_A=8,7,6,5"]);
    let challenge = text(&["CHAP_A=5", "CHAP_I=201", "CHAP_C=0X00112233445566778899aabbccddeeff"]);
    initiator.handle_response(&response(0x00), &challenge).unwrap();
    let (request, data) = initiator.poll_transmit().unwrap();
    assert!(request.transit && request.nsg == 1);
    let said = keys(&data);
    assert_eq!(said[0], "CHAP_N=alice");
    assert_eq!(said[2..], ["CHAP_I=48", &format!("CHAP_C={}", chap::hex(&RANDOM[1..]))]);
    let proof = disk().respond(Algorithm::Md5, &chap::Challenge::new(RANDOM));
    let last = text(&["CHAP_N=disk", &format!("CHAP_R={proof}")]);
    initiator.handle_response(&response(0x81), &last).unwrap();
    let (request, _) = initiator.poll_transmit().unwrap();
    assert_eq!((request.csg, request.nsg, request.transit), (1, 3, true));
}

#[test]
fn a_refusal_blames_the_secret_only_after_a_challenge() {
    let refused = LoginResponse { status_class: 2, status_detail: 1, ..response(0) };
    let challenge = text(&["CHAP_A=5", "CHAP_I=1", "CHAP_C=0x00112233445566778899aabbccddeeff"]);
    let steps: [&[u8]; 2] = [b"AuthMethod=CHAP\0", &challenge];
    let words = [
        "it refused AuthMethod=CHAP",
        "it refused CHAP_A=8,7,6,5 (--chap-algorithms sha3-256,sha256,sha1,md5)",
    ];
    for answered in 0..=steps.len() {
        let mut initiator = initiator(alice(), None);
        for step in &steps[..answered] {
            initiator.handle_response(&response(0), step).unwrap();
        }
        let error = initiator.handle_response(&refused, &[]).unwrap_err();
        let said = error.to_string();
        match words.get(answered) {
            Some(words) => {
                assert!(matches!(error, LoginError::Unchallenged { .. }) && said.contains(words), "{said}");
                assert!(said.ends_with("before it saw a CHAP name or secret"), "{said}");
            }
            None => assert!(said.contains("does not take this CHAP name with this secret"), "{said}"),
        }
        assert_eq!(error.refusal(), Some(Status { class: 2, detail: 1 }));
    }
    let mut discovery = initiator_with(ChapInitiator::new(alice(), None).unwrap(), Session::Discovery);
    steps.iter().for_each(|step| discovery.handle_response(&response(0), step).unwrap());
    let said = discovery.handle_response(&refused, &[]).unwrap_err().to_string();
    assert!(said.contains("discovery at the target does not take"), "{said}");
    // LIO without names for discovery refuses before it sends a challenge.
    let mut discovery = initiator_with(ChapInitiator::new(alice(), None).unwrap(), Session::Discovery);
    discovery.handle_response(&response(0), steps[0]).unwrap();
    let said = discovery.handle_response(&refused, &[]).unwrap_err().to_string();
    assert!(said.contains("discovery at the target refused CHAP_A=8,7,6,5"), "{said}");
    let mut other = initiator(alice(), None);
    other.handle_response(&response(0), steps[0]).unwrap();
    let said = other.handle_response(&response(0), b"CHAP_A=Reject\0").unwrap_err().to_string();
    assert!(said.contains("it answered Reject to CHAP_A=8,7,6,5"), "{said}");
}

#[test]
fn less_is_offered_to_targets_that_bear_no_more() {
    let chap = |theirs| Security::Chap(Box::new(ChapInitiator::new(alice(), theirs).unwrap()));
    let offer = |security: &Security| match security {
        Security::Chap(chap) => chap.algorithms.clone(),
        _ => Vec::new(),
    };
    let mut security = chap(None);
    assert!(security.leave_out_sha256() && !security.leave_out_sha256());
    assert_eq!(offer(&security), [Algorithm::Sha3_256, Algorithm::Sha1, Algorithm::Md5]);
    assert!(security.offer_md5_alone() && !security.offer_md5_alone());
    assert_eq!(offer(&security), [Algorithm::Md5]);
    assert!(security.leave_out_chap() && security == Security::OfferNone && !security.leave_out_chap());
    // CHAP is never removed if the target has to authenticate itself.
    assert!(!chap(Some(disk())).leave_out_chap());
    let strong = ChapInitiator {
        algorithms: vec![Algorithm::Sha3_256, Algorithm::Sha256],
        ..ChapInitiator::new(alice(), None).unwrap()
    };
    assert!(!Security::Chap(Box::new(strong)).offer_md5_alone(), "it is not allowed");
}
