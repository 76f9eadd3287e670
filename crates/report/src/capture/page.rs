//! A capture as one HTML page.

use analysis::capture::{DiagnosedCapture, DiagnosedConnection};
use analysis::diagram::Diagram;
use analysis::gaps::capture::Found;
use dissect::{ConnectionSummary, Dissection, TimeUse};
use serde_json::{Value, json};

use super::{
    about, beyond, contents, events, headline, interfaces, reservations, seen, sentences, shown, tables,
    verdict,
};
use crate::figures::figure::Figure;
use crate::format::escape;
use crate::gaps;
use crate::interactive::Drawing;
use crate::page::{self, part, section};
use crate::tables::layout::Mark;

const PACKETS: &str = "Packets from the middle of the busiest connection. The tap saw each once: when it left and when it \
                       arrived is estimated by half of the fastest round trip between the tap and that end; whether it \
                       arrived is not known. Drag to zoom, from seconds to microseconds; point at an arrow for the PDUs and \
                       bytes in it.";
const GAPS: &str = "Time between a packet and the one before, of the direction that carried most, from its first packets on: where it \
                    was sent and where it was received, if the capture shows both. docs/reference/gaps.md says how causes are distinguished.";
const EVENTS: &str = "Refusals, errors, aborts, ends of sessions, and reports of packets that did not arrive, by kind; times since the \
                      first packet. docs/reference/analyze.md says where each comes from.";
const TIME: &str = "Every stretch between two packets of a connection is somebody's; docs/reference/analyze.md says how it is told.";

/// Draws a capture of `files` as one HTML document. `rebuild` is the command that draws it again.
pub fn html(
    capture: &DiagnosedCapture,
    diagram: Option<&Diagram>,
    found: Option<&Found>,
    files: &[String],
    rebuild: &str,
) -> String {
    let events = events(capture);
    let (shown, capture) = (shown(capture), capture.dissection());
    let time = time(&shown);
    let packets = diagram.map(Drawing::of_packets);
    let between =
        found.and_then(|found| found.gaps.as_ref()).map_or_else(Vec::new, |gaps| gaps::figures(1, gaps));
    let figures = time.iter().chain(&between).map(Figure::json);
    let figures = figures.chain(packets.iter().map(Drawing::json)).collect::<Value>();
    let mut body = vec![head(capture, &shown, files)];
    body.push(verdicts(&shown));
    body.extend(events);
    if let Some(time) = &time {
        body.push(section("time", "Where the time went", TIME, &page::drawing(time, "medium")));
    }
    if let Some(packets) = &packets {
        let mut drawing = String::new();
        part(&mut drawing, &packets.title, PACKETS, &page::place(packets));
        body.push(section("packets", "Packets", "", &drawing));
    }
    body.extend(found.and_then(|found| of_gaps(found, &between)));
    let drawn = (1..).zip(tables::further(&shown)).map(|(n, table)| table.html(&format!("table-{n}")));
    let drawn = drawn.collect::<String>();
    for (id, title, inside) in
        [("tables", "Tables", drawn), ("more", "What else is known", facts(capture, &shown))]
    {
        if !inside.is_empty() {
            body.push(section(id, title, "", &inside));
        }
    }
    body.push(section("rebuild", "Rebuild", "This command draws the page again:", &page::command(rebuild)));
    page::document(&format!("farlun · {}", headline(capture)), &body.concat(), &figures)
}

fn of_gaps(found: &Found, figures: &[Figure]) -> Option<String> {
    let mut said = vec![gaps::whose(found)?];
    said.extend(found.gaps.iter().flat_map(gaps::sentences));
    let items = said.iter().map(|text| format!("<li>{}</li>", escape(text))).collect::<String>();
    let drawn = found.gaps.as_ref().map_or_else(String::new, |gaps| {
        format!("{}{}", gaps::table(gaps).html("table-gaps"), page::panels(figures, "small"))
    });
    Some(section("gaps", "Gaps between packets", GAPS, &format!("<ul>{items}</ul>{drawn}")))
}

