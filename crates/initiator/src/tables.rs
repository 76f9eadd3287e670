//! Tables of a command: `sockets`, `sessions`, `io`, `layers` and `pdus`. All sessions of the command record in the
//! same files.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use engine::trace::{Sampling, Tracer};
use event::{Host, Io, Sink, SocketSample};
use tables::manifest::Trace;
use tables::{Recorder, Spool, TableError};

/// The tables, if recording is enabled.
pub(crate) struct Tables {
    open: Option<RefCell<Open>>,
    tracer: Option<Rc<Tracer>>,
}

struct Open {
    sockets: Recorder<SocketSample>,
    ios: Spool<Io>,
}

impl Tables {
    pub(crate) fn create(dir: Option<&Path>, sampling: Sampling) -> Result<Rc<Tables>, TableError> {
        let Some(dir) = dir else { return Ok(Rc::new(Tables { open: None, tracer: None })) };
        let sockets = Recorder::create(dir.join("sockets-near.parquet"))?;
        let open = Open { sockets, ios: Spool::create(dir.join("io-near.parquet"), 1)? };
        let tracer = Tracer::create(dir, Host::Near, sampling)?;
        Ok(Rc::new(Tables { open: Some(open.into()), tracer: Some(tracer.into()) }))
    }

    pub(crate) fn socket(&self, sample: &SocketSample) {
        if let Some(open) = &self.open {
            open.borrow_mut().sockets.record(sample);
        }
    }

    pub(crate) fn io(&self, io: &Io) {
        if let Some(open) = &self.open {
            open.borrow_mut().ios.record(io);
        }
    }

    /// Recorder of the requests' times in each layer, if enabled.
    pub(crate) fn tracer(&self) -> Option<&Rc<Tracer>> {
        self.tracer.as_ref()
    }

    /// Completes the files, unless another session still records in them.
    pub(crate) fn finish(tables: Rc<Tables>) -> Result<Option<Trace>, TableError> {
        let Some(Tables { open: Some(open), tracer: Some(tracer) }) = Rc::into_inner(tables) else {
            return Ok(None);
        };
        let Open { sockets, ios } = open.into_inner();
        let (sockets, io) = (sockets.finish()?, ios.finish()?);
        let Some(tracer) = Rc::into_inner(tracer) else {
            unreachable!("sessions give it back before their tables are finished");
        };
        Ok(Some(Trace { io: Some(io), sockets, ..tracer.finish()? }))
    }
}
