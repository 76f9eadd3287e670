//! Events and the login of a capture in text and page.

#[path = "../../dissect/tests/events/scene.rs"]
mod scene;
#[path = "../../dissect/tests/tap/mod.rs"]
mod tap;

use analysis::capture::DiagnosedCapture;
use dissect::Dissector;
use report::terminal::{self, Colour};
use wire::pcap::Packet;

use scene::{ask, frames, login};
use tap::Tap;

fn capture(frames: &[(u64, Vec<u8>)]) -> DiagnosedCapture {
    let mut dissector = Dissector::new();
    for (t_ns, bytes) in frames {
        let packet = Packet { t_ns: *t_ns, link: 1, interface: 0, len: bytes.len(), bytes };
        dissector.packet(&packet, "", &mut ());
    }
    DiagnosedCapture::new(dissector.finish(0, None, &mut ()))
}

#[test]
fn every_kind_has_a_row_in_text_and_page() {
    let capture = capture(&frames());
    let (text, page) =
        (terminal::capture(&capture, Colour::Never), report::capture_html(&capture, None, None, &[], ""));
    let rows = [
        "BUSY",
        "TASK SET FULL",
        "RESERVATION CONFLICT",
        "CHECK CONDITION: MEDIUM ERROR, unrecovered read error (3h/11h/00h)",
        "TASK ABORTED",
        "target failure (response 01h)",
        "task management: abort task; response: function complete",
        "task management: logical unit reset; response: not seen",
        "asynchronous message: target requests logout",
        "Reject: protocol error, of a ScsiCommand",
        "NOP without an answer within 5 s",
        "logout: close the session; response: closed",
        "TCP reset",
        "TCP connection refused",
        "login refused: target not found (0203h)",
        "login refused: service unavailable (0301h)",
        "login redirected: target moved permanently, to 192.0.2.7:3260,1",
        "ICMP: packet too big, MTU of the next hop 1400 bytes, from 192.0.2.9",
        "ICMP: communication administratively prohibited, from 192.0.2.9",
    ];
    for row in rows {
        let line = text.lines().find(|line| line.trim_start().starts_with(row));
        let line = line.unwrap_or_else(|| panic!("no row of {row}:\n{text}"));
        assert!(line.contains("connection ") && line.contains("packet "), "{line}");
        assert!(page.contains(row), "the page lacks {row}");
    }
    let full = text.lines().find(|line| line.trim_start().starts_with("TASK SET FULL")).expect("a row");
    assert!(full.contains("target") && full.contains("7 to 8, 7.5 on average"), "{full}");
    assert!(page.contains("id=\"table-events\""));
}

#[test]
fn a_capture_without_events_has_no_table() {
    let mut tap = Tap::new((false, false));
    ask(&mut tap, 1);
    let answer = tap.answer(1, 1);
    tap.pdus(1, &answer);
    let capture = capture(&tap.frames);
    assert!(!terminal::capture(&capture, Colour::Never).contains("events,"));
    assert!(!report::capture_html(&capture, None, None, &[], "").contains("table-events"));
}

#[test]
fn the_login_agreed_only_on_keys_of_both_sides() {
    let session = |texts: [&[u8]; 2]| {
        let mut tap = Tap::begun();
        login(&mut tap, [0, 0], texts);
        for cmd_sn in 1..=10 {
            ask(&mut tap, cmd_sn);
            let answer = tap.answer(cmd_sn, 1);
            tap.pdus(1, &answer);
        }
        tap
    };
    let offer = b"InitialR2T=No\0FirstBurstLength=131072\0";
    let both = session([offer, b"InitialR2T=No\0"]);
    let text = terminal::capture(&capture(&both.frames), Colour::Never);
    assert!(text.contains("the login agreed on InitialR2T=No\n"), "{text}");
    assert!(
        text.contains("the initiator offered FirstBurstLength=131072; no answer to that is in the capture"),
        "{text}"
    );
    assert!(
        text.contains("the defaults of RFC 7143 hold: ImmediateData=Yes, FirstBurstLength=65536"),
        "{text}"
    );
    let own: Vec<_> = both.frames.iter().filter(|(_, frame)| frame[29] == 0).cloned().collect();
    let alone = terminal::capture(&capture(&own), Colour::Never);
    assert!(!alone.contains("the login agreed on") && !alone.contains("defaults of RFC 7143"), "{alone}");
    assert!(alone.contains("the initiator offered InitialR2T=No, FirstBurstLength=131072"), "{alone}");
}
