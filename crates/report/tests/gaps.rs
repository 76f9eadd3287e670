//! Gaps and comparisons on a page: they are in it and draw without an error.

mod browser;

use std::path::PathBuf;

use analysis::compare::Comparison;
use analysis::gaps::{Drawing, Gaps, Passage};
use analysis::manifest::Run;
use analysis::{CellResult, Repeat, RunSummary, Tour};
use browser::View;
use report::terminal::Colour;

const US: u64 = 1_000;
const VIEW: View = View { width_pixels: 1280, height_pixels: 2_400, dark: false };

/// Numbers from 0 to 1 that look like chance.
fn chance(n: u64) -> f64 {
    let z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z >> 11) as f64 / (1_u64 << 53) as f64
}

/// Packets at chance's times; acknowledgements leave the path on a lattice of `frame_us`, or as they came.
fn gaps(frame_us: u64) -> Gaps {
    let (mut data, mut acks) = (Vec::new(), Vec::new());
    let mut at = 0.0;
    for n in 0..40_000 {
        at -= 24_000.0 * (1.0 - chance(n)).ln();
        let (sent_ns, due_ns) = (at as u64, at as u64 + 5_000 * US);
        data.push(passage(sent_ns, due_ns, 1_538));
        if n % 2 == 1 {
            let came_ns = due_ns + 5_003 * US;
            let frame_ns = (frame_us * US).max(1);
            acks.push(passage(due_ns + 3 * US, came_ns.div_ceil(frame_ns) * frame_ns, 2_896));
        }
    }
    Gaps::of(&data, &acks, Drawing { origin_ns: 0, points: 1_000 }).unwrap()
}

fn passage(sent_ns: u64, due_ns: u64, bytes: u32) -> Passage {
    Passage { sent_ns, arrived_ns: Some((due_ns, due_ns)), bytes, segments: 1, unseen_ns: 0 }
}

fn tour(frame_us: u64, rate: f64) -> Tour {
    let repeat = Repeat {
        repeat: 1,
        valid: true,
        window_s: Some((0.0, 10.0)),
        rate: (0..100).map(|n| (n as f64 / 10.0, rate * (1.0 + chance(n) / 50.0))).collect(),
        gaps: Some(gaps(frame_us)),
        ..Repeat::default()
    };
    let cell = CellResult {
        slug: "stream".to_owned(),
        load: "stream".to_owned(),
        op: "stream".to_owned(),
        bulk: true,
        repeats: vec![repeat],
        ..CellResult::default()
    };
    let run = Run { plan_name: "gaps".to_owned(), valid: true, ..Run::default() };
    Tour { run, gist: RunSummary { valid: true, repeats: 1, ..RunSummary::default() }, cells: vec![cell] }
}

#[test]
fn gaps_are_named_and_drawn() {
    let page = report::html(&tour(125, 9e8), "farlun report runs/gaps");
    assert!(page.contains("on a lattice of 125\u{202f}µs that their sender did not make"), "the sentence");
    for id in [
        "fig-gaps-1-data-time",
        "fig-gaps-1-data-zoom",
        "fig-gaps-1-acks-linear",
        "fig-gaps-1-acks-log",
        "table-gaps-1",
    ] {
        assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
    }
    draws("gaps.html", &page, "8");
    let mut silent = tour(125, 9e8);
    silent.run.plan = serde_json::json!({"draw": ["rate"]});
    assert!(!report::html(&silent, "farlun report runs/gaps").contains("fig-gaps"));
}

#[test]
fn two_paths_stand_side_by_side() {
    let comparison = Comparison::of([&tour(0, 9e8), &tour(125, 9e8)]).unwrap();
    let text = report::compare::text(&comparison, Colour::Never);
    assert!(
        text.contains("only the gaps of the second show a line that packs acknowledgements together"),
        "{text}"
    );
    let outcome = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
    assert!(outcome("throughput").ends_with("are alike"), "{text}");
    assert!(outcome("acks_together").ends_with("differ"), "{text}");
    assert!(outcome("gap of ACKs, sent").ends_with("are alike"), "{text}");
    let page = report::compare::html(&comparison, "farlun compare a b --page c.html");
    draws("compare.html", &page, "4");
}

fn draws(name: &str, page: &str, figures: &str) {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, page).unwrap();
    // Without a part that is closed, all is drawn from the beginning.
    let drawn = if page.contains("<details") {
        browser::dom_at(&path, "#all", VIEW)
    } else {
        browser::dom(&path, VIEW)
    };
    let dom = match drawn {
        Ok(dom) => dom,
        Err(reason) => return println!("skipped: {name}: {reason}"),
    };
    let attribute =
        |name: &str| dom.split(&format!(" {name}=\"")).nth(1).and_then(|rest| rest.split('"').next());
    assert_eq!((attribute("data-errors"), attribute("data-ready")), (None, Some("1")));
    browser::screenshot(&path, VIEW, &path.with_extension("png")).unwrap();
    assert_eq!((attribute("data-figures"), attribute("data-later")), (Some(figures), Some("0")));
}