fn head(capture: &Dissection, shown: &[(usize, DiagnosedConnection<'_>)], files: &[String]) -> String {
    let lacks = shown.first().is_some_and(|(_, connection)| connection.shortage.is_some());
    let title = if lacks { Some(seen::TITLE.to_owned()) } else { about::title(shown) };
    let title = title.unwrap_or_else(|| headline(capture));
    let chips = reservations(capture).iter().map(|text| page::chip(Mark::Bad, text)).collect::<String>();
    let facts = contents::all(&capture.totals).into_iter().chain(interfaces(capture));
    let facts = facts.map(|text| format!("<p class=\"note\">{}</p>\n", escape(&text))).collect::<String>();
    format!(
        "<header>\n{}<h1>{}</h1>\n<p class=\"lead\">{}</p>\n{facts}\
         {}<p class=\"chips\">{chips}</p>\n{}</header>\n",
        about::brand(capture, shown, files),
        escape(&title),
        escape(&headline(capture)),
        seen::html(shown),
        about::fix(shown),
    )
}

fn verdicts(shown: &[(usize, DiagnosedConnection<'_>)]) -> String {
    let Some(table) = verdict::table(shown) else { return String::new() };
    let text = "What limits each connection, as far as one tap can tell, and what it would reach without it; below, what \
                shows it and what to change.";
    section("verdict", "Verdict", text, &(table.html("table-verdict") + &verdict::html(shown)))
}

/// Events of all connections.
fn events(capture: &DiagnosedCapture) -> Option<String> {
    let table = events::table(capture)?.html("table-events");
    let beyond = events::beyond(capture).map_or_else(String::new, |text| format!("<p>{}</p>", escape(&text)));
    Some(section("events", "Events", EVENTS, &(table + &beyond)))
}

fn facts(capture: &Dissection, shown: &[(usize, DiagnosedConnection<'_>)]) -> String {
    let beyond = beyond(capture).map_or_else(String::new, |text| format!("<p>{}</p>", escape(&text)));
    list(shown, |connection| sentences::all(capture, connection)) + &beyond
}

fn list(
    shown: &[(usize, DiagnosedConnection<'_>)],
    sentences: impl Fn(&ConnectionSummary) -> Vec<String>,
) -> String {
    let item = |number: usize, text: &str| format!("<li>{number}: {}</li>", escape(text));
    let items = shown.iter().flat_map(|(number, connection)| {
        let number = *number;
        sentences(connection.summary).into_iter().map(move |text| item(number, &text)).collect::<Vec<_>>()
    });
    let items = items.collect::<String>();
    if items.is_empty() { items } else { format!("<ul>{items}</ul>") }
}

/// One bar for each connection, its parts laid end to end.
fn time(shown: &[(usize, DiagnosedConnection<'_>)]) -> Option<Figure> {
    let rows: Vec<_> =
        shown.iter().filter_map(|(number, c)| Some((*number, c.summary.iscsi.as_ref()?.time?))).collect();
    let names: Vec<String> = rows.iter().map(|(number, _)| format!("connection {number}")).collect();
    let column = |pick: fn(&TimeUse) -> f64| rows.iter().map(|(_, time)| pick(time)).collect::<Vec<_>>();
    let parts = [
        ("not known", "var(--line)", column(|time| time.unseen_s)),
        ("no command", "var(--soft)", column(|time| time.idle_s)),
        ("on the way", "var(--way)", column(|time| time.way_s)),
        ("on the way, for an R2T", "var(--r2t)", column(|time| time.r2t_s)),
        ("on the way, command window closed", "var(--layer-wire)", column(|time| time.closed_s)),
        ("target", "var(--far)", column(|time| time.target_s)),
        ("initiator", "var(--near)", column(|time| time.initiator_s)),
        ("commands refused", "var(--other-2)", column(|time| time.refused_s)),
        ("sending", "var(--other-4)", column(|time| time.sending_s)),
        ("receive window", "var(--data-out)", column(|time| time.receive_window_s)),
        ("sending again", "var(--bad)", column(|time| time.recovery_s)),
    ];
    let traces = parts.into_iter().filter(|(_, _, values)| values.iter().any(|s| *s > 0.0));
    let traces: Vec<Value> = traces
        .map(|(name, colour, values)| {
            json!({
                "type": "bar", "orientation": "h", "name": name, "x": values, "y": names,
                "marker": {"color": colour}, "hovertemplate": format!("%{{x:.3f}} s<extra>{name}</extra>"),
            })
        })
        .collect();
    (!traces.is_empty()).then(|| Figure {
        id: "fig-time".to_owned(),
        title: "Where the time went".to_owned(),
        traces,
        layout: json!({
            "barmode": "stack",
            "xaxis": {"title": {"text": "s"}},
            "yaxis": {"autorange": "reversed", "title": {"text": ""}},
        }),
        legend: Vec::new(),
    })
}
