//! `farlun inquiry`: identity and properties of a LUN.

use clap::Args;
use event::Bytes;
use serde_json::json;

use crate::exit::DONE;
use crate::session::{SessionArgs, failed, open};

/// Show who a target is and what a LUN is
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  farlun inquiry iscsi://10.0.0.7/iqn.2026-11.io.farlun:store/0")]
pub(crate) struct InquiryArgs {
    /// iscsi://HOST[:PORT]/IQN/LUN
    url: String,
    #[command(flatten)]
    session: SessionArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: InquiryArgs) -> anyhow::Result<u8> {
    let mut disk = open(&args.url, &args.session.options()?)?;
    let identity = disk.identity().clone();
    let (len_bytes, block_len_bytes) = (disk.len_bytes(), disk.block_len_bytes());
    let transfer_max_bytes = disk.transfer_max_bytes();
    let naa = disk.naa().map_err(failed)?;
    let software = disk.client().peer_software().map(str::to_owned);
    let rtt = disk.client().min_rtt();
    let is_write_protected = disk.is_write_protected().map_err(failed)?;
    disk.close().map_err(failed)?;
    if args.json {
        let document = json!({
            "vendor": identity.vendor,
            "product": identity.product,
            "revision": identity.revision,
            "serial": identity.serial,
            "naa": naa,
            "device_type": identity.device_type,
            "bytes": len_bytes,
            "block_bytes": block_len_bytes,
            "transfer_max_bytes": transfer_max_bytes,
            "write_protected": is_write_protected,
            "peer": software,
            "rtt_ns": rtt.map(|rtt| rtt.as_nanos() as u64),
        });
        say!("{document}");
        return Ok(DONE);
    }
    let row = |name: &str, value: &str| say!("{name:<18} {value}");
    row("vendor", &identity.vendor);
    row("product", &identity.product);
    row("revision", &identity.revision);
    row("serial", identity.serial.as_deref().unwrap_or("none"));
    row("naa", naa.as_deref().unwrap_or("none"));
    row("size", &format!("{} ({len_bytes} bytes)", Bytes(len_bytes)));
    row("block", &Bytes(block_len_bytes.into()).to_string());
    row("longest transfer", &Bytes(transfer_max_bytes.into()).to_string());
    row("writes", if is_write_protected { "refused: write-protected" } else { "taken" });
    row("software", software.as_deref().unwrap_or("not farlun"));
    row("round trip", &rtt.map_or("unknown".to_owned(), event::format_delay));
    Ok(DONE)
}
