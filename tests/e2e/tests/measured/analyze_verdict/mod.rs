//! Captures of loads whose limiter is known, because it was put there: the verdict names it.
//!
//! All of them take minutes; without `FARLUN_LONG` some are tried.

mod cases;
mod variants;

use std::path::Path;

use e2e::tap::analyzed;
use e2e::{decide, need, path, skip, tgtd};

use self::cases::{Case, foreign, long, short};

/// Right in so many of a hundred at least.
const RIGHT_PERCENT: usize = 90;

/// Verdict on one case: it is right, the validity of its run, and the verdict in words.
fn judge(folder: &Path, case: &Case) -> (bool, Result<(), String>, String) {
    let (file, validity) = case.tap.judged(folder, &case.name.replace([' ', ','], "-"));
    let capture = analyzed(&file);
    let connections = capture["connections"].as_array().expect("connections");
    // What our own initiator asks first goes over a connection of its own.
    let completed = |c: &&serde_json::Value| e2e::tap::count(&c["iscsi"]["commands"]["completed"]);
    let busiest = connections.iter().max_by_key(completed).expect("a connection");
    let first = &busiest["diagnosis"]["verdicts"][0];
    let found = first["limiter"].as_str().unwrap_or("nothing").to_owned();
    let remedies = first["remedies"].as_array().map_or(0, Vec::len);
    assert_eq!(remedies == 0, found == "link-rate", "{}: {first}", case.name);
    let right = case.right.contains(&found.as_str());
    let about = format!("{}: {found} {} (expected {:?})", case.name, first["share"], case.right);
    let about = match right {
        true => about,
        false => format!("{about}\n{}\n{}", busiest["iscsi"]["time"], busiest["diagnosis"]),
    };
    (right, validity, about)
}

#[test]
fn the_verdict_names_what_was_put_there() {
    need!(path::available(), skip::program("tcpdump"));
    let _turn = path::turn();
    let folder = tempfile::tempdir().expect("a folder");
    let mut cases = short();
    if skip::is_long() {
        need!(tgtd::available(), skip::qemu_iscsi());
        cases.extend(long());
        cases.extend(foreign());
    }
    let judged: Vec<_> = cases.iter().map(|case| judge(folder.path(), case)).collect();
    judged.iter().for_each(|(.., about)| println!("{about}"));
    // A busy machine adds limiters of its own: what it spoiled is undecided, each case by itself.
    let spoilt = judged.iter().filter(|(right, validity, _)| !right && validity.is_err());
    spoilt.for_each(|(right, validity, about)| decide!(*right, validity.clone(), "{about}"));
    let counted = judged.iter().filter(|(right, validity, _)| *right || validity.is_ok());
    let wrong: Vec<&str> =
        counted.clone().filter(|(right, ..)| !right).map(|(.., about)| about.as_str()).collect();
    let all = counted.count();
    decide!(
        (all - wrong.len()) * 100 >= all * RIGHT_PERCENT,
        Ok(()),
        "{} of {all} are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
