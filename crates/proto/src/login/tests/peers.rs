//! Login texts of libiscsi, open-iscsi, tgt and LIO: the keys that their sources build, in order.

use super::*;

/// Text of libiscsi 1.19 and later without a password, with the settings of QEMU and iscsi-perf.
#[test]
fn libiscsi_logs_in() {
    let lines = [
        "InitiatorName=iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-perf",
        "TargetName=iqn.2026-11.io.farlun:disk",
        "SessionType=Normal",
        "HeaderDigest=None,CRC32C",
        "DataDigest=None",
        "InitialR2T=No",
        "ImmediateData=Yes",
        "MaxBurstLength=262144",
        "FirstBurstLength=262144",
        "DefaultTime2Wait=2",
        "DefaultTime2Retain=0",
        "MaxOutstandingR2T=1",
        "ErrorRecoveryLevel=0",
        "IFMarker=No",
        "OFMarker=No",
        "MaxConnections=1",
        "MaxRecvDataSegmentLength=262144",
        "DataPDUInOrder=Yes",
        "DataSequenceInOrder=Yes",
    ];
    let (target, response, answered) = ask(0x87, &lines);
    assert!(response.transit && response.nsg == 3 && response.status_class == 0);
    assert_eq!((response.exp_cmd_sn, response.max_cmd_sn), (0xffff_ffff, 126));
    assert_eq!(response.stat_sn, 9);
    assert_eq!(
        answered,
        [
            "TargetPortalGroupTag=1",
            "HeaderDigest=None",
            "DataDigest=None",
            "InitialR2T=No",
            "ImmediateData=Yes",
            "MaxBurstLength=262144",
            "FirstBurstLength=262144",
            "DefaultTime2Wait=2",
            "DefaultTime2Retain=0",
            "MaxOutstandingR2T=1",
            "ErrorRecoveryLevel=0",
            "IFMarker=No",
            "OFMarker=No",
            "MaxConnections=1",
            "DataPDUInOrder=Yes",
            "DataSequenceInOrder=Yes",
            "MaxRecvDataSegmentLength=262144",
        ]
    );
    let admitted = target.outcome().unwrap();
    assert_eq!((admitted.params.max_burst_len, admitted.params.initial_r2t), (262_144, false));
}

/// The same keys in libiscsi's discovery session: those of a normal session are irrelevant there.
#[test]
fn libiscsi_discovers() {
    let (target, response, answered) = ask(
        0x87,
        &[
            "InitiatorName=iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-ls",
            "SessionType=Discovery",
            "HeaderDigest=None",
            "DataDigest=None",
            "InitialR2T=Yes",
            "MaxBurstLength=262144",
            "FirstBurstLength=262144",
            "DefaultTime2Wait=2",
            "MaxRecvDataSegmentLength=262144",
        ],
    );
    assert!(response.transit && target.outcome().is_some());
    assert_eq!(
        answered,
        [
            "HeaderDigest=None",
            "DataDigest=None",
            "InitialR2T=Irrelevant",
            "MaxBurstLength=Irrelevant",
            "FirstBurstLength=Irrelevant",
            "DefaultTime2Wait=2",
            "MaxRecvDataSegmentLength=262144",
        ]
    );
}

