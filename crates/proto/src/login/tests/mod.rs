//! Logins from end to end: initiator and target with each other; `chap`; `digests`; `peers`: texts of other
//! implementations; `refusals`: every way to fail; `nonsense`: random PDUs and text.

mod chap;
mod digests;
mod joining;
mod nonsense;
mod peers;
mod refusals;

use wire::iscsi::text::pairs;
use wire::iscsi::{LoginRequest, LoginResponse, login_status};

use super::*;
use crate::keys::SOFTWARE;
use crate::params::{Params, Wishes};

const TARGET: &str = "iqn.2026-11.io.farlun:disk";
const INITIATOR: &str = "iqn.2026-11.io.farlun:me";

/// One target, a session 0x0007 that is full, and 0x0009 that is not.
struct OneTarget {
    assigned: u16,
    full: bool,
}

impl Directory for OneTarget {
    fn admit(&mut self, candidate: &Candidate) -> Result<(), Status> {
        match candidate.target_name.as_deref() {
            Some(TARGET) => Ok(()),
            None if candidate.discovery => Ok(()),
            Some("iqn.2026-11.io.farlun:private") => Err(login_status::AUTHORIZATION_FAILURE.into()),
            _ => Err(login_status::NOT_FOUND.into()),
        }
    }

    fn random(&mut self, bytes: &mut [u8]) {
        bytes.fill(0x5a);
    }

    fn join(&mut self, _: &Candidate, tsih: u16) -> Result<Existing, Status> {
        match tsih {
            7 => Err(login_status::TOO_MANY_CONNECTIONS.into()),
            9 => Ok(existing()),
            _ => Err(login_status::SESSION_DOES_NOT_EXIST.into()),
        }
    }

    fn assign_tsih(&mut self, _: &Candidate) -> Result<u16, Status> {
        if self.full {
            return Err(login_status::OUT_OF_RESOURCES.into());
        }
        self.assigned += 1;
        Ok(self.assigned)
    }
}

/// Session 9, which has room for another connection.
fn existing() -> Existing {
    let params = Params { max_connections: 4, first_burst_len: 512, ..Params::RFC_DEFAULT };
    Existing { params, exp_cmd_sn: 500, max_cmd_sn: 520 }
}

fn directory() -> OneTarget {
    OneTarget { assigned: 0x40, full: false }
}

fn normal() -> Request {
    Request {
        session: Session::Normal { target_name: TARGET.to_owned() },
        initiator_name: INITIATOR.to_owned(),
        initiator_alias: Some("desk".to_owned()),
        isid: [0x80, 0, 0, 1, 0, 2],
        cid: 1,
        wishes: Wishes::default(),
        security: Security::Skip,
        private_key: true,
    }
}

fn discovery() -> Request {
    Request { session: Session::Discovery, ..normal() }
}

/// Runs initiator and target against each other. Returns the number of requests.
fn run(initiator: &mut Initiator, target: &mut Target) -> Result<u32, LoginError> {
    let mut directory = directory();
    let mut requests = 0;
    while let Some((request, data)) = initiator.poll_transmit() {
        requests += 1;
        assert_eq!(request.data_segment_len as usize, data.len());
        assert!(data.len() <= SEGMENT_BYTES);
        let result = target.handle_request(&request, &data, &mut directory);
        assert_eq!(result.is_err(), target.is_closed());
        let (response, data) = target.poll_transmit().expect("every request is answered");
        assert_eq!(response.data_segment_len as usize, data.len());
        initiator.handle_response(&response, &data)?;
    }
    Ok(requests)
}

/// A login request as another initiator writes it; `flags` is byte 1 of the header.
fn request(flags: u8) -> LoginRequest {
    LoginRequest {
        transit: flags & 0x80 != 0,
        is_continued: flags & 0x40 != 0,
        csg: flags >> 2 & 3,
        nsg: flags & 3,
        version_max: 0,
        version_min: 0,
        data_segment_len: 0,
        isid: [0x80, 0x12, 0x34, 0x56, 0, 0],
        tsih: 0,
        itt: 0x55,
        cid: 0,
        cmd_sn: 0xffff_ffff,
        exp_stat_sn: 9,
    }
}

