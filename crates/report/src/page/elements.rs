//! Elements of a page: sections, figures with their legend, drawings, commands to copy, chips.

use std::fmt::Write;

use crate::figures::figure::Figure;
use crate::figures::line_style::legend;
use crate::format::escape;
use crate::interactive::Drawing;
use crate::tables::layout::Mark;

/// The command that draws this page again.
pub(crate) fn rebuild(command_line: &str) -> String {
    let text = "Every figure comes from the tables in the run directory. This command draws the page again:";
    section("rebuild", "Rebuild", text, &command(command_line))
}

pub(crate) fn section(id: &str, title: &str, text: &str, body: &str) -> String {
    let text =
        if text.is_empty() { String::new() } else { format!("<p class=\"note\">{}</p>", escape(text)) };
    format!("<section id=\"{id}\">\n<h2>{}</h2>\n{text}{body}\n</section>\n", escape(title))
}

pub(crate) fn drawing(figure: &Figure, class: &str) -> String {
    let label = escape(&figure.title);
    format!(
        "<div class=\"plot {class}\" id=\"{}\" role=\"img\" aria-label=\"{label}\"></div>",
        escape(&figure.id)
    )
}

pub(crate) fn command(line: &str) -> String {
    format!("<div class=\"command\"><pre>{}</pre><button type=\"button\">Copy</button></div>", escape(line))
}

pub(crate) fn chip(mark: Mark, text: &str) -> String {
    let class = match mark {
        Mark::Good => "good",
        Mark::Bad => "bad",
        Mark::Open => "open",
    };
    format!("<span class=\"chip {class}\">{} {}</span>", mark.symbol(), escape(text))
}

/// Figures side by side. Not every one has all of their lines; one legend above serves them all.
pub(crate) fn panels(figures: &[Figure], size: &str) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let wide = if size == "medium" { " wide" } else { "" };
    let mut panels = legend(figures.iter().flat_map(|figure| &figure.legend));
    let _ = write!(panels, "<div class=\"panels{wide}\">");
    for figure in figures {
        let caption = escape(&figure.title);
        let _ =
            write!(panels, "<figure><figcaption>{caption}</figcaption>{}</figure>", drawing(figure, size));
    }
    panels + "</div>"
}

pub(crate) fn part(out: &mut String, title: &str, text: &str, drawing: &str) {
    let _ = write!(out, "<h3>{}</h3><p class=\"note\">{}</p>{drawing}", escape(title), escape(text));
}

pub(crate) fn place(drawing: &Drawing) -> String {
    let (id, label) = (escape(&drawing.id), escape(&drawing.title));
    format!("<div class=\"drawing\" id=\"{id}\" role=\"group\" aria-label=\"{label}\"></div>")
}
