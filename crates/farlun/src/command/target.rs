//! `farlun target`: serves LUNs.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde_json::json;

use target::lun::LunSpec;
use target::{Config, Target};

use crate::exit::{DONE, Exit};
use crate::secrets;
use crate::session::DigestWish;

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

What a LUN is: KIND:WHERE[,OPTION]…
  memory:SIZE     zeros at first, gone with the process
  file:PATH       an existing file; a comma in PATH is written twice
  block:DEVICE    a block device that nobody else uses
  null:SIZE       reads zeros, forgets what is written
Options of a LUN:
  ro                 writes are refused
  block=512|4096     bytes per logical block [default: 512, or the device's own]
  direct[=on|off]    past the page cache (files and block devices) [default: off]
  reservations=FILE  keeps persistent reservations when the target ends
                     [default: PATH.farlun-reservations; for devices in /var/lib/farlun]
  delay=[read:|write:]TIME[..TIME]
                     commands wait that long before they begin, or something in between
  fault=KIND[:SHARE%][:lba=A-B][:nth=A-B]
                     commands fail: read, write, sync (medium errors), full (no space), notready;
                     that share of them, those that touch these blocks, the Ath to the Bth of them
  seed=N             begins the chances of delay and fault

LUNs are numbered from 0 in the order given. The target ends on SIGINT or SIGTERM.")]
pub(crate) struct TargetArgs {
    /// What to serve, such as memory:4GiB or file:PATH,ro (see below); once per LUN
    #[arg(long = "lun", value_name = "LUN", required = true)]
    luns: Vec<String>,
    /// Where to listen; port 0 picks one; may be given several times
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:3260")]
    listen: Vec<String>,
    /// Name of the target [default: iqn.2026-11.io.farlun:HOSTNAME]
    #[arg(long)]
    iqn: Option<String>,
    /// Name that may log in by CHAP, with its secret in the file; may be given several times
    #[arg(long = "chap", value_name = "NAME", requires = "chap_secret_file")]
    chap_users: Vec<String>,
    /// File of secrets, one 'NAME SECRET' a line, readable by nobody else
    #[arg(long, value_name = "FILE", requires = "chap_users")]
    chap_secret_file: Option<PathBuf>,
    /// Name that the target proves itself with to those who ask (mutual CHAP); its secret is in the file too
    #[arg(long, value_name = "NAME", requires = "chap_users")]
    chap_target_user: Option<String>,
    /// Name of an initiator that may log in; may be given several times [default: everybody]
    #[arg(long = "allow", value_name = "IQN")]
    allowed: Vec<String>,
    /// Listen beyond loopback although nobody is authenticated, or take CHAP secrets shorter than 12 bytes
    #[arg(long)]
    insecure: bool,
    /// CRC32C digests of headers and data: none (unless the initiator insists), prefer, or crc32c (always)
    #[arg(long, value_enum, default_value = "none")]
    digest: DigestWish,
    /// Congestion control of the connections, such as cubic [default: the system's]
    #[arg(long = "cc", value_name = "NAME")]
    congestion: Option<String>,
    /// Write the table sockets-far.parquet to this directory
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
    /// Print the ready line and the totals at the end as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: TargetArgs) -> anyhow::Result<u8> {
    let mut luns = Vec::new();
    for text in &args.luns {
        luns.push(text.parse::<LunSpec>().map_err(|error| Exit::usage(format!("--lun {text}: {error}")))?);
    }
    let mut listen = Vec::new();
    for text in &args.listen {
        listen.extend(addresses(text)?);
    }
    let chap = args.chap_secret_file.as_deref().map(|file| {
        secrets::chap_target(file, &args.chap_users, args.chap_target_user.as_deref(), args.insecure)
    });
    let chap = chap.transpose()?;
    let is_open = chap.is_none() && !args.insecure;
    if let Some(open) = listen.iter().find(|address| !address.ip().is_loopback() && is_open) {
        return Err(Exit::usage(format!(
            "--listen {open}: anybody who reaches this address could read and write the LUNs, because nobody \
             is authenticated; configure --chap, or give --insecure if that is meant, or listen on 127.0.0.1"
        )));
    }
    let iqn = args.iqn.unwrap_or_else(default_iqn);
    if let Some(dir) = &args.trace {
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    let config = Config {
        listen,
        iqn,
        luns,
        chap,
        allowed: args.allowed,
        digests: args.digest.digests(),
        congestion: args.congestion,
        trace: args.trace,
    };
    let target = Target::start(&config)?;
    let addresses: Vec<String> = target.addresses()?.iter().map(ToString::to_string).collect();
    if args.json {
        let luns: Vec<_> = target
            .luns()
            .iter()
            .map(|lun| json!({"lun": lun.number(), "bytes": lun.len_bytes(), "kind": lun.kind()}))
            .collect();
        println!("{}", json!({"ready": true, "addresses": addresses, "iqn": config.iqn, "luns": luns}));
    } else {
        for address in &addresses {
            for lun in target.luns().iter() {
                let (number, size) = (lun.number(), event::Bytes(lun.len_bytes()));
                println!("ready: iscsi://{address}/{}/{number} ({size}, {})", config.iqn, lun.kind());
            }
        }
    }
    let stats = target.serve()?;
    if args.json {
        let totals = json!({
            "sessions": stats.sessions,
            "commands": stats.commands,
            "received_bytes": stats.received_bytes,
            "sent_bytes": stats.sent_bytes,
            "cpu_ns": net::clock::process_cpu_ns(),
        });
        println!("{totals}");
    }
    Ok(DONE)
}

/// The addresses that `ADDR:PORT`, or only an address with the default port, stands for.
pub(crate) fn addresses(text: &str) -> anyhow::Result<Vec<SocketAddr>> {
    let bare = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let found = match (bare, text.strip_prefix(':')) {
        (Ok(ip), _) => Ok(vec![SocketAddr::new(ip, 3260)]),
        (_, Some(port)) => match port.parse() {
            Ok(port) => Ok(vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)]),
            Err(_) => Err("the port is no number from 0 to 65535".to_owned()),
        },
        _ => text.to_socket_addrs().map(Iterator::collect).map_err(|error| error.to_string()),
    };
    found.map_err(|error| {
        Exit::usage(format!("{text}: {error}; expected ADDR:PORT such as 127.0.0.1:3260 or [::1]:3260"))
    })
}

fn default_iqn() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = host
        .trim()
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '-' })
        .collect();
    format!("iqn.2026-11.io.farlun:{}", if host.is_empty() { "localhost" } else { &host })
}
