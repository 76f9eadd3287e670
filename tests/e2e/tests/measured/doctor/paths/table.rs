//! The result of the paths as a table.

use super::live::Judged;

/// Every path with its judgement.
pub(super) fn text(judged: &[Judged]) -> String {
    let head = "| path | rate, MB/s | said | figure | gain said | gain of it | best of others than the line | right | exact | doctor, s |\n\
                |---|---|---|---|---|---|---|---|---|---|\n";
    let rows: Vec<String> = judged.iter().map(row).collect();
    head.to_owned() + &rows.join("\n") + "\n"
}

/// One path.
pub(super) fn row(judged: &Judged) -> String {
    let said = judged.predicted.map_or("–".to_owned(), |predicted| format!("×{predicted:.2}"));
    let exact = judged.is_exact().map_or("", |is_exact| if is_exact { "yes" } else { "**no**" });
    let right = match (judged.is_right(), &judged.validity) {
        (true, Ok(())) => "yes",
        (false, Ok(())) => "**no**",
        (true, Err(_)) => "(yes, run not valid)",
        (false, Err(_)) => "(no, run not valid)",
    };
    format!(
        "| {} | {:.2} | {} | {} | {said} | ×{:.2} | ×{:.2} | {right} | {exact} | {:.0} |",
        judged.name,
        judged.bytes_per_s / 1e6,
        judged.said,
        judged.certainty,
        judged.gain(),
        judged.best(),
        judged.seconds,
    )
}
