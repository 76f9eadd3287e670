//! `farlun discard`: room of a LUN given back to its store.

use anyhow::anyhow;
use clap::Args;
use event::Bytes;
use initiator::{Discard, Range};
use net::clock;
use serde_json::json;

use crate::command::read::range;
use crate::exit::{DONE, Exit};
use crate::session::{SessionArgs, bytes_bar, close, failed, open};

/// Commands between two flushes: a lost session costs no more than these again.
const STRETCH_COMMANDS: u64 = 256;
/// Attempts at one stretch.
const ATTEMPTS_MAX: u32 = 8;

/// Discard the blocks of a LUN, so that its store has their room back (UNMAP)
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  farlun discard iscsi://10.0.0.7/iqn.2026-11.io.farlun:scratch/0 --overwrite
  farlun discard iscsi://10.0.0.7/iqn.2026-11.io.farlun:scratch/0 --offset 1GiB --length 16GiB --overwrite

The data of the range is lost, so nothing is done without --overwrite. Each command covers as much as the LUN takes (VPD page
B0h), 64 GiB at most. Done means durable: the target's cache is synchronised after every 256 commands and at the end.")]
pub(crate) struct DiscardArgs {
    /// iscsi://HOST[:PORT]/IQN/LUN
    url: String,
    /// First byte on the LUN
    #[arg(long, value_name = "SIZE", default_value = "0")]
    offset: Bytes,
    /// Length of the range [default: to the end of the LUN]
    #[arg(long, value_name = "SIZE")]
    length: Option<Bytes>,
    /// Discard what is on the LUN; without it nothing is ever discarded
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    session: SessionArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: DiscardArgs) -> anyhow::Result<u8> {
    if !args.overwrite {
        return Err(Exit::usage(
            "discard loses what is on the LUN, expected --overwrite; add it if that data may go",
        ));
    }
    let mut disk = open(&args.url, &args.session.options()?)?;
    let range = range(&disk, args.offset, args.length)?;
    let Some(limits) = disk.unmap_limits().map_err(failed)? else {
        return Err(anyhow!(
            "found no UNMAP in the LUN's VPD pages B0h and B2h, expected a thinly provisioned LUN; nothing was \
             discarded, make it one (docs of its target), or write zeros"
        ));
    };
    let bar = bytes_bar(range.len_bytes);
    let started = clock::now();
    let mut commands = 0;
    let mut stretches = Stretches::new(range, limits.max_bytes().saturating_mul(STRETCH_COMMANDS));
    while let Some(stretch) = stretches.next() {
        let resets = disk.session().resets();
        let durable_bytes = stretches.durable_bytes;
        let mut progress = |done| bar.set_position(durable_bytes + done);
        let client = disk.client();
        let mut work = Discard::new(stretch, limits, client.buffers(), &mut progress);
        let result = client.run(&mut work);
        commands += work.commands();
        let result = result.and_then(|()| disk.synchronize()).map_err(failed);
        // A target that was restarted or reset in between has lost the changes that were not durable.
        let result = result.and_then(|()| stretches.end(disk.session().resets() == resets));
        if let Err(error) = result {
            bar.finish_and_clear();
            return Err(error.context(format!(
                "the range is only partly discarded: {} of {} are durable",
                Bytes(durable_bytes),
                Bytes(range.len_bytes)
            )));
        }
    }
    bar.finish_and_clear();
    let elapsed = clock::now().since(started);
    let (reconnects, is_flushed) = (disk.session().reconnects(), !disk.session().is_without_flush());
    close(disk)?;
    if args.json {
        let document = json!({
            "bytes": range.len_bytes,
            "seconds": elapsed.as_secs_f64(),
            "commands": commands,
            "command_max_bytes": limits.max_bytes(),
            "reconnects": reconnects,
            "flushed": is_flushed,
        });
        say!("{document}");
    } else {
        say!(
            "{} discarded in {:.1} s, {commands} commands of {} at most",
            Bytes(range.len_bytes),
            elapsed.as_secs_f64(),
            Bytes(limits.max_bytes())
        );
    }
    Ok(DONE)
}

/// Parts of a range that are made durable one after the other.
struct Stretches {
    range: Range,
    stretch_bytes: u64,
    durable_bytes: u64,
    /// Attempts at the present stretch that a lost session has spoiled.
    spoiled: u32,
}

impl Stretches {
    fn new(range: Range, stretch_bytes: u64) -> Stretches {
        Stretches { range, stretch_bytes, durable_bytes: 0, spoiled: 0 }
    }

    /// Next stretch, or the same one again; `None` at the end of the range.
    fn next(&self) -> Option<Range> {
        let len_bytes = (self.range.len_bytes - self.durable_bytes).min(self.stretch_bytes);
        let offset_bytes = self.range.offset_bytes + self.durable_bytes;
        (len_bytes > 0).then_some(Range { offset_bytes, len_bytes })
    }

    /// Ends an attempt at the stretch. Its blocks are durable if the session was neither lost nor reset meanwhile.
    fn end(&mut self, is_durable: bool) -> anyhow::Result<()> {
        let Some(stretch) = self.next() else { return Ok(()) };
        if is_durable {
            (self.durable_bytes, self.spoiled) = (self.durable_bytes + stretch.len_bytes, 0);
            return Ok(());
        }
        self.spoiled += 1;
        if self.spoiled < ATTEMPTS_MAX {
            return Ok(());
        }
        Err(anyhow!(
            "the session was lost or reset in each of {ATTEMPTS_MAX} attempts at {}, expected one without; look at the target and \
             the line, then go on with --offset {}",
            Bytes(stretch.len_bytes),
            stretch.offset_bytes
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretches() -> Stretches {
        Stretches::new(Range { offset_bytes: 1_000, len_bytes: 250 }, 100)
    }

    #[test]
    fn a_lost_session_costs_one_stretch() {
        let mut stretches = stretches();
        let mut tried = Vec::new();
        for is_durable in [true, false, true, true] {
            let Range { offset_bytes, len_bytes } = stretches.next().expect("a stretch is left");
            tried.push((offset_bytes, len_bytes));
            stretches.end(is_durable).expect("one loss is no end");
        }
        assert_eq!(tried, [(1_000, 100), (1_100, 100), (1_100, 100), (1_200, 50)]);
        assert!(stretches.next().is_none());
    }

    #[test]
    fn attempts_without_progress_end() {
        let mut stretches = stretches();
        stretches.end(true).expect("the first stretch is durable");
        for _ in 1..ATTEMPTS_MAX {
            stretches.end(false).expect("there are more attempts");
        }
        let said = stretches.end(false).expect_err("none was good").to_string();
        assert!(said.contains("attempts at 100") && said.ends_with("go on with --offset 1100"), "{said}");
    }
}
