//! `farlun ls`: which targets a portal has, and their LUNs.

use clap::Args;
use event::Bytes;
use initiator::{Error, Found, FoundLun, Url};
use serde_json::json;

use crate::exit::{DONE, REFUSED};
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
    let code = code(&found);
    if args.json {
        let targets: Vec<_> = found
            .iter()
            .map(|(target, found)| {
                let addresses: Vec<_> = target.addresses.iter().map(ToString::to_string).collect();
                let (luns, error) = match found {
                    Ok(Found { url, luns }) => {
                        let lun = |found: &FoundLun| {
                            let url = Url { lun: Some(found.number), ..url.clone() };
                            json!({
                                "lun": found.number,
                                "bytes": found.bytes,
                                "kind": found.kind(),
                                "write_protected": found.is_write_protected,
                                "url": url.to_string(),
                            })
                        };
                        (luns.iter().map(lun).collect(), None)
                    }
                    Err(error) => (Vec::new(), Some(error.to_string())),
                };
                json!({"iqn": target.name, "addresses": addresses, "luns": luns, "error": error})
            })
            .collect();
        say!("{}", json!({"targets": targets}));
        return Ok(code);
    }
    for (target, found) in &found {
        say!("{}", target.name);
        for address in &target.addresses {
            say!("  at {address}");
        }
        match found {
            Ok(Found { url, luns }) => {
                for lun in luns {
                    let FoundLun { number, is_write_protected, .. } = *lun;
                    let url = Url { lun: Some(number), ..url.clone() };
                    let note = if is_write_protected { "  write-protected" } else { "" };
                    say!("  LUN {number:<5} {:>12}  {url}{note}", size(lun));
                }
            }
            Err(error) => say!("  {error}"),
        }
    }
    if found.is_empty() {
        note!("farlun: {url} has no targets for this initiator");
    }
    Ok(code)
}

/// Size of a disk, or the kind of any other LUN.
fn size(lun: &FoundLun) -> String {
    match (lun.bytes, lun.kind()) {
        (Some(bytes), _) => Bytes(bytes).to_string(),
        (None, "disk" | "unknown") => "size unknown".to_owned(),
        (None, kind) => kind.to_owned(),
    }
}

/// Exit code: a refusal by all targets is one of the command.
fn code<T>(found: &[(T, Result<Found, Error>)]) -> u8 {
    let is_refused = |(_, luns): &(T, Result<Found, Error>)| luns.as_ref().is_err_and(Error::is_refusal);
    if !found.is_empty() && found.iter().all(is_refused) { REFUSED } else { DONE }
}

#[cfg(test)]
mod tests {
    use proto::login::LoginError;

    use super::*;

    #[test]
    fn only_a_refusal_by_all_is_one() {
        let refusal = || {
            let url = "iscsi://h".parse::<Url>().unwrap();
            let status = (2, 1).into();
            let source = LoginError::Refused { status, reason: String::new() };
            let address = ([127, 0, 0, 1], url.port).into();
            Err(Error::Login { address, source })
        };
        let listed = || Ok(Found { url: "iscsi://h".parse().unwrap(), luns: Vec::new() });
        assert_eq!(code::<()>(&[]), DONE);
        assert_eq!(code(&[((), refusal())]), REFUSED);
        assert_eq!(code(&[((), refusal()), ((), refusal())]), REFUSED);
        assert_eq!(code(&[((), refusal()), ((), listed())]), DONE);
    }
}
