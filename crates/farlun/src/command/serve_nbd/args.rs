//! The flags of `farlun serve-nbd`.

use std::path::PathBuf;

use clap::Args;

/// Serve memory, a file or a block device as an NBD export
///
/// Announces the facts of the device: size, block sizes, write cache, trim, zeroes and allocation. Any number of clients
/// may use it at once. Ends on SIGINT, SIGTERM and SIGHUP: answers outstanding requests, flushes the device, and says what
/// was not flushed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  farlun serve-nbd file:/srv/disk.img
  farlun serve-nbd file:/srv/gold.img,ro --socket /run/gold.sock --export gold
  farlun serve-nbd block:/dev/vg0/disk --listen 0.0.0.0:10809 --insecure
  farlun serve-nbd memory:1GiB &  nbdcopy disk.img nbd://127.0.0.1

SPEC is KIND:WHERE[,OPTION]…
  memory:SIZE     zeros at first, gone with the process
  file:PATH       an existing file; a comma in PATH is written twice
  block:DEVICE    a block device that nobody else uses
  null:SIZE       reads zeros, forgets what is written
Options: ro, block=512|4096, prealloc, direct[=on|off], fault=…, seed=N, as of 'farlun target'.

The manual is docs/reference/serve-nbd.md.")]
pub(crate) struct ServeNbdArgs {
    /// Device to serve, such as file:/srv/disk.img or memory:4GiB (see below)
    #[arg(value_name = "SPEC")]
    pub(super) spec: String,
    /// Address to listen on; port 0 picks one; may be given several times [default: 127.0.0.1:10809, unless --socket is given]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(super) listen: Vec<String>,
    /// Path of a Unix socket to listen on; may be given several times
    #[arg(long = "socket", value_name = "PATH")]
    pub(super) sockets: Vec<PathBuf>,
    /// Name of the export; the empty name means it as well
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(super) export: String,
    /// Refuse writes
    #[arg(long)]
    pub(super) read_only: bool,
    /// Listen beyond loopback although nobody is authenticated
    #[arg(long)]
    pub(super) insecure: bool,
    /// Print the ready line and the totals at the end as JSON
    #[arg(long)]
    pub(super) json: bool,
}
