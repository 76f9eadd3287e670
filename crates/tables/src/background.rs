//! A sink that never blocks: it collects rows and a thread of its own encodes and writes them.
//!
//! For loops that must not pause for a row group (the emulator, the reactor). If the thread falls behind
//! by [`BATCHES_WAITING`] batches, rows are not kept but counted.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use event::Sink;
use serde::{Deserialize, Serialize};

use crate::{Row, TableError, Writer};

/// Rows passed to the thread at a time.
const BATCH_ROWS: usize = 32 * 1024;
/// Metadata key for the number of rows lost.
pub(super) const LOST_ROWS: &str = "farlun.lost_rows";
/// Batches that may wait for the thread.
const BATCHES_WAITING: usize = 64;

/// Rows that a [`Recorder`] or a [`crate::Spool`] wrote and lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Written {
    /// Rows in the file.
    pub rows: u64,
    /// Rows that arrived while the thread was too far behind; 0 unless the disk or the machine is overloaded.
    pub lost_rows: u64,
}

/// Writes a table from a thread of its own. Dropped without [`Recorder::finish`], it leaves a `.partial`
/// file behind.
pub struct Recorder<R: Row> {
    path: PathBuf,
    columns: R::Columns,
    waiting: usize,
    lost_rows: u64,
    batches: SyncSender<(R::Columns, usize)>,
    thread: JoinHandle<Result<Writer<R>, TableError>>,
}

impl<R: Row> Recorder<R>
where
    Writer<R>: Send,
{
    /// Starts the file that becomes `path` when it is finished, and the thread that writes it.
    pub fn create(path: impl AsRef<Path>) -> Result<Recorder<R>, TableError> {
        let path = path.as_ref().to_owned();
        let mut writer = Writer::<R>::create(&path)?;
        let (batches, incoming) = sync_channel::<(R::Columns, usize)>(BATCHES_WAITING);
        let thread = std::thread::Builder::new()
            .name(format!("table-{}", R::TABLE))
            .spawn(move || {
                for (columns, rows) in incoming {
                    writer.push_columns(columns, rows)?;
                }
                Ok(writer)
            })
            .map_err(|source| TableError::File { path: path.clone(), source })?;
        Ok(Recorder { path, columns: R::Columns::default(), waiting: 0, lost_rows: 0, batches, thread })
    }

    /// Waits until everything is written and gives the file its final name.
    pub fn finish(mut self) -> Result<Written, TableError> {
        let last = (std::mem::take(&mut self.columns), self.waiting);
        // Waiting is allowed here, so the last batch is never lost. A closed channel means that the
        // thread met an error, which joining it returns.
        let _ = self.batches.send(last);
        drop(self.batches);
        let mut writer = self.thread.join().map_err(|_| TableError::Thread { path: self.path })??;
        writer.note(LOST_ROWS, self.lost_rows);
        Ok(Written { rows: writer.finish()?, lost_rows: self.lost_rows })
    }
}

impl<R: Row> Sink<R> for Recorder<R> {
    fn record(&mut self, row: &R) {
        row.push(&mut self.columns);
        self.waiting += 1;
        if self.waiting < BATCH_ROWS {
            return;
        }
        let batch = (std::mem::take(&mut self.columns), self.waiting);
        self.waiting = 0;
        if let Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) =
            self.batches.try_send(batch)
        {
            self.lost_rows += batch.1 as u64;
        }
    }
}
