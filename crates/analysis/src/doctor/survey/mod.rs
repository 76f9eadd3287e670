//! Facts from the tables of a run, and from nothing else: no plan, no parameters and no configuration is read.

mod line;
mod login;
mod question;
mod requests;
mod transport;

use std::path::{Path, PathBuf};

use diagnosis::{Facts, Performance};
use event::{Host, Op};
use tables::TableError;

use crate::layers;

pub use question::Question;

/// Hosts at each end of a path at most.
const MOST_HOSTS: u32 = 16;

/// The facts of a load, from the tables in `dir` and in the directories of further hosts below it; `None` if no request
/// was recorded there.
pub fn survey(dir: &Path, question: Question) -> Result<Option<Facts>, TableError> {
    let dirs = hosts(dir, question.hosts.unwrap_or([MOST_HOSTS; 2]));
    let Some(seen) = requests::seen(&dirs, question)? else { return Ok(None) };
    let is_write = seen.op == Op::Write;
    let mut facts = Facts {
        is_write,
        requests: seen.count,
        request_bytes: seen.request_bytes,
        current: Performance { bytes_per_s: seen.bytes_per_s, latency_s: seen.latency_s },
        sessions: 1.0,
        outstanding: seen.outstanding,
        ..Facts::default()
    };
    // The window is of the near host's clock.
    let clock = layers::clock(&dirs)?;
    requests::stages(&dirs, &seen, &clock, &mut facts)?;
    let sender = if is_write { Host::Near } else { Host::Far };
    transport::fill(&dirs, seen.window, sender, &clock, &mut facts)?;
    login::fill(&dirs, sender, &mut facts)?;
    line::fill(dir, seen.window, question.hosts, &mut facts)?;
    unknown(&mut facts, clock.is_unknown());
    Ok(Some(facts))
}

/// The directory, and those of further hosts below it, at most so many at each end.
fn hosts(dir: &Path, [near, far]: [u32; 2]) -> Vec<PathBuf> {
    let further = |end: &'static str, count: u32| {
        (2..=count.min(MOST_HOSTS)).map(move |n| dir.join(format!("{end}{n}")))
    };
    let below = further("near", near).chain(further("far", far)).filter(|dir| dir.is_dir());
    std::iter::once(dir.to_owned()).chain(below).collect()
}

/// Notes facts without records, and those of the far end if its times `cannot_be_related` to the near end's.
fn unknown(facts: &mut Facts, cannot_be_related: bool) {
    let mut say = |is_missing: bool, what: &str| {
        if is_missing {
            facts.cannot_know.push(what.to_owned());
        }
    };
    let end = if facts.is_write { "the initiator's" } else { "the target's" };
    let has_sender = facts.sender.is_some() || (cannot_be_related && !facts.is_write);
    let has_target = facts.stages.target.is_some() || cannot_be_related;
    say(
        cannot_be_related,
        "the times of the two ends contradict each other, however far their clocks are apart, so that the far end's are \
         not looked at: are the tables of both ends of one and the same run?",
    );
    say(
        !has_sender,
        &format!(
            "nothing was recorded at {end} end, which sends the data: whether its congestion window, its buffer, its \
             pacing or its CPU limits cannot be told apart"
        ),
    );
    say(
        !has_target,
        "nothing was recorded inside the target: its queue and its store are part of the path, for all that is seen here",
    );
    say(
        facts.agreed.is_none(),
        "what was agreed at the login was not recorded: R2Ts are only seen by their round trips",
    );
    say(
        facts.path.line_busy.is_none(),
        "the packets of the path were not recorded: its rate is the best that TCP saw, and may be more",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_what_competes_are_none_of_the_loads() {
        let dir = tempfile::tempdir().expect("a directory");
        for below in ["near2", "near3", "far2"] {
            std::fs::create_dir(dir.path().join(below)).expect("a directory");
        }
        assert_eq!(hosts(dir.path(), [2, 1]), [dir.path().to_owned(), dir.path().join("near2")]);
        assert_eq!(hosts(dir.path(), [MOST_HOSTS; 2]).len(), 4);
    }
}