/// A successful response as another target writes it.
fn response(flags: u8) -> LoginResponse {
    LoginResponse {
        transit: flags & 0x80 != 0,
        is_continued: flags & 0x40 != 0,
        csg: flags >> 2 & 3,
        nsg: flags & 3,
        version_max: 0,
        version_active: 0,
        data_segment_len: 0,
        isid: [0x80, 0, 0, 1, 0, 2],
        tsih: 3,
        itt: 0,
        stat_sn: 100,
        exp_cmd_sn: 1,
        max_cmd_sn: 33,
        status_class: 0,
        status_detail: 0,
    }
}

fn text(keys: &[&str]) -> Vec<u8> {
    keys.iter().flat_map(|key| key.bytes().chain([0])).collect()
}

fn keys(data: &[u8]) -> Vec<String> {
    pairs(data).map(|pair| pair.map(|(key, value)| format!("{key}={value}")).unwrap()).collect()
}

/// Sends one request to a fresh target. Returns the target, its response and the keys in it.
fn ask(flags: u8, lines: &[&str]) -> (Target, LoginResponse, Vec<String>) {
    let mut target = Target::new(LoginPolicy::default());
    let _ = target.handle_request(&request(flags), &text(lines), &mut directory());
    let (response, data) = target.poll_transmit().unwrap();
    (target, response, keys(&data))
}

#[test]
fn our_own_two_agree_in_one_round_trip() {
    let (mut initiator, mut target) = (Initiator::new(normal()), Target::new(LoginPolicy::default()));
    assert_eq!(run(&mut initiator, &mut target), Ok(1));
    let (ours, theirs) = (initiator.outcome().unwrap(), target.outcome().unwrap());
    let expected = Params {
        initial_r2t: false,
        immediate_data: true,
        our_max_recv_data_segment_len: 262_144,
        peer_max_recv_data_segment_len: 262_144,
        max_burst_len: Wishes::LONGEST_BURST,
        first_burst_len: Wishes::LONGEST_BURST,
        max_outstanding_r2t: 64,
        default_time2retain_s: 0,
        peer_software: Some(SOFTWARE.to_owned()),
        ..Params::RFC_DEFAULT
    };
    assert_eq!(ours.params, expected);
    assert_eq!(theirs.params, expected);
    assert_eq!((ours.tsih, ours.target_portal_group_tag), (theirs.tsih, Some(1)));
    assert_eq!((ours.cmd_sn, ours.exp_cmd_sn, ours.max_cmd_sn), (1, theirs.exp_cmd_sn, theirs.max_cmd_sn));
    assert_eq!((theirs.exp_cmd_sn, theirs.max_cmd_sn), (1, 128));
    assert_eq!(ours.exp_stat_sn, theirs.stat_sn);
    assert_eq!(theirs.candidate.initiator_alias.as_deref(), Some("desk"));
}

#[test]
fn the_security_stage_costs_one_round_trip_more() {
    let mut initiator = Initiator::new(Request { security: Security::OfferNone, ..normal() });
    let mut target = Target::new(LoginPolicy::default());
    assert_eq!(run(&mut initiator, &mut target), Ok(2));
    assert!(initiator.outcome().unwrap().params.peer_software.is_some());
}

