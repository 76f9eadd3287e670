//! The sections about the inside of cells: layers, requests, packets.

use std::fmt::Write;

use super::elements::{panels, part, place, section};
use crate::figures::figure::Figure;
use crate::format::escape;
use crate::interactive::Inside;

/// Loads against a number that the plan varies.
pub(super) fn against(figures: &[Figure]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let text = "Medians; bars span the repeats.";
    section("against", "What the plan varies", text, &panels(figures, "medium"))
}

/// One section per cell; the first with layers is open.
pub(super) fn layers(cells: &[Inside]) -> String {
    if cells.is_empty() {
        return String::new();
    }
    let mut body = String::new();
    let first = cells.iter().position(|cell| cell.in_flight.is_some()).unwrap_or(0);
    for (n, cell) in cells.iter().enumerate() {
        let open = if n == first { " open" } else { "" };
        let doubtful = if cell.doubts.is_empty() { "" } else { " <span class=\"doubt\">see the note</span>" };
        let _ = write!(
            body,
            "<details class=\"inside\"{open}><summary><b>{}</b> <span class=\"place\">{}</span> {}{doubtful}</summary>",
            escape(&cell.name),
            escape(&cell.place),
            escape(&cell.gist),
        );
        cell.doubts.iter().for_each(|doubt| {
            let _ = write!(body, "<p class=\"doubt\">{}</p>", escape(doubt));
        });
        for sentence in &cell.devices {
            let _ = write!(body, "<p class=\"note\">{}</p>", escape(sentence));
        }
        if let Some(drawing) = &cell.in_flight {
            part(&mut body, &drawing.title, IN_FLIGHT, &place(drawing));
        }
        if let Some(whose) = &cell.whose {
            let _ = write!(body, "<p class=\"note\">{}</p>", escape(whose));
        }
        if let Some(table) = &cell.residence {
            body.push_str(&table.html(&format!("table-layers-{}", n + 1)));
        }
        for (drawing, text) in [(&cell.request, REQUEST), (&cell.packets, PACKETS)] {
            if let Some(drawing) = drawing {
                part(&mut body, &drawing.title, text, &place(drawing));
            }
        }
        if let Some((sentences, table, figures)) = &cell.gaps {
            let mut drawn = String::from("<ul>");
            for sentence in sentences {
                let _ = write!(drawn, "<li>{}</li>", escape(sentence));
            }
            drawn.push_str("</ul>");
            drawn.push_str(&table.html(&format!("table-gaps-{}", n + 1)));
            drawn.push_str(&panels(figures, "small"));
            part(&mut body, "Gaps between packets", GAPS, &drawn);
        }
        body.push_str("</details>");
    }
    let text = "Where requests are between the caller and the store, and back. docs/internals/layers.md says how to read these pictures.";
    section("layers", "Layers", text, &body)
}

const IN_FLIGHT: &str = "Handed to a layer less come back from it. Lines that lie on each other are drawn wide for outer layers and \
                         narrow for inner ones: where a narrow line leaves the wide one, requests wait. The shaded stretch is \
                         what the figures are of. Below, how many are handed to one layer in a second, and how many come back. \
                         Drag to zoom, double-click to go back, click the legend to show or hide.";
const REQUEST: &str = "Left: requests by their latency; click one. Right: its stages, which add up to the latency. Blue is the \
                       initiator, grey the way between the hosts, orange the target.";
const PACKETS: &str = "Packets and super-packets of the busiest connection, some thousand from the median request on, from the host \
                       that sent them to the one that got them. Drag to zoom, from seconds to microseconds; point at an arrow for the PDUs and bytes in it.";

const GAPS: &str = "Time between a packet and the one before, where it was sent and where it was received. A band is a gap that \
                    many have; a lattice are beginnings that keep a clock. docs/notebook/gaps.md says how causes are told apart.";
