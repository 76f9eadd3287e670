//! `farlun recorder`: stores the captures that `farlun capture --to` sends.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use capture::{Recorder, RecorderSettings};
use clap::Args;
use net::{EndSignals, tcp};
use serde_json::json;

use super::capture::{RotationArgs, notices};
use crate::exit::{DONE, Exit};

const FILES: &str =
    "Keep so many files of each host, over all of its captures, and remove the oldest when there are more";

/// Keep captures that other hosts send
///
/// Writes pcapng files, SENDER-NUMBER-00001.pcapng and so on for each capture, and says what arrived and what is
/// missing. A sender whose connection was lost goes on in the same files. Ends on SIGINT and SIGTERM.
#[derive(Args, Debug)]
#[command(mut_arg("files", |arg| arg.help(FILES)))]
#[command(after_help = "\
Examples:
  farlun recorder -o /srv/captures --listen 10.0.0.5:5260 --insecure --rotate-size 1GiB --files 100
  farlun capture -i eth0 --to 10.0.0.5:5260 --filter 'tcp port 3260'       on the host that is watched

Senders are not authenticated: any host that reaches the address can fill the disk. Beyond loopback let a firewall, WireGuard
or ssh -L decide who does.")]
pub(crate) struct RecorderArgs {
    /// Write files into DIR
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Where to listen; port 0 picks one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:5260")]
    listen: String,
    /// Listen beyond loopback although nobody is authenticated
    #[arg(long)]
    insecure: bool,
    #[command(flatten)]
    rotation: RotationArgs,
    /// Print one line of JSON when it listens, and one with the totals at the end
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: RecorderArgs) -> anyhow::Result<u8> {
    let settings = RecorderSettings { dir: args.output, rotation: args.rotation.rotation()? };
    let address = address(&args.listen)?;
    if !args.insecure && !address.ip().is_loopback() {
        return Err(Exit::usage(format!(
            "--listen {address}: anybody who reaches this address could fill the disk, because senders are not \
             authenticated; give --insecure if that is meant, or listen on 127.0.0.1"
        )));
    }
    let signals = EndSignals::take_over()?;
    let recorder = Recorder::new(settings, notices())?;
    let listener =
        tcp::listen(address, None).map_err(|error| anyhow::anyhow!("cannot listen on {address}: {error}"))?;
    let address = listener.local_addr()?;
    match args.json {
        true => say!("{}", json!({"ready": true, "addresses": [address.to_string()]})),
        false => say!("ready: {address}"),
    }
    let totals = recorder.serve(&listener, &signals)?;
    match args.json {
        true => say!("{}", serde_json::to_string(&totals)?),
        false => {
            let (captures, packets, missing) = (totals.captures, totals.packets, totals.missing_packets);
            say!("{captures} captures, {packets} packets, {missing} missing");
        }
    }
    Ok(DONE)
}

fn address(text: &str) -> anyhow::Result<SocketAddr> {
    let found = text.to_socket_addrs().map_err(|error| error.to_string());
    let first = found.and_then(|mut found| found.next().ok_or_else(|| "no such host".to_owned()));
    first.map_err(|error| {
        Exit::usage(format!(
            "--listen '{text}': {error}; expected ADDR:PORT such as 127.0.0.1:5260 or [::1]:5260"
        ))
    })
}