#[test]
fn the_private_key_is_told_only_where_it_may_be() {
    let offered = |request| {
        let (_, data) = Initiator::new(request).poll_transmit().unwrap();
        keys(&data).iter().any(|line| line.starts_with("X-io.farlun.peer="))
    };
    assert!(offered(normal()));
    assert!(!offered(discovery()));
    assert!(!offered(Request { private_key: false, ..normal() }));

    let mut initiator = Initiator::new(normal());
    let mut target = Target::new(LoginPolicy { private_key: false, ..LoginPolicy::default() });
    run(&mut initiator, &mut target).unwrap();
    assert_eq!(initiator.outcome().unwrap().params.peer_software, None);
    assert_eq!(target.outcome().unwrap().params.peer_software, None);
}

#[test]
fn a_discovery_session_negotiates_next_to_nothing() {
    let (mut initiator, mut target) = (Initiator::new(discovery()), Target::new(LoginPolicy::default()));
    assert_eq!(run(&mut initiator, &mut target), Ok(1));
    let ours = initiator.outcome().unwrap();
    assert_eq!(ours.params.max_burst_len, Params::RFC_DEFAULT.max_burst_len);
    assert_eq!(ours.params.peer_max_recv_data_segment_len, 262_144);
    assert_eq!(ours.target_portal_group_tag, None);
    assert!(target.outcome().unwrap().candidate.discovery);
}

#[test]
fn a_target_without_words_gets_the_defaults() {
    let mut initiator =
        Initiator::new(Request { wishes: Wishes { immediate_data: false, ..Wishes::default() }, ..normal() });
    initiator.handle_response(&response(0x87), &[]).unwrap();
    let params = &initiator.outcome().unwrap().params;
    // `ImmediateData=No` leaves no choice and needs no answer (6.2.2).
    let expected =
        Params { immediate_data: false, our_max_recv_data_segment_len: 262_144, ..Params::RFC_DEFAULT };
    assert_eq!(*params, expected);
}

#[test]
fn a_name_that_would_be_several_lines_is_refused() {
    let words = text(&["InitiatorName=iqn.a\nfarlun: all is well", "TargetName=iqn.2026-11.io.farlun:disk"]);
    let mut target = Target::new(LoginPolicy::default());
    let error = target.handle_request(&request(0x87), &words, &mut directory()).unwrap_err().to_string();
    assert!(error.contains("expected no control characters") && !error.contains('\n'), "{error}");
    assert_eq!(target.poll_transmit().unwrap().0.status_class, 2);
}

#[test]
fn a_portal_group_tag_in_either_form_of_a_number() {
    for (said, expected) in [("1", Ok(1)), ("0x1F", Ok(31)), ("0xffff", Ok(65_535)), ("65536", Err(()))] {
        let wishes = Wishes { immediate_data: false, ..Wishes::default() };
        let mut initiator = Initiator::new(Request { wishes, ..normal() });
        let words = text(&[&format!("TargetPortalGroupTag={said}")]);
        let response = LoginResponse { data_segment_len: words.len() as u32, ..response(0x87) };
        let handled = initiator.handle_response(&response, &words).map_err(drop);
        let found = handled.map(|_| initiator.outcome().unwrap().target_portal_group_tag.unwrap());
        assert_eq!(found, expected, "{said}");
    }
}

#[test]
fn bursts_depend_on_each_other_whatever_the_order() {
    let base = ["InitiatorName=iqn.a", "TargetName=iqn.2026-11.io.farlun:disk"];
    #[rustfmt::skip]
    let table: &[(&[&str], &str, u32, u32)] = &[
        (&["FirstBurstLength=65536", "MaxBurstLength=4096"], "FirstBurstLength=4096", 4096, 4096),
        (&["FirstBurstLength=1000000"], "FirstBurstLength=262144", 262_144, 262_144),
        (&["FirstBurstLength=512", "ImmediateData=No"], "FirstBurstLength=Irrelevant", 65_536, 262_144),
        (
            &["FirstBurstLength=512", "ImmediateData=No", "MaxBurstLength=4096"],
            "FirstBurstLength=Irrelevant",
            4096,
            4096,
        ),
        (&["MaxBurstLength=512"], "MaxBurstLength=512", 512, 512),
        (&["MaxOutstandingR2T=9", "ErrorRecoveryLevel=2"], "MaxOutstandingR2T=9", 65_536, 262_144),
    ];
    for (lines, expected, first, max) in table {
        let (target, _, answered) = ask(0x87, &[&base[..], lines].concat());
        assert!(answered.contains(&(*expected).to_owned()), "{lines:?}: {answered:?}");
        let params = &target.outcome().unwrap().params;
        assert_eq!((params.first_burst_len, params.max_burst_len), (*first, *max), "{lines:?}");
    }
}

