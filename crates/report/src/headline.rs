//! The gist of a run in plain words: the first thing a reader sees, on the page and in a terminal.

use analysis::{RunSummary, Share, Tour};

use crate::doctor;
use crate::format::{duration, percent, plain};
use crate::tables;

/// Loads that a sentence about single requests names.
const NAMED: usize = 3;

/// Share of the line that the loads reach, in one sentence: "Read reaches 97 % and write 96 % of the line at 100 ms
/// round trip." For a plan of single requests, their latency.
pub fn headline(tour: &Tour) -> String {
    if let Some(verdict) = doctor::headline(tour) {
        return verdict;
    }
    let gist = &tour.gist;
    if !gist.valid {
        return match gist.invalid_repeats {
            0 => "This run is not valid: it did not come to its end.".to_owned(),
            _ if is_stopped(tour) => "This run is not valid: it did not come to its end.".to_owned(),
            n => format!("This run is not valid: {n} of {} measurements yield no figure.", gist.repeats),
        };
    }
    let own = || gist.shares.iter().filter(|share| !share.compared);
    let storage: Vec<&Share> = own().filter(|share| share.op != "stream").collect();
    let shares = if storage.is_empty() { own().collect() } else { storage };
    let shares: Vec<&Share> = if shares.is_empty() { gist.shares.iter().collect() } else { shares };
    let beside = gist.shares.iter().filter(|share| share.compared && !shares.is_empty());
    let beside: Vec<&Share> =
        beside.filter(|share| shares.iter().all(|own| own.load != share.load)).collect();
    let whole = is_unvalidated(gist);
    let name = |load: &str, is_unvalidated: bool| tables::marked(load, is_unvalidated && !whole);
    let prefix = if whole { "Unvalidated: " } else { "" };
    let parts: Vec<String> = shares
        .iter()
        .enumerate()
        .map(|(i, share)| {
            let verb = if i == 0 { "reaches " } else { "" };
            format!("{} {verb}{}", name(&share.load, share.unvalidated), percent(share.of_line))
        })
        .collect();
    let requests = gist.requests.iter().take(NAMED).enumerate().map(|(i, requests)| {
        let verb = if i == 0 { "takes " } else { "" };
        let trips =
            requests.round_trips.map_or_else(String::new, |trips| format!(" ({} round trips)", plain(trips)));
        let load = name(&requests.load, requests.unvalidated);
        format!("{load} {verb}{}{trips} a request", duration(requests.latency_s))
    });
    let requests: Vec<String> = requests.collect();
    let sentence = match (gist.rtt_s, parts.is_empty(), requests.is_empty()) {
        (Some(rtt_s), false, _) => {
            let beside = beside
                .iter()
                .map(|share| format!("{} {}", name(&share.load, share.unvalidated), percent(share.of_line)));
            let beside: Vec<String> = beside.collect();
            let beside = if beside.is_empty() { String::new() } else { format!(", {}", list(beside)) };
            format!("{} of the line at {} round trip{beside}.", list(parts), duration(rtt_s))
        }
        (Some(rtt_s), true, false) => format!("{} at {} round trip.", list(requests), duration(rtt_s)),
        _ => match gist.repeats {
            1 => "One measurement.".to_owned(),
            n => format!("{n} measurements."),
        },
    };
    format!("{prefix}{}", capital(&sentence))
}

/// True if no figure of the run is validated.
pub(crate) fn is_unvalidated(gist: &RunSummary) -> bool {
    let valid = gist.repeats - gist.invalid_repeats.min(gist.repeats);
    valid > 0 && gist.unvalidated_repeats == valid
}

/// Further facts in one line: the baseline, the checks, and the validity of the run.
pub fn standing(tour: &Tour) -> String {
    if let Some(standing) = doctor::standing(tour) {
        return standing;
    }
    let gist = &tour.gist;
    let mut sentences = Vec::new();
    if let Some(stream) = baseline(gist).filter(|_| gist.valid) {
        sentences.push(format!("A raw TCP stream on the same path: {}.", percent(stream.of_line)));
    }
    let unmeasured = gist.unmeasured_checks;
    let measured = gist.checks - unmeasured.min(gist.checks);
    sentences.push(match (gist.checks, gist.failed_checks) {
        (n, _) if n > 0 && measured == 0 => "No check of the plan was measured.".to_owned(),
        (n, 0) if unmeasured > 0 => {
            format!(
                "{measured} of the plan's {n} checks hold, {unmeasured} {} not measured.",
                was(unmeasured)
            )
        }
        (n, failed) if unmeasured > 0 => format!(
            "{failed} of the plan's {n} checks {} not hold, {unmeasured} {} not measured.",
            if failed == 1 { "does" } else { "do" },
            was(unmeasured)
        ),
        (0, _) if is_stopped(tour) => "What the plan expects of it was not looked at.".to_owned(),
        (0, _) => "The plan expects nothing of it.".to_owned(),
        (1, 0) => "The plan's one check holds.".to_owned(),
        (n, 0) => format!("All {n} checks of the plan hold."),
        (1, _) => "The plan's one check does not hold.".to_owned(),
        (n, failed) => {
            format!("{failed} of the plan's {n} checks {} not hold.", if failed == 1 { "does" } else { "do" })
        }
    });
    sentences.extend(tour.run.left_out.iter().map(|reason| format!("{}.", capital(reason))));
    if gist.unvalidated_repeats > 0 {
        let n = gist.unvalidated_repeats;
        sentences.push(format!(
            "Nothing judged the path of {n} of {} measurements (validity off): their figures are not validated.",
            gist.repeats
        ));
    }
    match (gist.valid, gist.invalid_repeats) {
        (true, 0) if gist.unvalidated_repeats > 0 => {}
        (true, 0) => sentences.push("Every measurement is valid.".to_owned()),
        (true, n) => {
            sentences.push(format!("{n} of {} measurements {} not valid and left out.", gist.repeats, is(n)));
        }
        (false, 0) => {}
        (false, _) => sentences.push("The reasons stand with the measurements below.".to_owned()),
    }
    sentences.join(" ")
}

