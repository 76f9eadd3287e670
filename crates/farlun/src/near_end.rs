//! Flags of this end of a session: name, CHAP, source of its connections.

use std::net::{IpAddr, UdpSocket};
use std::ops::RangeInclusive;

use clap::Args;
use engine::CongestionControl;
use initiator::{Chap, InitiatorName, NearEnd};
use net::tcp::{self, Source};
use proto::login::{Algorithm, Secret};

use crate::exit::Exit;

/// Segments that a connection can have.
const MSS: RangeInclusive<i64> =
    *tcp::MAX_SEGMENT_BYTES.start() as i64..=*tcp::MAX_SEGMENT_BYTES.end() as i64;

/// Flags of this end.
#[derive(Args, Debug)]
pub(crate) struct NearEndArgs {
    /// iSCSI name to log in with [default: that in /etc/iscsi/initiatorname.iscsi, or one made from this host's name]
    #[arg(long, value_name = "NAME", value_parser = InitiatorName::given)]
    initiator_name: Option<InitiatorName>,
    /// Address or device of this host that connections leave by, such as 10.0.0.5 or eth1 [default: as routes say]
    #[arg(long, value_name = "ADDR|INTERFACE", value_parser = source)]
    bind: Option<Source>,
    /// Largest segment that TCP sends either way, in bytes, such as 1220: for a path that drops larger packets and does not
    /// say so [default: that of the interface, and a smaller one once large packets have not arrived]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(MSS))]
    mss: Option<u16>,
    /// Name that the target has to prove itself with (mutual CHAP); the user of the URL proves us, by the secret behind it
    /// (USER%SECRET@) or that of FARLUN_CHAP_SECRET in the environment
    #[arg(long, value_name = "NAME")]
    chap_target_user: Option<String>,
    /// Secret of that name [default: FARLUN_CHAP_TARGET_SECRET of the environment, which nobody else can see]
    #[arg(long, value_name = "SECRET", requires = "chap_target_user", value_parser = secret)]
    chap_target_secret: Option<Secret>,
    /// Hash algorithms to offer for CHAP, the preferred one first; a target that refuses several at once is offered md5
    /// alone, if it is among them [default: sha3-256,sha256,sha1,md5]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = algorithm)]
    chap_algorithms: Vec<Algorithm>,
    /// Take CHAP secrets shorter than 12 bytes
    #[arg(long)]
    insecure: bool,
}

impl NearEndArgs {
    /// Returns the end that sessions are made with, and the proofs of both sides.
    pub(crate) fn ends(self, congestion: CongestionControl) -> anyhow::Result<(NearEnd, Chap)> {
        let from_environment = |name| std::env::var(name).ok().map(|text| Secret::new(text.as_bytes()));
        let target = self.chap_target_user.map(|name| {
            let given = self.chap_target_secret;
            given
                .or_else(|| from_environment("FARLUN_CHAP_TARGET_SECRET"))
                .map(|secret| (name, secret))
                .ok_or_else(|| {
                    Exit::usage("--chap-target-user needs --chap-target-secret or FARLUN_CHAP_TARGET_SECRET")
                })
        });
        let chap = Chap {
            secret: from_environment("FARLUN_CHAP_SECRET"),
            target: target.transpose()?,
            algorithms: self.chap_algorithms,
            allow_short: self.insecure,
        };
        let name = self.initiator_name.unwrap_or_else(InitiatorName::of_host);
        Ok((NearEnd { name, source: self.bind, congestion, max_segment_bytes: self.mss }, chap))
    }
}

fn source(text: &str) -> Result<Source, String> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = bare.parse::<IpAddr>() {
        let bound = UdpSocket::bind((address, 0));
        return bound.map(|_| Source::Address(address)).map_err(|error| format!("{address}: {error}"));
    }
    let there = net::interface::names().unwrap_or_default();
    match there.iter().any(|name| name == text) {
        true => Ok(Source::Device(text.to_owned())),
        false => Err(format!("neither an address nor a device of this host; there are {}", there.join(", "))),
    }
}

/// Reads the name of a hash algorithm of CHAP.
pub(crate) fn algorithm(text: &str) -> Result<Algorithm, String> {
    let known = || Algorithm::STRONGEST_FIRST.iter().map(|algorithm| algorithm.name()).collect::<Vec<_>>();
    Algorithm::from_name(text).ok_or_else(|| format!("expected some of {}", known().join(",")))
}

fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_devices_of_this_host() {
        assert_eq!(source("127.0.0.1"), Ok(Source::Address([127, 0, 0, 1].into())));
        assert_eq!(source("lo"), Ok(Source::Device("lo".to_owned())));
        assert!(source("203.0.113.1").unwrap_err().starts_with("203.0.113.1: "));
        let error = source("farlun-none").unwrap_err();
        assert!(error.contains("neither an address nor a device") && error.contains("lo"), "{error}");
    }
}