#[test]
fn recovery_within_a_task_allows_one_r2t_only() {
    let wishes = Wishes { error_recovery_level: 1, ..Wishes::default() };
    let mut initiator = Initiator::new(Request { wishes: wishes.clone(), ..normal() });
    let (_, data) = initiator.poll_transmit().unwrap();
    assert!(keys(&data).contains(&"MaxOutstandingR2T=1".to_owned()));

    let mut target = Target::new(LoginPolicy { wishes, ..LoginPolicy::default() });
    let lines = [
        "InitiatorName=iqn.a",
        "TargetName=iqn.2026-11.io.farlun:disk",
        "MaxOutstandingR2T=9",
        "ErrorRecoveryLevel=1",
    ];
    target.handle_request(&request(0x87), &text(&lines), &mut directory()).unwrap();
    let params = &target.outcome().unwrap().params;
    assert_eq!((params.max_outstanding_r2t, params.error_recovery_level), (1, 1));
}

#[test]
fn text_may_go_on_in_both_directions() {
    // Ours: a name so long that the text needs three PDUs, and a target that does not know it.
    let mut initiator = Initiator::new(Request { initiator_alias: Some("a".repeat(20_000)), ..normal() });
    let mut target = Target::new(LoginPolicy::default());
    let error = run(&mut initiator, &mut target).unwrap_err();
    assert!(matches!(error, LoginError::Refused { status: Status { class: 2, detail: 0 }, .. }));

    // Theirs: 200 unknown keys of 63 bytes make an answer of two segments.
    let unknown: Vec<String> = (0..200).map(|i| format!("X-{i:061}=1")).collect();
    let mut lines = vec!["InitiatorName=iqn.a", "TargetName=iqn.2026-11.io.farlun:disk"];
    lines.extend(unknown.iter().map(String::as_str));
    let bytes = text(&lines);
    let mut target = Target::new(LoginPolicy::default());
    let mut directory = directory();
    let (first, second) = bytes.split_at(8191);
    target.handle_request(&request(0x44), first, &mut directory).unwrap();
    let (empty, data) = target.poll_transmit().unwrap();
    assert!(!empty.transit && !empty.is_continued && data.is_empty());
    target.handle_request(&request(0x87), second, &mut directory).unwrap();
    let (more, part) = target.poll_transmit().unwrap();
    assert!(more.is_continued && !more.transit && target.outcome().is_none());
    target.handle_request(&request(0x87), &[], &mut directory).unwrap();
    let (last, rest) = target.poll_transmit().unwrap();
    assert!(last.transit && target.outcome().is_some());
    let answered = keys(&[part, rest].concat());
    assert_eq!(answered.iter().filter(|line| line.ends_with("=NotUnderstood")).count(), 200);

    // The initiator asks for the rest of an answer with an empty request.
    let mut initiator = Initiator::new(normal());
    initiator.poll_transmit().unwrap();
    initiator.handle_response(&response(0x44), b"MaxBurst").unwrap();
    let (request, data) = initiator.poll_transmit().unwrap();
    assert!(data.is_empty() && !request.is_continued);
    initiator.handle_response(&response(0x87), b"Length=512\0FirstBurstLength=512\0").unwrap();
    assert_eq!(initiator.outcome().unwrap().params.max_burst_len, 512);
}
