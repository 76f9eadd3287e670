//! `farlun write`: a file onto a LUN.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::Args;
use event::Bytes;
use initiator::{BulkError, FromFile, Range};
use net::clock;
use serde_json::json;

use crate::command::read::BLOCK_BYTES;
use crate::exit::{DONE, Exit};
use crate::session::{BulkArgs, bytes_bar, close, connections_words, failed, open};

/// Write a file onto a LUN
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  farlun write iscsi://10.0.0.7/iqn.2026-11.io.farlun:store/0 -i store.img

Done means durable: the target's cache is synchronised every GiB and at the end. What was written since the last
time is written again if the session is lost and made again.")]
pub(crate) struct WriteArgs {
    /// iscsi://HOST[:PORT]/IQN/LUN
    url: String,
    /// The file to read
    #[arg(short, long, value_name = "FILE")]
    input: PathBuf,
    /// First byte on the LUN
    #[arg(long, value_name = "SIZE", default_value = "0")]
    offset: Bytes,
    /// How much of the file, from its start [default: all]
    #[arg(long, value_name = "SIZE")]
    length: Option<Bytes>,
    #[command(flatten)]
    session: BulkArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: WriteArgs) -> anyhow::Result<u8> {
    let name = args.input.display();
    // Looked at first: to open a pipe is to wait for whoever writes into it.
    let kind = std::fs::metadata(&args.input).with_context(|| format!("cannot look at {name}"))?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(Exit::usage(format!(
            "{name}: expected a regular file or a block device, whose end is known"
        )));
    }
    let mut file = File::open(&args.input).with_context(|| format!("cannot open {name}"))?;
    let file_bytes = file.seek(SeekFrom::End(0)).with_context(|| format!("cannot look at {name}"))?;
    file.rewind()?;
    let len_bytes = args.length.map_or(file_bytes, |length| length.0);
    if len_bytes > file_bytes {
        return Err(Exit::usage(format!("--length {len_bytes}: {name} has only {file_bytes} bytes")));
    }
    let mut disk = open(&args.url, &args.session.options()?)?;
    let (offset, lun_bytes, block) = (args.offset.0, disk.len_bytes(), u64::from(disk.block_len_bytes()));
    if !offset.is_multiple_of(block) || offset > lun_bytes {
        return Err(Exit::usage(format!(
            "--offset {offset}: expected a multiple of {block} bytes within the LUN's {lun_bytes} bytes"
        )));
    }
    if len_bytes > lun_bytes - offset {
        return Err(anyhow!(
            "{name}: {len_bytes} bytes do not fit: the LUN has {} bytes from offset {offset} on; nothing was \
             written (give --length to write only a part)",
            lun_bytes - offset
        ));
    }
    let whole = Range { offset_bytes: offset, len_bytes: len_bytes - len_bytes % block };
    let bar = bytes_bar(whole.len_bytes);
    let started = clock::now();
    let mut progress = |done| bar.set_position(done);
    let block_bytes = BLOCK_BYTES.min(disk.transfer_max_bytes());
    let geometry = disk.geometry();
    let tail_of = file.try_clone()?;
    let client = disk.client();
    let mut work = FromFile::new(whole, block_bytes, geometry, client.buffers(), file, &mut progress)?;
    let result = client.run(&mut work);
    let result = match work.failure() {
        Some(error) => Err(BulkError::File(error)),
        None => result,
    };
    let done_bytes = work.done_bytes();
    bar.finish_and_clear();
    let finished = result.and_then(|()| {
        let tail_bytes = (len_bytes % block) as usize;
        loop {
            let resets = disk.session().resets();
            write_tail(&mut disk, &tail_of, whole, tail_bytes)?;
            // A target that was restarted or reset in between has lost the writes that were not durable.
            if disk.session().resets() == resets {
                return Ok(());
            }
        }
    });
    finished.map_err(|error| {
        let error = match error {
            BulkError::Session(error) => failed(error),
            BulkError::File(error) => anyhow!("cannot read {name}: {error}"),
        };
        error.context(format!(
            "the LUN is only partly written: {} of {} were confirmed, in no certain order",
            Bytes(done_bytes),
            Bytes(len_bytes)
        ))
    })?;
    let elapsed = clock::now().since(started);
    let (connections, reconnects) = (disk.session().connections(), disk.session().reconnects());
    let is_chosen = disk.session().chooses_connections();
    let is_flushed = !disk.session().is_without_flush();
    let trace = close(disk)?;
    let rate = len_bytes as f64 / elapsed.as_secs_f64();
    if args.json {
        let document = json!({
            "bytes": len_bytes,
            "seconds": elapsed.as_secs_f64(),
            "bytes_per_s": rate,
            "connections": connections,
            "chose_connections": is_chosen,
            "reconnects": reconnects,
            "flushed": is_flushed,
            "trace": trace,
        });
        say!("{document}");
    } else {
        let size = Bytes(len_bytes);
        say!("{name}: {size} in {:.1} s, {:.1} MB/s", elapsed.as_secs_f64(), rate / 1e6);
        if let Some(words) = connections_words(connections.into(), is_chosen) {
            say!("connections: {words}");
        }
        if !is_flushed {
            say!("durable: as far as the LUN makes it so by itself; it does not know SYNCHRONIZE CACHE");
        }
    }
    Ok(DONE)
}

/// The last bytes of a file that does not end with a block, made durable: the rest of that block stays as it is.
fn write_tail(
    disk: &mut initiator::Disk,
    file: &File,
    whole: Range,
    tail_bytes: usize,
) -> Result<(), BulkError> {
    if tail_bytes == 0 {
        return Ok(());
    }
    let offset = whole.offset_bytes + whole.len_bytes;
    let mut block = disk.read_block(offset)?;
    let tail: io::Result<()> = file.read_exact_at(&mut block[..tail_bytes], whole.len_bytes);
    tail.map_err(BulkError::File)?;
    disk.write_block(offset, &block)?;
    Ok(disk.synchronize()?)
}
