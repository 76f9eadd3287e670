//! Configuration of a target, and the errors of its start.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use control::Choice;
use engine::trace::Sampling;
use engine::{CongestionControl, Course, Pacing};
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
    /// Initiators that may reset the target for all (TARGET COLD RESET). Another one may while its session is the only
    /// one.
    pub cold_reset: Vec<String>,
}

/// Configuration of a target.
#[derive(Clone, Debug)]
pub struct Config {
    /// Addresses to listen on; port 0 selects a free port.
    pub listen: Vec<SocketAddr>,
    /// Addresses that discovery returns instead of the listening ones, for a target behind NAT.
    pub advertise: Vec<TargetAddress>,
    /// iSCSI name of the target.
    pub iqn: String,
    /// LUNs of the target.
    pub luns: LunSet,
    /// CHAP credentials; if set, every login needs authentication.
    pub chap: Option<ChapTarget>,
    /// Rights of initiators.
    pub initiators: InitiatorRights,
    /// Digests that connections may negotiate, the preferred one first; see [`Wishes`](proto::params::Wishes).
    pub digests: &'static [Digest],
    /// Congestion control of the connections.
    pub congestion: CongestionControl,
    /// Policy that controls sending.
    pub policy: Choice,
    /// Pacing of each connection.
    pub pacing: Pacing,
    /// Weights of initiators by their names, for when they share a line; others have 1.
    pub weights: BTreeMap<String, u32>,
    /// Compatibility settings of sending.
    pub compat: Compat,
    /// Most open commands of a session, however many its path needs; 1 … 2^31 − 1 (RFC 7143 section 4.2.2.1).
    pub window: Option<u32>,
    /// Folder for the tables `sockets`, `layers` and `pdus`; `None` disables the trace.
    pub trace: Option<PathBuf>,
    /// Requests that have rows in `layers` and `pdus`.
    pub sampling: Sampling,
}

/// The LUNs of a target.
#[derive(Clone, Default, Debug)]
pub struct LunSet {
    /// Specifications by LUN number.
    pub specs: BTreeMap<u16, LunSpec>,
    /// Numbers under which another store may come although sessions know the old one.
    pub replaceable: BTreeSet<u16>,
    /// State folder, if one is given.
    pub state: Option<PathBuf>,
}

impl Config {
    /// Addresses to listen on, each with true if it takes IPv6 alone. `[::]` takes IPv4 as well, unless an IPv4 address
    /// has its port.
    pub fn listening(&self) -> impl Iterator<Item = (SocketAddr, bool)> + '_ {
        let is_left = |port| {
            let has_it =
                |other: &SocketAddr| other.port() == port && port != 0 && other.ip().to_canonical().is_ipv4();
            self.listen.iter().any(has_it)
        };
        let is_all_v6 = |address: &SocketAddr| address.is_ipv6() && address.ip().is_unspecified();
        self.listen.iter().map(move |address| (*address, is_all_v6(address) && is_left(address.port())))
    }

    /// Context in which the LUNs are opened.
    pub fn opening(&self) -> Opening<'_> {
        Opening::of(&self.iqn, self.luns.state.as_deref())
    }

    /// Policy and pacing of the connections.
    pub(super) fn course(&self) -> Course {
        Course { policy: self.policy, pacing: self.pacing, may_change: self.congestion.may_change() }
    }

    /// The largest command window that a session may have.
    pub(super) fn window_max(&self) -> u32 {
        self.window.unwrap_or(u32::MAX)
    }
}

/// Reason for which a target could not start or had to end.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A LUN cannot be served.
    #[error(transparent)]
    Lun(#[from] LunError),
    /// The register of nexuses cannot be kept.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the system call.
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
