//! What a target is told to be, and why one could not start.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use control::Choice;
use engine::trace::Sampling;
use engine::{Course, Pacing};
use proto::discovery::TargetAddress;
use proto::login::ChapTarget;
use proto::params::Digest;
use tables::TableError;

use crate::compat::Compat;
use crate::lun::{LunError, LunSpec, Opening, RegisterError};

/// Rights of initiators, by their names.
#[derive(Clone, Debug, Default)]
pub struct InitiatorRights {
    /// Initiators that may log in; every one if empty.
    pub allowed: Vec<String>,
    /// Initiators that may reset the target for all (TARGET COLD RESET). Another one may while its session is the only one.
    pub cold_reset: Vec<String>,
}

/// What a target serves and where.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it listens; port 0 picks one.
    pub listen: Vec<SocketAddr>,
    /// Addresses that discovery names instead of those: where a translator of addresses (NAT) is reached.
    pub advertise: Vec<TargetAddress>,
    /// Its name.
    pub iqn: String,
    /// Its LUNs.
    pub luns: LunSet,
    /// With it, nobody logs in without proving who they are.
    pub chap: Option<ChapTarget>,
    /// Rights of initiators.
    pub initiators: InitiatorRights,
    /// Digests that its connections may have, the preferred one first; see [`Wishes`](proto::params::Wishes).
    pub digests: &'static [Digest],
    /// Congestion control of its connections; the system's if `None`.
    pub congestion: Option<String>,
    /// What decides how its connections send.
    pub policy: Choice,
    /// How fast each connection may send.
    pub pacing: Pacing,
    /// Weights of initiators by their names, for when they share a line; others have 1.
    pub weights: BTreeMap<String, u32>,
    /// How its connections send.
    pub compat: Compat,
    /// Commands that a session may have open at most, whatever its path needs; 1 … 2^31 − 1 (RFC 7143 section
    /// 4.2.2.1).
    pub window: Option<u32>,
    /// Where the tables `sockets`, `layers` and `pdus` go, if anywhere.
    pub trace: Option<PathBuf>,
    /// Which requests have rows in the last two.
    pub sampling: Sampling,
}

/// The LUNs of a target.
#[derive(Clone, Default, Debug)]
pub struct LunSet {
    /// By their numbers.
    pub specs: BTreeMap<u16, LunSpec>,
    /// Numbers under which another store may come although sessions know the old one.
    pub replaceable: BTreeSet<u16>,
    /// State folder, if one is given.
    pub state: Option<PathBuf>,
}

impl Config {
    /// Addresses to listen on, each with true if it takes IPv6 alone. `[::]` takes IPv4 as well, unless an IPv4 address has
    /// its port.
    pub fn listening(&self) -> impl Iterator<Item = (SocketAddr, bool)> + '_ {
        let is_left = |port| {
            let has_it =
                |other: &SocketAddr| other.port() == port && port != 0 && other.ip().to_canonical().is_ipv4();
            self.listen.iter().any(has_it)
        };
        let is_all_v6 = |address: &SocketAddr| address.is_ipv6() && address.ip().is_unspecified();
        self.listen.iter().map(move |address| (*address, is_all_v6(address) && is_left(address.port())))
    }

    /// Context in which its LUNs are opened.
    pub fn opening(&self) -> Opening<'_> {
        Opening::of(&self.iqn, self.luns.state.as_deref())
    }

    /// How its connections are steered.
    pub(super) fn course(&self) -> Course {
        Course { policy: self.policy, pacing: self.pacing }
    }

    /// The largest command window that a session may have.
    pub(super) fn window_max(&self) -> u32 {
        self.window.unwrap_or(u32::MAX)
    }
}

/// Why a target could not start or had to end.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A LUN cannot be served.
    #[error(transparent)]
    Lun(#[from] LunError),
    /// It cannot be kept which sessions know which LUN.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A second signal to end came while calls that block, so many, were still waited for.
    #[error(
        "ended by another signal before all calls of stores, for a configuration or for the register had come back ({0} \
         had not); what they were to write may be missing"
    )]
    Unfinished(usize),
    /// A table cannot be written.
    #[error(transparent)]
    Trace(#[from] TableError),
    /// The system refused something the loop cannot do without.
    #[error("the serving loop failed: {0}")]
    Io(#[from] io::Error),
}
