//! What each fuzz target runs, callable from plain tests.
//!
//! A target takes any bytes. It fails by panicking: because a crate panicked on a peer's bytes or a file's, or because what was
//! read does not come back when it is written and read again. `fuzz/targets` wraps these for libFuzzer, and
//! `tests/replay.rs` runs them over `corpus/NAME/*`.

mod capture;
mod connections;
mod files;
mod folder;
mod framing;
mod input;
mod iscsi;
mod login;
mod lun;
mod nbd;
mod recorder;
mod scsi;
mod session;

/// What one target runs.
pub type Target = fn(&[u8]);

/// Name and function of every target; the name is also that of its corpus and of its binary.
pub const TARGETS: [(&str, Target); 20] = [
    ("pdu", iscsi::pdu),
    ("ahs", iscsi::ahs),
    ("login_text", iscsi::login_text),
    ("cdb", scsi::cdb),
    ("sense", scsi::sense),
    ("scsi_data", scsi::data),
    ("inet", inet),
    ("session", session),
    ("capture", capture::capture),
    ("recorder", recorder::recorder),
    ("connections", connections::connections),
    ("framing", framing::framing),
    ("nbd_server", nbd::server),
    ("nbd_client", nbd::client),
    ("lun", lun::lun),
    ("reservations", lun::reservations),
    ("serving", serving),
    ("plan", files::plan),
    ("parquet", files::parquet),
    ("run_json", files::run_json),
];

/// Runs one target.
///
/// # Panics
/// If the target fails, or there is none of this name.
pub fn run(target: &str, data: &[u8]) {
    let (_, function) = TARGETS.iter().find(|(name, _)| *name == target).expect("a target of this name");
    function(data);
}

/// Requests of sessions for the memory and the time of a target's loop, two bytes a step.
fn serving(data: &[u8]) {
    let mut script = data.iter().copied();
    iscsi_target::rehearse(|| script.next());
}

fn inet(data: &[u8]) {
    frames(data);
    let Ok(headers) = wire::inet::Headers::parse(data) else { return };
    assert!(headers.total_len <= data.len());
    assert_eq!(headers.ip_header_len + headers.transport_header_len + headers.payload_len, headers.total_len);
    let has_tcp = headers.protocol == wire::inet::TCP && headers.transport_header_len > 0;
    assert_eq!(wire::inet::Tcp::parse(data, &headers).is_some(), has_tcp);
    // Whatever it says: it must not panic.
    let _ = wire::inet::stays_on_link(data, &headers);
}

/// Frames of every link layer: the packet lies in the frame, and its identity agrees with its segment.
fn frames(data: &[u8]) {
    use wire::inet::encapsulation::{Content, decapsulate};
    for link in 0..300 {
        let content = decapsulate(link, data);
        if let Content::Unreachable(inner, _) = content {
            let _ = wire::inet::Unreachable::parse(&data[inner.ip_at..]);
        }
        if let Content::Tcp(inner) | Content::Fragment(inner) = content {
            let packet = &data[inner.ip_at..];
            let segment = wire::inet::Segment::parse(packet, packet.len());
            let identity = wire::inet::Identity::parse(packet, packet.len());
            assert_eq!(segment.map(|segment| segment.len), identity.map(|identity| identity.len));
        }
    }
}

/// A byte that picks the machine and what was agreed on, then what its peer sends.
fn session(data: &[u8]) {
    let mut input = input::Input::new(data);
    let pick = input.byte();
    match pick & 3 {
        0 => session::target(pick >> 2, &mut input),
        1 => session::initiator(pick >> 2, &mut input),
        2 => login::target(pick >> 2, &mut input),
        _ => login::initiator(pick >> 2, &mut input),
    }
}
