//! The result of the matrix as text: the confusion table and every case that went wrong, for people.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use diagnosis::Limiter;

use super::score::{Pair, Score, Single};

/// File of the text in the run directory.
pub(super) const FILE: &str = "doctor.md";

/// The whole as Markdown.
pub(super) fn text(score: &Score) -> String {
    let mut text = String::new();
    summary(&mut text, score);
    confusion(&mut text, score);
    singles(&mut text, &score.singles);
    pairs(&mut text, &score.pairs);
    let _ = writeln!(text, "\n| fix of | predicted ÷ measured |\n|---|---|");
    for prediction in score.predictions() {
        let _ = writeln!(
            text,
            "| {} ({}) | {:.2} |",
            prediction.name,
            prediction.limiter.name(),
            prediction.ratio
        );
    }
    text
}

/// Numbers of right ones, as the checks count them.
fn summary(text: &mut String, score: &Score) {
    let [singles, pairs, predictions] = score.right();
    let _ =
        writeln!(text, "| of single limiters | of pairs | predictions within 0.8 to 1.25 |\n|---|---|---|");
    let part = |(right, of): (usize, usize)| format!("{right} of {of}");
    let _ = writeln!(text, "| {} | {} | {} |\n", part(singles), part(pairs), part(predictions));
}

/// A row for each injected limiter, with the named ones and their number.
fn confusion(text: &mut String, score: &Score) {
    let table = score.confusion();
    let _ = writeln!(text, "| put in | said |\n|---|---|");
    let put: BTreeSet<Limiter> = table.keys().map(|(put, _)| *put).collect();
    for row in put {
        let said = table.iter().filter(|((put, _), _)| *put == row);
        let said: Vec<String> = said.map(|((_, said), n)| format!("{} {n}", said.name())).collect();
        let _ = writeln!(text, "| {} | {} |", row.name(), said.join(", "));
    }
}

fn singles(text: &mut String, singles: &[Single]) {
    let _ = writeln!(text, "\n| case | said | best knob | | right |\n|---|---|---|---|---|");
    for single in singles {
        let best = single.best();
        let name = best.map_or("nothing to gain", |(limiter, _)| limiter.name());
        let gains = best.map_or_else(String::new, |(_, gain)| {
            format!("×{:.2}, that of the verdict ×{:.2}", 1.0 + gain, 1.0 + single.gain(single.verdict()))
        });
        let right = if single.is_right() { "yes" } else { "**no**" };
        let _ =
            writeln!(text, "| {} | {} | {name} | {gains} | {right} |", single.name, single.verdict().name());
    }
}

fn pairs(text: &mut String, pairs: &[Pair]) {
    let _ = writeln!(text, "\n| pair | said first, then | right |\n|---|---|---|");
    for pair in pairs {
        let said: Vec<&str> = pair.verdicts().iter().map(|limiter| limiter.name()).collect();
        let right = if pair.is_right() { "yes" } else { "**no**" };
        let _ = writeln!(text, "| {} | {} | {right} |", pair.name, said.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_none_of_none() {
        let text = text(&Score::default());
        assert!(text.contains("| 0 of 0 | 0 of 0 | 0 of 0 |"), "{text}");
    }
}
