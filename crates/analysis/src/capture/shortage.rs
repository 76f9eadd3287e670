//! Evidence that a limiter needs, and the capture to make where it is missing.
//!
//! This is the one place that decides between a verdict and "not enough seen".

use diagnosis::{Diagnosis, Limiter};
use dissect::{CaptureTotals, Confidence, ConnectionSummary as Connection, Durations, IscsiSummary as Iscsi};
use serde::Serialize;

use super::{load, tcp_parts};

/// Largest share of doubtful evidence ([`Confidence::doubt`]) with which a limiter is named. Verdicts name shares of the
/// time; one that may be wrong by more than this says nothing about which of two comparable limiters is the larger one.
const DOUBT_MAX: f64 = 0.25;
/// Bytes of payload behind which a packet begins with a header that can be recognised: opcode, lengths, LUN, task tag and
/// number.
const RECOGNISED_BYTES: f64 = 28.0;
/// Commands in flight as counted, by those of Little's law, from which on answers have passed unseen.
const IN_FLIGHT_APART: f64 = 1.5;
/// Share of the time with a full line from which on no receive window holds the data back.
const LINE_FULL: f64 = 0.5;
/// Share of the service time at the target from which on a slow store explains the commands in flight.
const AT_TARGET: f64 = 0.5;
/// Share of bursts that follow acknowledgements from which on this is no chance. Most bursts of a store that takes longer
/// than the round trip do not.
const ACK_CLOCKED: f64 = 0.8;
/// Well-known port: RFC 7143 section 4.2.1.
const ISCSI_PORT: &str = ":3260";

/// Lack of evidence, and the capture to make.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Shortage {
    /// Reasons, in words.
    pub reasons: Vec<String>,
    /// Commands that capture enough, one for each tool.
    pub commands: Vec<String>,
}

/// Lack of evidence for `diagnosis`; `None` if there is enough, or nothing that a limiter could be named of.
pub(super) fn shortage(
    connection: &Connection,
    diagnosis: Option<&Diagnosis>,
    totals: &CaptureTotals,
) -> Option<Shortage> {
    let reasons = match &connection.iscsi {
        Some(iscsi) => reasons(connection, iscsi, diagnosis),
        None => unrecognised(connection).into_iter().collect(),
    };
    (!reasons.is_empty()).then(|| Shortage { reasons, commands: commands(connection, totals) })
}

fn reasons(connection: &Connection, iscsi: &Iscsi, diagnosis: Option<&Diagnosis>) -> Vec<String> {
    let first = diagnosis.and_then(Diagnosis::first);
    let confidence = &iscsi.confidence;
    let doubt = confidence.doubt();
    // The unseen part may all have had one other cause.
    let is_doubtful = doubt > DOUBT_MAX || first.is_some_and(|first| first.share < doubt);
    let mut reasons = Vec::new();
    if connection.one_direction {
        reasons.push("the capture has the packets of one direction alone".to_owned());
    }
    if is_doubtful {
        reasons.extend(doubts(confidence));
    }
    if let Some(first) = first {
        reasons.extend(alike(connection, iscsi, first.limiter, is_doubtful));
    }
    reasons.extend(hidden(connection, iscsi));
    reasons
}

/// Parts of the evidence that are missing.
fn doubts(confidence: &Confidence) -> impl Iterator<Item = String> {
    let Confidence { unseen_share, lost_share, refuted_share, missing_share, .. } = *confidence;
    let least = DOUBT_MAX.min(confidence.doubt()) / 4.0;
    let parts = [
        (unseen_share, "of the time the place in the PDUs was lost, or the round trip not known"),
        (lost_share, "of a direction's bytes are in no PDU"),
        (refuted_share, "of the PDUs were inferred and refuted"),
        (missing_share, "of the bytes are in no packet of the capture"),
    ];
    parts
        .into_iter()
        .filter(move |(share, _)| *share > least)
        .map(|(share, text)| format!("{} {text}", percent(share)))
}

