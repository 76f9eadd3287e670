//! Styles of the lines of a figure, all different, and their legend.

use std::fmt::Write;

use crate::format::escape;

/// Colours of lines that have none of their own (`assets/page.css`).
const COLOURS: usize = 6;
/// Marker symbols; their number has no common divisor with that of the colours.
const SYMBOLS: [&str; 7] = ["circle", "square", "diamond", "triangle-up", "cross", "x", "star"];
/// Dash styles for the first, second, … use of all colours.
const AGAIN: [&str; 3] = ["solid", "longdash", "longdashdot"];
/// Dash style of reference lines.
pub(crate) const REFERENCE: &str = "longdash";

/// A line: its load, its policy, and its other differences from other lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) load: &'a str,
    pub(crate) rest: &'a str,
    pub(crate) policy: Option<&'a str>,
}

/// A line as it is drawn. Colours are names of CSS variables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stroke {
    pub(crate) colour: String,
    pub(crate) dash: &'static str,
    pub(crate) symbol: &'static str,
}

/// A line of a legend that stands outside of its figure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) colour: String,
    pub(crate) dash: &'static str,
}

/// One style for each line. The first line of a load with a colour has that colour; lines that differ in their policy
/// alone share a colour and differ in their dashes.
pub(crate) fn strokes<'a>(lines: &[Line<'a>]) -> Vec<Stroke> {
    let mut hues: Vec<(&'a str, &'a str)> = Vec::new();
    let mut looks: Vec<(String, &'static str)> = Vec::new();
    let mut others = 0;
    let one = |(n, line): (usize, &Line<'a>)| {
        let hue = (line.load, line.rest);
        let place = hues.iter().position(|known| *known == hue).unwrap_or_else(|| {
            let has_own = matches!(line.load, "stream" | "read" | "write");
            let is_first = hues.iter().all(|(load, _)| *load != line.load);
            looks.push(if has_own && is_first {
                (format!("var(--{})", line.load), AGAIN[0])
            } else {
                others += 1;
                let (round, colour) = ((others - 1) / COLOURS, (others - 1) % COLOURS + 1);
                (format!("var(--other-{colour})"), AGAIN[round % AGAIN.len()])
            });
            hues.push(hue);
            hues.len() - 1
        });
        let (colour, usual) = &looks[place];
        let dash = match line.policy {
            Some("none") => "dot",
            Some("study") => "dashdot",
            Some("pace") => "dash",
            _ => usual,
        };
        Stroke { colour: colour.clone(), dash, symbol: SYMBOLS[n % SYMBOLS.len()] }
    };
    lines.iter().enumerate().map(one).collect()
}

impl Key {
    pub(crate) fn solid(name: &str, colour: &str) -> Key {
        Key { name: name.to_owned(), colour: colour.to_owned(), dash: AGAIN[0] }
    }
}

/// The legend above figures that have these lines, or some of them.
pub(crate) fn legend<'a>(keys: impl Iterator<Item = &'a Key>) -> String {
    let mut all: Vec<&Key> = Vec::new();
    keys.for_each(|key| {
        if !all.contains(&key) {
            all.push(key);
        }
    });
    let mut out = String::new();
    for Key { name, colour, dash } in all {
        let dashes = match *dash {
            "dot" => "2 3",
            "dash" => "7 4",
            "dashdot" => "7 3 2 3",
            "longdash" => "11 4",
            "longdashdot" => "11 3 2 3",
            _ => "none",
        };
        let _ = write!(
            out,
            "<span><svg width=\"30\" height=\"6\" aria-hidden=\"true\"><path d=\"M0 3h30\" \
             style=\"stroke:{colour};stroke-dasharray:{dashes}\"/></svg>{}</span>",
            escape(name)
        );
    }
    if out.is_empty() { out } else { format!("<p class=\"legend\">{out}</p>") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_lines_look_alike() {
        let rests: Vec<String> = (0..17).map(|n| format!("at {n}")).collect();
        let policies = [Some("none"), Some("study"), Some("pace"), Some("auto")];
        let of_read = rests[..2].iter().flat_map(|rest| policies.map(|policy| ("read", rest, policy)));
        let others = rests.iter().map(|rest| ("lossy", rest, None));
        let lines: Vec<Line> =
            of_read.chain(others).map(|(load, rest, policy)| Line { load, rest, policy }).collect();
        let looks: Vec<(String, &str)> =
            strokes(&lines).into_iter().map(|stroke| (stroke.colour, stroke.dash)).collect();
        assert_eq!(looks[0], ("var(--read)".to_owned(), "dot"));
        assert_eq!(
            looks[3],
            ("var(--read)".to_owned(), "solid"),
            "one load under several policies has one colour"
        );
        let differ = looks.iter().enumerate().all(|(n, look)| !looks[..n].contains(look));
        assert!(differ, "{looks:?}");
    }

    #[test]
    fn a_legend_names_each_line_once_with_its_dashes() {
        let keys = [
            Key::solid("a<b", "red"),
            Key { dash: "dot", ..Key::solid("c", "red") },
            Key::solid("a<b", "red"),
        ];
        let html = legend(keys.iter());
        assert_eq!(html.matches("<span>").count(), 2);
        assert!(html.contains("a&lt;b") && html.contains("stroke-dasharray:2 3"), "{html}");
        assert_eq!(legend([].iter()), "");
    }
}
