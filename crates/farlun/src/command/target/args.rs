//! The flags of `farlun target`.
//!
//! `settings` combines them with the configuration file.

use std::path::PathBuf;

use clap::Args;
use control::Choice;
use engine::CongestionControl;
use event::BitRate;
use iscsi_target::Compat;
use proto::discovery::TargetAddress;
use proto::login::Algorithm;

use super::address::node_name;
use super::file::WINDOW_MAX;
use crate::near_end::algorithm;
use crate::session::{DigestWish, SamplingArgs};

/// The largest weight of an initiator.
const WEIGHT_MAX: u32 = 1000;

/// Serve memory or files as iSCSI LUNs
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  farlun target --lun memory:4GiB
  farlun target --lun file:/srv/disk.img --lun file:/srv/gold.img,ro --iqn iqn.2026-11.org.example:store
  farlun target --lun memory:1GiB --listen 0.0.0.0:3260 --chap alice --chap-secret-file /etc/farlun/secrets
  farlun target --lun memory:1GiB --listen 0.0.0.0:3260 --insecure
  farlun target --lun block:/dev/disk/by-id/wwn-0x5000c500a1b2c3d4 --lun null:1TiB
  farlun target --lun memory:1GiB,block=4096,delay=read:2ms..3ms,fault=write:0.1%
  farlun target --config /etc/farlun/target.toml --check

What a LUN is: KIND:WHERE[,OPTION]…
  memory:SIZE     zeros at first, gone with the process
  file:PATH       an existing file; a comma in PATH is written twice
  block:DEVICE    a block device that nobody else uses
  null:SIZE       reads zeros, forgets what is written
