//! `docs/reference/limiters.md` against the enum: a row for every limiter, with its title, layer, instruments and next step.

use diagnosis::{Instrument, LIMITERS, Limiter};

/// Cells of the table's rows, without the two lines of its head and without code marks.
fn rows(text: &str) -> Vec<Vec<String>> {
    let lines = text.lines().filter(|line| line.starts_with('|')).skip(2);
    let cells =
        |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect();
    lines.map(cells).collect()
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
    let rows = rows(&text);
    for (row, limiter) in rows.iter().zip(LIMITERS) {
        assert_eq!(*row, expected(*limiter), "docs/reference/limiters.md, row of `{}`", limiter.name());
    }
    assert_eq!(rows.len(), LIMITERS.len(), "rows of docs/reference/limiters.md and limiters");
}
