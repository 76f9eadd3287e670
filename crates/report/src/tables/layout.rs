//! One table, drawn as HTML or as text with the same columns, units and alignment.

use std::fmt::Write;

use crate::format::escape;

/// A table of texts.
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Field>>,
}

/// A column: its title, the unit of its numbers, and how it is aligned.
pub(crate) struct Column {
    title: &'static str,
    unit: &'static str,
    number: bool,
}

/// A field of a row.
pub(crate) struct Field {
    text: String,
    mark: Option<Mark>,
}

/// Answer where good or bad is the question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mark {
    Good,
    Bad,
    /// Not measured: neither.
    Open,
}

impl Mark {
    pub(crate) const fn of(ok: bool) -> Mark {
        if ok { Mark::Good } else { Mark::Bad }
    }

    pub(crate) const fn symbol(self) -> &'static str {
        match self {
            Mark::Good => "✓",
            Mark::Bad => "✗",
            Mark::Open => "–",
        }
    }
}

/// Use of colour in text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Colour {
    /// No escape sequences.
    Never,
    /// ANSI colours.
    Ansi,
}

impl Column {
    pub(crate) const fn text(title: &'static str) -> Column {
        Column { title, unit: "", number: false }
    }

    pub(crate) const fn number(title: &'static str, unit: &'static str) -> Column {
        Column { title, unit, number: true }
    }
}

impl Field {
    pub(crate) fn new(text: impl Into<String>) -> Field {
        Field { text: text.into(), mark: None }
    }

    pub(crate) fn mark(mark: Mark) -> Field {
        Field { text: mark.symbol().to_owned(), mark: Some(mark) }
    }
}

impl Table {
    /// The table as a `table` element in a scrolling box.
    pub(crate) fn html(&self, id: &str) -> String {
        let mut out = format!("<div class=\"scroll\"><table id=\"{id}\"><thead><tr>");
        for column in &self.columns {
            let class = if column.number { " class=\"n\"" } else { "" };
            let _ = write!(out, "<th scope=\"col\"{class}>{}", escape(column.title));
            if !column.unit.is_empty() {
                let _ = write!(out, "<span class=\"unit\">{}</span>", escape(column.unit));
            }
            out.push_str("</th>");
        }
        out.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            out.push_str("<tr>");
            for (field, column) in row.iter().zip(&self.columns) {
                let class = match (field.mark, column.number) {
                    (Some(Mark::Good), _) => " class=\"ok\"",
                    (Some(Mark::Bad), _) => " class=\"bad\"",
                    (Some(Mark::Open), _) => " class=\"open\"",
                    (None, true) => " class=\"n\"",
                    (None, false) => "",
                };
                let _ = write!(out, "<td{class}>{}</td>", escape(&field.text));
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></div>");
        out
    }

    /// The table as lines of text, two spaces between columns.
    pub(crate) fn text(&self, colour: Colour) -> String {
        let titles = self.columns.iter().map(|c| match c.unit {
            "" => c.title.to_owned(),
            unit => format!("{}, {unit}", c.title),
        });
        let titles: Vec<String> = titles.collect();
        let cell = |row: usize, column: usize| self.rows[row].get(column).map_or("", |f| f.text.as_str());
        let width = |column: usize| {
            let widest = (0..self.rows.len()).map(|row| cell(row, column).chars().count()).max();
            widest.unwrap_or(0).max(titles[column].chars().count())
        };
        let widths: Vec<usize> = (0..titles.len()).map(width).collect();
        let pad = |text: &str, column: usize| {
            let gap = " ".repeat(widths[column].saturating_sub(text.chars().count()));
            if self.columns[column].number { format!("{gap}{text}") } else { format!("{text}{gap}") }
        };
        let line = |fields: Vec<String>| format!("{}\n", format!("  {}", fields.join("  ")).trim_end());
        let head =
            (0..titles.len()).map(|column| paint(&pad(&titles[column], column), "2", colour)).collect();
        let mut out = line(head);
        for (row, fields) in self.rows.iter().enumerate() {
            let drawn = (0..titles.len()).map(|column| {
                let text = pad(cell(row, column), column);
                match fields.get(column).and_then(|f| f.mark) {
                    Some(Mark::Good) => paint(&text, "32", colour),
                    Some(Mark::Bad) => paint(&text, "31", colour),
                    Some(Mark::Open) => paint(&text, "2", colour),
                    None => text,
                }
            });
            out.push_str(&line(drawn.collect()));
        }
        out
    }
}

/// Wraps text in an ANSI style.
pub(crate) fn paint(text: &str, style: &str, colour: Colour) -> String {
    match colour {
        Colour::Never => text.to_owned(),
        Colour::Ansi => format!("\x1b[{style}m{text}\x1b[0m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table {
            columns: vec![Column::text("load"), Column::number("rate", "Mb/s"), Column::text("ok")],
            rows: vec![
                vec![Field::new("read <b>"), Field::new("941.5"), Field::mark(Mark::Good)],
                vec![Field::new("w"), Field::new("7.0"), Field::mark(Mark::Bad)],
            ],
        }
    }

    #[test]
    fn text_lines_up() {
        let expected = "  load      rate, Mb/s  ok\n  read <b>       941.5  ✓\n  w                7.0  ✗\n";
        assert_eq!(table().text(Colour::Never), expected);
        assert!(table().text(Colour::Ansi).contains("\x1b[31m✗ \x1b[0m"));
    }

    #[test]
    fn html_is_escaped() {
        let html = table().html("t");
        assert!(
            html.contains("<td>read &lt;b&gt;</td><td class=\"n\">941.5</td><td class=\"ok\">✓</td>"),
            "{html}"
        );
    }
}
