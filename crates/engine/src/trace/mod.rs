//! Trace of the requests of one end: rows of the tables `layers` and `pdus`, and of `sessions` the parameters of their
//! connections.
//!
//! [`Tracer`] is one for each process and holds the files; a [`Ledger`] is one for each session and holds the open
//! requests. Both belong to the thread of the event loop; neither reads a clock.

mod ledger;
mod pdu_row;

use std::cell::RefCell;
use std::path::Path;

use event::{Host, LayerTimes, Layers, Login, PduSeen, Sink};
use tables::manifest::Trace;
use tables::{Recorder, Spool, TableError};

pub use ledger::{Ledger, Place};

/// Sampling of requests: one in N, those whose command number is a multiple of N, so that both ends choose the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sampling {
    /// N for the table `layers`; at least 1.
    pub layers: u32,
    /// In `pdus`, which brings TCP's times as well; 0 for none.
    pub pdus: u32,
}

/// The kernel's timestamps of a PDU cost a system call and three messages: for one PDU in 256 some hundredths of the
/// cost of a small request, for one in 16 half of it.
impl Default for Sampling {
    fn default() -> Sampling {
        Sampling { layers: 1, pdus: 256 }
    }
}

impl Sampling {
    fn takes_layers(self, cmd_sn: u32) -> bool {
        self.layers == 1 || cmd_sn.is_multiple_of(self.layers)
    }

    fn takes_pdus(self, cmd_sn: u32) -> bool {
        self.pdus != 0 && cmd_sn.is_multiple_of(self.pdus)
    }

    /// True if a command is recorded.
    pub fn takes(self, cmd_sn: u32) -> bool {
        self.takes_layers(cmd_sn) || self.takes_pdus(cmd_sn)
    }
}

/// The tables `layers`, `pdus` and `sessions` of one end.
pub struct Tracer {
    host: Host,
    sampling: Sampling,
    layers: RefCell<Spool<Layers>>,
    pdus: RefCell<Spool<PduSeen>>,
    sessions: RefCell<Recorder<Login>>,
}

impl Tracer {
    /// Begins the files in the directory `dir`.
    pub fn create(dir: &Path, host: Host, sampling: Sampling) -> Result<Tracer, TableError> {
        let path = |table: &str| dir.join(format!("{table}-{}.parquet", host.name()));
        Ok(Tracer {
            host,
            sampling,
            layers: Spool::create(path("layers"), sampling.layers)?.into(),
            pdus: Spool::create(path("pdus"), sampling.pdus)?.into(),
            sessions: RefCell::new(Recorder::create(path("sessions"))?),
        })
    }

    /// Sampling of requests.
    pub fn sampling(&self) -> Sampling {
        self.sampling
    }

    /// Completes the files, which takes about a second for a million rows.
    pub fn finish(self) -> Result<Trace, TableError> {
        Ok(Trace {
            sessions: self.sessions.into_inner().finish()?,
            layers: self.layers.into_inner().finish()?,
            pdus: self.pdus.into_inner().finish()?,
            ..Trace::default()
        })
    }

    /// A connection has logged in.
    pub fn login(&self, row: &Login) {
        self.sessions.borrow_mut().record(row);
    }

    fn request<T: Copy + Into<LayerTimes>>(&self, request: &Layers<T>) {
        if self.sampling.takes_layers(request.id.cmd_sn) {
            self.layers.borrow_mut().record(&request.into_row());
        }
    }

    /// There will be no row of a request.
    fn lose(&self, cmd_sn: u32) {
        if self.sampling.takes_layers(cmd_sn) {
            self.layers.borrow_mut().lose();
        }
    }

    fn pdu(&self, row: &PduSeen) {
        self.pdus.borrow_mut().record(row);
    }
}