/// True if the run was interrupted: checks are evaluated after the last cell.
fn is_stopped(tour: &Tour) -> bool {
    let expects = tour.run.plan["expect"].as_array().is_some_and(|list| !list.is_empty());
    expects && tour.gist.checks == 0 && !tour.gist.valid
}

fn was(n: usize) -> &'static str {
    if n == 1 { "was" } else { "were" }
}

fn is(n: usize) -> &'static str {
    if n == 1 { "is" } else { "are" }
}

/// Baseline: the stream's share of the line, unless the headline has it already.
fn baseline(gist: &RunSummary) -> Option<&Share> {
    let only_streams = gist.shares.iter().all(|share| share.op == "stream");
    gist.shares.iter().find(|share| share.op == "stream" && !only_streams)
}

fn list(mut parts: Vec<String>) -> String {
    match parts.pop() {
        Some(last) if !parts.is_empty() => format!("{} and {last}", parts.join(", ")),
        last => last.unwrap_or_default(),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use analysis::Requests;
    use analysis::manifest::Run;

    use super::*;

    fn tour(shares: &[(&str, &str, f64)], checks: usize, failed_checks: usize, valid: bool) -> Tour {
        let share = |(load, op, of_line): &(&str, &str, f64)| Share {
            load: (*load).into(),
            op: (*op).into(),
            of_line: *of_line,
            unvalidated: false,
            compared: false,
        };
        Tour {
            run: Run { plan_name: "tour".to_owned(), ..Run::default() },
            gist: RunSummary {
                rtt_s: Some(0.1),
                shares: shares.iter().map(share).collect(),
                valid,
                invalid_repeats: usize::from(!valid) * 2,
                repeats: 9,
                failed_checks,
                checks,
                ..RunSummary::default()
            },
            cells: Vec::new(),
        }
    }

    fn check(tour: &Tour, first: &str, second: &str) {
        assert_eq!(headline(tour).replace('\u{202f}', " "), first);
        assert_eq!(standing(tour).replace('\u{202f}', " "), second);
    }

    #[test]
    fn sentences() {
        check(
            &tour(
                &[("stream", "stream", 0.981), ("read", "read", 0.972), ("write", "write", 0.965)],
                12,
                0,
                true,
            ),
            "Read reaches 97 % and write 96 % of the line at 100 ms round trip.",
            "A raw TCP stream on the same path: 98 %. All 12 checks of the plan hold. Every measurement is valid.",
        );
        check(
            &tour(&[("tcp", "stream", 0.5)], 3, 1, true),
            "Tcp reaches 50 % of the line at 100 ms round trip.",
            "1 of the plan's 3 checks does not hold. Every measurement is valid.",
        );
        check(
            &tour(&[], 0, 0, false),
            "This run is not valid: 2 of 9 measurements yield no figure.",
            "The plan expects nothing of it. The reasons stand with the measurements below.",
        );
        let mut stopped = tour(&[], 0, 0, false);
        stopped.run.plan = serde_json::json!({"expect": [{}]});
        check(
            &stopped,
            "This run is not valid: it did not come to its end.",
            "What the plan expects of it was not looked at. The reasons stand with the measurements below.",
        );
        let mut waived = tour(&[("db", "read", 0.5)], 3, 0, true);
        (waived.gist.unvalidated_repeats, waived.gist.unmeasured_checks) = (9, 3);
        check(
            &waived,
            "Unvalidated: Db reaches 50 % of the line at 100 ms round trip.",
            "No check of the plan was measured. Nothing judged the path of 9 of 9 measurements (validity off): their \
             figures are not validated.",
        );
        waived.gist.unvalidated_repeats = 1;
        waived.gist.shares[0].unvalidated = true;
        assert!(headline(&waived).starts_with("Db (unvalidated) reaches 50"), "{}", headline(&waived));
        let mut beside = tour(&[("read", "read", 0.97), ("lan_defaults", "read", 0.17)], 0, 0, true);
        beside.gist.shares[1].compared = true;
        beside.run.left_out = vec!["tgt_libiscsi is left out: tgt is not installed".to_owned()];
        check(
            &beside,
            "Read reaches 97 % of the line at 100 ms round trip, lan_defaults 17 %.",
            "The plan expects nothing of it. Tgt_libiscsi is left out: tgt is not installed. Every measurement is valid.",
        );
        let mut partly = tour(&[("db", "read", 0.5)], 3, 1, true);
        partly.gist.unmeasured_checks = 1;
        let said = standing(&partly);
        assert!(said.starts_with("1 of the plan's 3 checks does not hold, 1 was not measured."), "{said}");
        partly.gist.failed_checks = 0;
        let said = standing(&partly);
        assert!(said.starts_with("2 of the plan's 3 checks hold, 1 was not measured."), "{said}");
        let mut single = tour(&[], 0, 0, true);
        single.gist.requests = vec![Requests {
            load: "db".to_owned(),
            latency_s: 0.105,
            round_trips: Some(1.05),
            unvalidated: false,
        }];
        check(
            &single,
            "Db takes 105 ms (1.05 round trips) a request at 100 ms round trip.",
            "The plan expects nothing of it. Every measurement is valid.",
        );
        stopped.gist.invalid_repeats = 0;
        assert_eq!(standing(&stopped), "What the plan expects of it was not looked at.");
    }
}
