//! Frame of every page: head, content security policy, style, scripts and the data of its figures.

use serde_json::Value;

use crate::format::escape;

const PLOTLY: &str = include_str!("../../assets/plotly-basic.min.js");
const STYLE: &str = include_str!("../../assets/page.css");
const SCRIPT: &str = include_str!("../../assets/page.js");
/// Draws requests and packets.
const INTERACTIVE: &str = include_str!("../../assets/interactive.js");
/// Runs before every other script.
const WATCH: &str = include_str!("../../assets/watch.js");

/// A page around the given parts.
pub(crate) fn document(title: &str, body: &str, figures: &Value) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; \
         style-src 'unsafe-inline'; img-src data: blob:\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n\
         <script>{WATCH}</script>\n\
         </head>\n<body>\n<main>\n{body}\n</main>\n\
         <script type=\"application/json\" id=\"figures\">{figures}</script>\n\
         <script>{PLOTLY}</script>\n<script>{INTERACTIVE}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        title = escape(title),
        // Inside a script element markup could end the data; JSON has another way to write it.
        figures = figures.to_string().replace('<', "\\u003c"),
    )
}
