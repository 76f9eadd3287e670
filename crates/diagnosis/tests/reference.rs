//! `docs/reference/limiters.md` against the enum: a section for every limiter, with its title, layer, instruments and next step.

use diagnosis::{Instrument, LIMITERS, Limiter};

/// Name, title, layer, instruments and next step of each section, without code marks.
fn sections(text: &str) -> Vec<Vec<String>> {
    text.split("\n### ").skip(1).map(section).collect()
}

fn section(text: &str) -> Vec<String> {
    let text = text.split("\n## ").next().unwrap_or_default().replace('`', "");
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut rest = words.join(" ");
    let mut fields = Vec::new();
    for mark in [" - Meaning: ", ". - Layer: ", ". Seen by: ", ". - Remedy: "] {
        let (before, after) =
            rest.split_once(mark).unwrap_or_else(|| panic!("no '{mark}' in a section: {text}"));
        fields.push(before.to_owned());
        rest = after.to_owned();
    }
    let remedy = rest.split(" - Example: ").next().unwrap_or_default();
    fields.push(remedy.trim_end_matches('.').to_owned());
    fields
}

fn expected(limiter: Limiter) -> Vec<String> {
    let seen_by: Vec<&str> = limiter.seen_by().iter().copied().map(Instrument::name).collect();
    vec![
        limiter.name().to_owned(),
        limiter.title().to_owned(),
        limiter.layer().name().to_owned(),
        seen_by.join(", "),
        limiter.next_step().to_owned(),
    ]
}

#[test]
fn the_reference_lists_every_limiter_in_the_order_of_the_enum() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/limiters.md");
    let text = std::fs::read_to_string(path).expect("docs/reference/limiters.md");
    let sections = sections(&text);
    for (section, limiter) in sections.iter().zip(LIMITERS) {
        assert_eq!(*section, expected(*limiter), "docs/reference/limiters.md, section `{}`", limiter.name());
    }
    assert_eq!(sections.len(), LIMITERS.len(), "sections of docs/reference/limiters.md and limiters");
}