/// Text of open-iscsi: the security stage first, then the operational one.
#[test]
fn open_iscsi_logs_in() {
    let mut target = Target::new(LoginPolicy::default());
    let mut directory = directory();
    let first = text(&[
        "InitiatorName=iqn.2004-10.com.ubuntu:01:a",
        "InitiatorAlias=host",
        "TargetName=iqn.2026-11.io.farlun:disk",
        "SessionType=Normal",
        "AuthMethod=None",
    ]);
    target.handle_request(&request(0x81), &first, &mut directory).unwrap();
    let (answer, data) = target.poll_transmit().unwrap();
    assert!(answer.transit && answer.csg == 0 && answer.nsg == 1 && answer.tsih == 0);
    assert_eq!(keys(&data), ["TargetPortalGroupTag=1", "AuthMethod=None"]);

    let second = text(&[
        "HeaderDigest=None",
        "DataDigest=None",
        "DefaultTime2Wait=2",
        "DefaultTime2Retain=0",
        "IFMarker=No",
        "OFMarker=No",
        "ErrorRecoveryLevel=0",
        "InitialR2T=No",
        "ImmediateData=Yes",
        "MaxBurstLength=16776192",
        "FirstBurstLength=262144",
        "MaxOutstandingR2T=1",
        "MaxConnections=1",
        "DataPDUInOrder=Yes",
        "DataSequenceInOrder=Yes",
        "MaxRecvDataSegmentLength=262144",
    ]);
    target.handle_request(&request(0x87), &second, &mut directory).unwrap();
    let (answer, data) = target.poll_transmit().unwrap();
    assert!(answer.transit && answer.csg == 1 && answer.nsg == 3 && answer.tsih == 0x41);
    assert_eq!(answer.stat_sn, 10);
    assert!(keys(&data).contains(&"MaxBurstLength=16773120".to_owned()));
    let admitted = target.outcome().unwrap();
    assert_eq!((admitted.stat_sn, admitted.params.first_burst_len), (11, 262_144));
    assert_eq!(target.handle_request(&request(0x87), &[], &mut directory), Err(Violation::AfterEnd.into()));
}

/// tgt answers, then states its segment length and offers its keys beyond the defaults with T off; the initiator
/// answers and asks again.
#[test]
fn tgt_lets_us_in() {
    let mut initiator = Initiator::new(normal());
    let (request, _) = initiator.poll_transmit().unwrap();
    assert!(request.transit && (request.csg, request.nsg) == (1, 3));
    let first = text(&[
        "TargetPortalGroupTag=1",
        "HeaderDigest=None",
        "DataDigest=None",
        "InitialR2T=Yes",
        "ImmediateData=Yes",
        "MaxBurstLength=262144",
        "FirstBurstLength=65536",
        "MaxOutstandingR2T=1",
        "MaxConnections=1",
        "DataPDUInOrder=Yes",
        "DataSequenceInOrder=Yes",
        "ErrorRecoveryLevel=0",
        "DefaultTime2Wait=2",
        "DefaultTime2Retain=0",
        "X-io.farlun.peer=NotUnderstood",
        "MaxRecvDataSegmentLength=16384",
        "TaskReporting=FastAbort,RFC3720",
        "X-com.example.extra=1",
    ]);
    initiator.handle_response(&response(0x07), &first).unwrap();
    let (request, data) = initiator.poll_transmit().unwrap();
    assert!(request.transit);
    assert_eq!(keys(&data), ["TaskReporting=RFC3720", "X-com.example.extra=NotUnderstood"]);
    initiator.handle_response(&response(0x87), &[]).unwrap();
    let logged_in = initiator.outcome().unwrap();
    let params = &logged_in.params;
    assert!(params.initial_r2t && params.peer_software.is_none());
    assert_eq!((params.peer_max_recv_data_segment_len, params.max_outstanding_r2t), (16_384, 1));
    assert_eq!((logged_in.tsih, logged_in.exp_stat_sn, logged_in.max_cmd_sn), (3, 101, 33));
    assert!(initiator.poll_transmit().is_none());
}

/// LIO ends the stage and offers, in the same response, keys that the initiator did not name.
#[test]
fn lio_lets_us_in() {
    let mut initiator = Initiator::new(normal());
    initiator.poll_transmit().unwrap();
    let lines = [
        "TargetPortalGroupTag=1",
        "TargetAlias=LIO Target",
        "HeaderDigest=None",
        "MaxRecvDataSegmentLength=8192",
        "InitialR2T=No",
        "IFMarker=No",
        "OFMarker=No",
        "X-com.example.a=b",
    ];
    initiator.handle_response(&response(0x87), &text(&lines)).unwrap();
    let logged_in = initiator.outcome().unwrap();
    assert_eq!(logged_in.target_alias.as_deref(), Some("LIO Target"));
    assert!(!logged_in.params.initial_r2t && initiator.poll_transmit().is_none());
}