/// Reasons for which this limiter and another one look alike.
fn alike(connection: &Connection, iscsi: &Iscsi, limiter: Limiter, is_doubtful: bool) -> Vec<String> {
    let mut reasons = Vec::new();
    let mut say = |holds: bool, text: &str| {
        if holds {
            reasons.push(text.to_owned());
        }
    };
    let [initiator, _] = &connection.directions;
    let data = load::data_direction(connection);
    let is_store = limiter == Limiter::StoreLatency;
    let is_sending = matches!(
        limiter,
        Limiter::LinkRate | Limiter::Path | Limiter::SendBuffer | Limiter::CongestionWindow
    );
    say(
        matches!(limiter, Limiter::RoundTrip | Limiter::QueueDepth)
            && load::is_serial(iscsi).is_none()
            && !is_doubtful,
        "too many headers are hidden to tell one command at a time from several",
    );
    say(
        (is_store || limiter == Limiter::RoundTrip)
            && load::is_serial(iscsi) == Some(true)
            && !connection.handshake
            && !initiator.ack_rtt_alone,
        "the connection's beginning is missing, and all acknowledgements came with answers: the round trip and the \
         target's time look alike",
    );
    if let Some([counted, by_rate]) = in_flight(iscsi)
        .filter(|[counted, by_rate]| is_store && *counted > by_rate * IN_FLIGHT_APART + 1.0)
        .filter(|_| at_target_share(iscsi) < AT_TARGET)
    {
        let text = format!(
            "answers passed unseen: {counted:.0} commands in flight are counted where rate and service time give \
             {by_rate:.0}"
        );
        say(true, &text);
    }
    say(
        is_store && data.ack_clocked_share.is_some_and(|share| share >= ACK_CLOCKED),
        "data follow acknowledgements: a send buffer that holds one PDU and a store that takes as long as the round trip \
         look alike",
    );
    // A window below the bandwidth-delay product leaves the line idle in each round trip.
    say(
        limiter == Limiter::ReceiveWindow
            && !connection.handshake
            && tcp_parts::full_share(data, 0.0) > LINE_FULL,
        "the connection's beginning is missing, and the line is never idle: a full line and a receive window whose scale \
         is inferred look alike",
    );
    say(
        is_sending && !data.window_known,
        "the connection's beginning is missing, and the data do not tell the scale of the receive window: whether it was \
         full",
    );
    reasons
}

/// Reasons for which commands are not visible.
fn hidden(connection: &Connection, iscsi: &Iscsi) -> Vec<String> {
    let Confidence { lost_share, missing_share, .. } = iscsi.confidence;
    let mut reasons = Vec::new();
    let idle_share = iscsi.time.map_or(0.0, |time| time.idle_s / time.length_s.max(f64::MIN_POSITIVE));
    if (missing_share > 0.0 || lost_share > 0.0) && idle_share > DOUBT_MAX {
        reasons.push(format!(
            "in {} of the time no command is visible, and bytes are missing",
            percent(idle_share)
        ));
    }
    if iscsi.commands.sent.estimate().is_none() && !connection.one_direction {
        reasons.push("too many headers are hidden to count commands".to_owned());
    }
    reasons
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Mean number of commands in flight: as counted, and by Little's law from the rate and the service times of commands of
/// which both headers are visible. Commands whose answer is hidden stay in the first one.
fn in_flight(iscsi: &Iscsi) -> Option<[f64; 2]> {
    let completed = iscsi.commands.completed.estimate()? as f64;
    let length_s = iscsi.time.filter(|time| time.length_s > 0.0)?.length_s;
    Some([iscsi.commands.in_flight?.mean, completed / length_s * load::service_s(iscsi)?])
}

/// Share of the service time that commands were at the target, of those of which the headers are visible.
fn at_target_share(iscsi: &Iscsi) -> f64 {
    let commands = &iscsi.commands;
    let turns =
        [(commands.first_answer, commands.read_service), (commands.status_turn, commands.write_service)];
    let rtt_s = iscsi.network_to_target_s.unwrap_or(0.0);
    let share = |(turn, service): (Option<Durations>, Option<Durations>)| {
        let (turn, service) = turn.zip(service)?;
        Some((turn.mean_s - rtt_s) / service.mean_s)
    };
    turns.into_iter().filter_map(share).fold(0.0, f64::max)
}

/// Connections of the well-known port whose headers were not kept.
fn unrecognised(connection: &Connection) -> Option<String> {
    let at_port = connection.directions.iter().any(|direction| direction.from.ends_with(ISCSI_PORT));
    let kept = |direction: &dissect::DirectionSummary| {
        let packets = direction.data_packets as f64;
        direction.kept_share.map(|share| share * direction.payload_bytes as f64 / packets.max(1.0))
    };
    let kept: Vec<f64> = connection.directions.iter().filter_map(kept).collect();
    let is_cut = !kept.is_empty()
        && connection
            .directions
            .iter()
            .any(|direction| direction.kept_share.is_some_and(|share| share < 1.0))
        && kept.iter().all(|bytes| *bytes < RECOGNISED_BYTES);
    (at_port && is_cut).then(|| {
        "port 3260 is that of iSCSI, and too few bytes of its packets were kept for a header".to_owned()
    })
}

/// Captures of whole packets of this connection's target, at this interface.
fn commands(connection: &Connection, totals: &CaptureTotals) -> Vec<String> {
    let [_, target] = &connection.directions;
    let number = target.interface;
    let interface = totals.interfaces.iter().find(|interface| interface.number == number);
    let name = interface.map(|interface| interface.name.as_str()).filter(|name| is_plain(name));
    let (device, port) = (name.unwrap_or("DEVICE"), target.from.rsplit(':').next().unwrap_or("3260"));
    vec![
        format!("farlun capture -i {device} -o seen --snap 262144 --filter 'tcp port {port}'"),
        format!("tcpdump -i {device} -s 0 -B 65536 -w seen.pcap 'tcp port {port}'"),
    ]
}

/// True for a name that a shell takes as it is.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || ".-_@:".contains(c))
        && !name.starts_with('-')
}