Options of a LUN:
  ro                 writes are refused
  block=512|4096     bytes per logical block [default: 512, or the device's own]
  prealloc           all of its memory is taken at the start (memory)
  direct[=on|off]    past the page cache (files and block devices) [default: off]
  serial=TEXT        unit serial number [default: generated at first use; kept with the file, or for a device in the
                     state folder]
  naa=HEX            NAA designator: 16 digits that begin with 2, 3 or 5, or 32 that begin with 6 [default: likewise]
  reservations=FILE  keeps persistent reservations when the target ends
                     [default: PATH.farlun-reservations; block devices: in the state folder (--state)]
  delay=[read:|write:]TIME[..TIME]
                     commands wait that long before they begin, or something in between
  rate=RATE          the store moves at most so much, such as 400mbit, one command after the other
  fault=KIND[:SHARE%][:lba=A-B][:nth=A-B]
                     commands fail: read, write, sync (medium errors), full (no space), notready;
                     that share of them, those that touch these blocks, the Ath to the Bth of them
  seed=N             begins the chances of delay and fault
Each is there once at most; fault may come again, and delay once for reads and once for writes.

LUNs given as flags are numbered from 0 in their order. The target ends on SIGINT or SIGTERM; with --config it
reads the file again on SIGHUP. The manual is docs/reference/target.md.")]
pub(crate) struct TargetArgs {
    /// What to serve, such as memory:4GiB or file:PATH,ro (see below); once per LUN, 256 at most
    #[arg(long = "lun", value_name = "LUN", required_unless_present = "config")]
    pub(super) luns: Vec<String>,
    /// Configuration in TOML; a flag wins over the same thing in the file, and --lun adds to its LUNs
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Say what is wrong with the configuration, or what would be served, and end
    #[arg(long)]
    pub(super) check: bool,
    /// Where to listen; port 0 picks one; may be given several times [default: 127.0.0.1:3260]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(super) listen: Vec<String>,
    /// Address that discovery names instead of those that the target listens on, where a translator of addresses (NAT) is
    /// between it and its initiators; may be given several times
    #[arg(long, value_name = "ADDR[:PORT]")]
    pub(super) advertise: Vec<TargetAddress>,
    /// Name of the target, 223 bytes at most, in lower case [default: iqn.2026-11.io.farlun:HOSTNAME]
    #[arg(long)]
    pub(super) iqn: Option<String>,
    /// Name that may log in by CHAP, with its secret in the file; may be given several times
    #[arg(long = "chap", value_name = "NAME", requires = "chap_secret_file")]
    pub(super) chap_users: Vec<String>,
    /// File of secrets, one 'NAME SECRET' a line, readable by nobody else
    #[arg(long, value_name = "FILE", requires = "chap_users")]
    pub(super) chap_secret_file: Option<PathBuf>,
    /// Name that the target proves itself with to those who ask (mutual CHAP); its secret is in the file too
    #[arg(long, value_name = "NAME", requires = "chap_users")]
    pub(super) chap_target_user: Option<String>,
    /// Hash algorithms that CHAP may use, the preferred one first [default: sha3-256,sha256,sha1,md5]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = algorithm)]
    pub(super) chap_algorithms: Vec<Algorithm>,
    /// Name of an initiator that may log in; may be given several times [default: everybody]
    #[arg(long = "allow", value_name = "IQN")]
    pub(super) allowed: Vec<String>,
    /// Name of an initiator that may reset the target for all (TARGET COLD RESET); may be given several times
    /// [default: the initiator of the only session]
    #[arg(long = "cold-reset", value_name = "IQN")]
    pub(super) cold_reset: Vec<String>,
    /// Listen beyond loopback although nobody is authenticated, or take CHAP secrets shorter than 12 bytes
    #[arg(long)]
    pub(super) insecure: bool,
    /// CRC32C digests of headers and data [default: none]
    #[arg(long, value_enum)]
    pub(super) digest: Option<DigestWish>,
    /// Congestion control of the connections: auto is the host's, and BBR while packets are lost without a queue; host
    /// is the host's always; or a name such as cubic [default: auto]
    #[arg(long = "cc", value_name = "NAME")]
    pub(super) congestion: Option<CongestionControl>,
    /// Policy of sending: auto, or for comparison none, study or pace (docs/internals/control.md) [default: auto]
    #[arg(long, value_name = "NAME")]
    pub(super) policy: Option<Choice>,
    /// Weight of an initiator where several share a line, IQN=1 to IQN=1000; may be given several times [default: 1]
    #[arg(long = "weight", value_name = "IQN=N", value_parser = weight)]
    pub(super) weights: Vec<(String, u32)>,
    /// Leave it to TCP how fast its window is sent, without pacing: for comparison
    #[arg(long)]
    pub(super) no_pacing: bool,
    /// Send on each connection at most so fast, such as 100mbit, to leave room for others
    #[arg(long, value_name = "RATE", conflicts_with = "no_pacing")]
    pub(super) pace: Option<BitRate>,
    /// Send as other targets do, for comparisons: a list of nagle, separate-status, joined-send
    /// [default: none of them]
    #[arg(long, value_name = "LIST")]
    pub(super) compat: Option<Compat>,
    /// Commands that a session may have open at most [default: what its path needs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=WINDOW_MAX.into()))]
    pub(super) window: Option<u32>,
    /// State folder: identities and reservations of block devices, and the register of sessions
    /// [default: $STATE_DIRECTORY; without either /var/lib/farlun, and no register]
    #[arg(long, value_name = "DIR")]
    pub(super) state: Option<PathBuf>,
    /// Write the tables sockets, sessions, layers and pdus (-far.parquet) to this directory
    #[arg(long, value_name = "DIR")]
    pub(super) trace: Option<PathBuf>,
    #[command(flatten)]
    pub(super) sampling: SamplingArgs,
    /// Print the ready line, reloads and the totals at the end as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Reads `IQN=N`.
pub(super) fn weight(text: &str) -> Result<(String, u32), String> {
    let (name, number) = text.split_once('=').ok_or_else(|| format!("'{text}': expected IQN=N"))?;
    let weight = number.parse().ok().filter(|weight| (1..=WEIGHT_MAX).contains(weight));
    let weight = weight.ok_or_else(|| format!("'{number}' is no weight: expected 1 to {WEIGHT_MAX}"))?;
    Ok((node_name(name)?, weight))
}
