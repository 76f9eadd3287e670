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
/// Attempts at one stretch that a lost session spoils.
const PASSES_MAX: u32 = 8;

/// Discard the blocks of a LUN, so that its store has their room back (UNMAP)
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  farlun discard iscsi://10.0.0.7/iqn.2026-11.io.farlun:scratch/0 --overwrite
  farlun discard iscsi://10.0.0.7/iqn.2026-11.io.farlun:scratch/0 --offset 1GiB --length 16GiB --overwrite

What is in the range is lost, so nothing is done without --overwrite. Each command covers as much as the LUN takes (VPD page
B0h). Done means durable: the target's cache is synchronised at the end.")]
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
    let (mut commands, mut durable_bytes, mut passes) = (0, 0, 0);
    while durable_bytes < range.len_bytes {
        let stretch_bytes =
            (range.len_bytes - durable_bytes).min(limits.max_bytes().saturating_mul(STRETCH_COMMANDS));
        let stretch = Range { offset_bytes: range.offset_bytes + durable_bytes, len_bytes: stretch_bytes };
        let resets = disk.session().resets();
        let mut progress = |done| bar.set_position(durable_bytes + done);
        let client = disk.client();
        let mut work = Discard::new(stretch, limits, client.buffers(), &mut progress);
        let result = client.run(&mut work);
        commands += work.commands();
        let partly = || {
            format!(
                "the range is only partly discarded: {} of {} are durable",
                Bytes(durable_bytes),
                Bytes(range.len_bytes)
            )
        };
        if let Err(error) = result.and_then(|()| disk.synchronize()) {
            bar.finish_and_clear();
            return Err(failed(error).context(partly()));
        }
        // A target that was restarted or reset in between has lost what it had not made durable.
        if disk.session().resets() == resets {
            (durable_bytes, passes) = (durable_bytes + stretch_bytes, 0);
            continue;
        }
        passes += 1;
        if passes == PASSES_MAX {
            bar.finish_and_clear();
            return Err(anyhow!(
                "the session was lost or reset in each of {PASSES_MAX} attempts at {} bytes, expected one without; look at the \
                 target and the line, then discard the rest from --offset {}",
                stretch_bytes,
                stretch.offset_bytes
            )
            .context(partly()));
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
