//! `farlun read`: a LUN, or part of it, into a file.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use event::Bytes;
use initiator::{BulkError, Disk, Range, ToFile};
use net::clock;
use serde_json::json;

use crate::exit::{DONE, Exit};
use crate::output::Output;
use crate::session::{BulkArgs, bytes_bar, close, connections_words, failed, open};

/// Read a LUN into a file
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  farlun read iscsi://10.0.0.7/iqn.2026-11.io.farlun:store/0 -o store.img

The file is called FILE.partial until all of it is there.")]
pub(crate) struct ReadArgs {
    /// iscsi://HOST[:PORT]/IQN/LUN
    url: String,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// First byte on the LUN
    #[arg(long, value_name = "SIZE", default_value = "0")]
    offset: Bytes,
    /// How much [default: to the end of the LUN]
    #[arg(long, value_name = "SIZE")]
    length: Option<Bytes>,
    #[command(flatten)]
    session: BulkArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Length of a request.
pub(crate) const BLOCK_BYTES: u32 = 1 << 20;

pub(crate) fn run(args: ReadArgs) -> anyhow::Result<u8> {
    let mut disk = open(&args.url, &args.session.options()?)?;
    let range = range(&disk, args.offset, args.length)?;
    let (output, file) = Output::create(&args.output)?;
    let partial = output.partial();
    let bar = bytes_bar(range.len_bytes);
    let started = clock::now();
    let mut progress = |done| bar.set_position(done);
    let block_bytes = BLOCK_BYTES.min(disk.transfer_max_bytes());
    let geometry = disk.geometry();
    let client = disk.client();
    let mut work = ToFile::new(range, block_bytes, geometry, client.buffers(), file, &mut progress)?;
    let result = client.run(&mut work).and_then(|()| work.finish().map_err(BulkError::File));
    let done_bytes = work.done_bytes();
    bar.finish_and_clear();
    result.map_err(|error| {
        let error = match error {
            BulkError::Session(error) => failed(error),
            BulkError::File(error) => anyhow!("cannot write {}: {error}", partial.display()),
        };
        error.context(format!(
            "{} of {} were read; they are in {}, which has holes where blocks are missing",
            Bytes(done_bytes),
            Bytes(range.len_bytes),
            partial.display()
        ))
    })?;
    output.finish()?;
    let elapsed = clock::now().since(started);
    let (connections, reconnects) = (disk.session().connections(), disk.session().reconnects());
    let is_chosen = disk.session().chooses_connections();
    let trace = close(disk)?;
    let rate = range.len_bytes as f64 / elapsed.as_secs_f64();
    if args.json {
        let seconds = elapsed.as_secs_f64();
        let document = json!({
            "bytes": range.len_bytes,
            "seconds": seconds,
            "bytes_per_s": rate,
            "connections": connections,
            "chose_connections": is_chosen,
            "reconnects": reconnects,
            "trace": trace,
        });
        say!("{document}");
    } else {
        let size = Bytes(range.len_bytes);
        say!("{}: {size} in {:.1} s, {:.1} MB/s", args.output.display(), elapsed.as_secs_f64(), rate / 1e6);
        if let Some(words) = connections_words(connections.into(), is_chosen) {
            say!("connections: {words}");
        }
    }
    Ok(DONE)
}

/// The part of the LUN that is meant.
pub(crate) fn range(disk: &Disk, offset: Bytes, length: Option<Bytes>) -> anyhow::Result<Range> {
    let (len, block) = (disk.len_bytes(), u64::from(disk.block_len_bytes()));
    if offset.0 > len || !offset.0.is_multiple_of(block) {
        return Err(Exit::usage(format!(
            "--offset {}: expected a multiple of {block} bytes within the LUN's {len} bytes",
            offset.0
        )));
    }
    let len_bytes = length.map_or(len - offset.0, |length| length.0);
    if len_bytes > len - offset.0 || !len_bytes.is_multiple_of(block) {
        return Err(Exit::usage(format!(
            "--length {len_bytes}: expected a multiple of {block} bytes, at most the {} bytes from --offset to \
             the end of the LUN",
            len - offset.0
        )));
    }
    Ok(Range { offset_bytes: offset.0, len_bytes })
}
