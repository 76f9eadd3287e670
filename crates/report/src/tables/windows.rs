//! Windows of both ends of each bulk load, beside those of the study of a stream around the world at the same round
//! trip.

use analysis::windows::{Published, published_at};
use analysis::{CellResult, Tour};

use super::layout::{Column, Field, Table};
use super::run::{load, place};
use crate::format::{NONE, optional};

/// Name of the table in a plan's `draw`.
const NAME: &str = "ends";

/// Windows, rate, ramp and CPU time of every bulk load; `None` unless the plan asks for it.
pub(crate) fn table(tour: &Tour) -> Option<Table> {
    let asked = tour.run.plan["draw"].as_array().is_some_and(|list| list.iter().any(|word| word == NAME));
    let cells: Vec<&CellResult> = tour.cells.iter().filter(|cell| asked && cell.bulk).collect();
    let columns = vec![
        Column::text("load"),
        Column::text("at"),
        Column::number("rate × RTT", "MB"),
        Column::number("sender's window", "MB"),
        Column::number("receiver's window", "MB"),
        Column::number("line", "Gb/s"),
        Column::number("rate", "Gb/s"),
        Column::number("of the line", "%"),
        Column::number("full after", "s"),
        Column::number("CPU of sender", "%"),
        Column::number("of receiver", "%"),
        Column::number("of the path", "%"),
        Column::text("limited by"),
        Column::number("the study: windows", "MB"),
        Column::number("its rate", "Gb/s"),
        Column::number("full after", "s"),
        Column::number("its CPU", "%"),
    ];
    (!cells.is_empty()).then(|| Table { columns, rows: cells.iter().map(|cell| row(cell)).collect() })
}

fn row(cell: &CellResult) -> Vec<Field> {
    let of_load = |name: &str| cell.values.get(name).map(|spread| spread.median);
    let of_line = |name: &str| cell.line.get(name).map(|spread| spread.median);
    let shown = |value: Option<f64>, scale: f64, places: usize| {
        Field::new(optional(value.map(|value| value * scale), places))
    };
    // Its stream went over IPv6 in packets of 9 KB; nothing else of ours has a counterpart there.
    let study = of_line("rtt").filter(|_| cell.op == "stream").and_then(published_at);
    let of_study =
        |text: &dyn Fn(&Published) -> String| Field::new(study.map_or_else(|| NONE.to_owned(), text));
    vec![
        Field::new(load(cell)),
        Field::new(place(cell)),
        shown(of_line("bdp"), 1e-6, 1),
        shown(of_load("window_sender"), 1e-6, 1),
        shown(of_load("window_receiver"), 1e-6, 1),
        shown(of_line("rate"), 1e-9, 3),
        shown(of_load("throughput"), 1e-9, 3),
        shown(of_load("share_of_line"), 100.0, 1),
        shown(of_load("ramp"), 1.0, 1),
        shown(of_load("cpu_sender"), 100.0, 0),
        shown(of_load("cpu_receiver"), 100.0, 0),
        shown(of_load("cpu_path"), 100.0, 0),
        Field::new(cell.limit.as_deref().unwrap_or(NONE)),
        of_study(&|published| {
            format!("{:.0} / {:.0}", published.sender_bytes / 1e6, published.receiver_bytes / 1e6)
        }),
        of_study(&|published| format!("{:.2}", published.bits_per_s / 1e9)),
        of_study(&|published| format!("{:.0}", published.full_s)),
        of_study(&|published| {
            let [sender, receiver] = published.cpu.map(|share| share * 100.0);
            format!("{sender:.0} / {receiver:.0}")
        }),
    ]
}

#[cfg(test)]
mod tests {
    use analysis::Spread;
    use serde_json::json;

    use super::*;
    use crate::tables::layout::Colour;

    #[test]
    fn the_study_stands_beside_the_streams_of_its_round_trips() {
        let one = |value| Spread { median: value, min: value, max: value, repeats: 1 };
        let cell = |op: &str, rtt_s: f64| CellResult {
            load: op.to_owned(),
            op: op.to_owned(),
            bulk: true,
            line: [("rtt", one(rtt_s)), ("bdp", one(340e6)), ("rate", one(5.44e9))].into(),
            values: [
                ("window_sender", one(350.04e6)),
                ("throughput", one(5.37e9)),
                ("cpu_sender", one(0.612)),
            ]
            .into(),
            limit: (op == "stream").then(|| "sender-cpu".to_owned()),
            ..CellResult::default()
        };
        let mut tour = Tour {
            run: analysis::manifest::Run::default(),
            gist: analysis::RunSummary::default(),
            cells: vec![cell("stream", 0.5), cell("read", 0.5), cell("stream", 0.8)],
        };
        assert!(table(&tour).is_none(), "nobody asked");
        tour.run.plan = json!({"draw": ["rate", "ends"]});
        let text = table(&tour).unwrap().text(Colour::Never);
        let lines: Vec<Vec<&str>> =
            text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        let ours = ["340.0", "350.0", NONE, "5.440", "5.370", NONE, NONE, "61", NONE, NONE];
        assert_eq!(lines[0][1..11], ours);
        assert_eq!(lines[0][11..], ["sender-cpu", "400", "/", "500", "7.12", "50", "100", "/", "60"]);
        assert_eq!((&lines[1][1..11], &lines[1][11..]), (&ours[..], &[NONE; 5][..]));
        assert_eq!(lines[2][11..], ["sender-cpu", NONE, NONE, NONE, NONE]);
    }
}
