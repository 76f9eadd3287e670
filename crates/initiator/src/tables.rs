//! The tables that the sessions of one command record, `sockets` and `io`: one file each, however many
//! sessions there are.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use event::{Io, Sink, SocketSample};
use store::tables::{Recorder, TableError};

/// The tables, if any were asked for.
pub(crate) struct Tables {
    open: Option<RefCell<Open>>,
}

struct Open {
    sockets: Recorder<SocketSample>,
    ios: Recorder<Io>,
}

impl Tables {
    pub(crate) fn create(dir: Option<&Path>) -> Result<Rc<Tables>, TableError> {
        let open = dir.map(|dir| -> Result<Open, TableError> {
            let sockets = Recorder::create(dir.join("sockets-near.parquet"))?;
            Ok(Open { sockets, ios: Recorder::create(dir.join("io-near.parquet"))? })
        });
        Ok(Rc::new(Tables { open: open.transpose()?.map(RefCell::new) }))
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

    /// Completes the files, if nobody else records in them any more.
    pub(crate) fn finish(tables: Rc<Tables>) -> Result<(), TableError> {
        let open = Rc::into_inner(tables).and_then(|tables| tables.open);
        if let Some(Open { sockets, ios }) = open.map(RefCell::into_inner) {
            sockets.finish()?;
            ios.finish()?;
        }
        Ok(())
    }
}
