//! `farlun ls`: which targets a portal has, and their LUNs.

use clap::Args;
use event::Bytes;
use initiator::{Found, Url};
use serde_json::json;

use crate::exit::DONE;
use crate::session::{SessionArgs, failed, url};

/// List the targets of a portal and their LUNs
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  farlun ls iscsi://10.0.0.7")]
pub(crate) struct LsArgs {
    /// iscsi://HOST[:PORT]
    url: String,
    #[command(flatten)]
    session: SessionArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: LsArgs) -> anyhow::Result<u8> {
    let url = url(&args.url)?;
    let options = args.session.options()?;
    let mut found = Vec::new();
    for target in initiator::discover(&url, &options).map_err(failed)? {
        // A target may not let us in although it is advertised: it is listed all the same.
        let luns = initiator::luns(&url, &target, &options);
        found.push((target, luns));
    }
    if args.json {
        let targets: Vec<_> = found
            .iter()
            .map(|(target, found)| {
                let addresses: Vec<_> = target.addresses.iter().map(ToString::to_string).collect();
                let (luns, error) = match found {
                    Ok(Found { url, luns }) => {
                        let lun = |&(lun, bytes): &(u16, Option<u64>)| {
                            let url = Url { lun: Some(lun), ..url.clone() };
                            json!({"lun": lun, "bytes": bytes, "url": url.to_string()})
                        };
                        (luns.iter().map(lun).collect(), None)
                    }
                    Err(error) => (Vec::new(), Some(error.to_string())),
                };
                json!({"iqn": target.name, "addresses": addresses, "luns": luns, "error": error})
            })
            .collect();
        say!("{}", json!({"targets": targets}));
        return Ok(DONE);
    }
    for (target, found) in &found {
        say!("{}", target.name);
        for address in &target.addresses {
            say!("  at {address}");
        }
        match found {
            Ok(Found { url, luns }) => {
                for &(lun, bytes) in luns {
                    let size = bytes.map_or("size unknown".to_owned(), |bytes| Bytes(bytes).to_string());
                    let url = Url { lun: Some(lun), ..url.clone() };
                    say!("  LUN {lun:<5} {size:>10}  {url}");
                }
            }
            Err(error) => say!("  {error}"),
        }
    }
    if found.is_empty() {
        note!("farlun: {} has no targets for this initiator", args.url);
    }
    Ok(DONE)
}
