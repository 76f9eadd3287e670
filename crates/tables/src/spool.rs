//! A sink for rows at hundreds of thousands a second: they are kept packed, and encoded when the load is over.
//!
//! A row is packed into a preallocated batch; full batches go to a thread that writes them to a spool file and returns
//! them. So a row costs no lock, no allocation and no system call, and encoding takes no time from the measurement. The
//! spool has no name, so that nothing of it is left however the process ends. Without an empty batch, or beyond
//! [`SPOOL_MAX_BYTES`], rows are counted and not kept. Use a [`crate::Recorder`] for rare rows.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use event::Sink;

use crate::background::LOST_ROWS;
use crate::pack::Packed;
use crate::{TableError, Writer, Written};

/// Limit on the spool's size on disk.
pub const SPOOL_MAX_BYTES: u64 = 4 << 30;
/// Words in a batch, and number of batches.
const BATCH_WORDS: usize = 64 << 10;
const BATCHES: usize = 16;

/// Keeps rows for a table. Dropped without [`Spool::finish`], it leaves nothing behind.
pub struct Spool<R: Packed> {
    path: PathBuf,
    sample: u32,
    batch: Vec<u64>,
    room: usize,
    lost_rows: u64,
    full: SyncSender<Vec<u64>>,
    empty: Receiver<Vec<u64>>,
    thread: JoinHandle<Result<Spooled, TableError>>,
    row: PhantomData<R>,
}

/// Spool file as the thread left it.
struct Spooled {
    file: File,
    bytes: u64,
    lost_bytes: u64,
}

impl<R: Packed> Spool<R> {
    /// Begins the table that becomes the file `path` when it is finished. `sample` is for its metadata: one
    /// request in so many has rows.
    pub fn create(path: impl AsRef<Path>, sample: u32) -> Result<Spool<R>, TableError> {
        Spool::with_limit(path.as_ref(), sample, SPOOL_MAX_BYTES)
    }

    fn with_limit(path: &Path, sample: u32, limit_bytes: u64) -> Result<Spool<R>, TableError> {
        let spool = spool_name(path);
        let failed = |source| TableError::File { path: spool.clone(), source };
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&spool);
        let file = file.map_err(failed)?;
        std::fs::remove_file(&spool).map_err(failed)?;
        let (full, incoming) = sync_channel::<Vec<u64>>(BATCHES);
        let (outgoing, empty) = sync_channel(BATCHES);
        let room = BATCH_WORDS / R::WORDS * R::WORDS;
        for _ in 1..BATCHES {
            // There is room for all of them.
            let _ = outgoing.try_send(Vec::with_capacity(room));
        }
        let name = spool.clone();
        let thread = std::thread::Builder::new()
            .name(format!("spool-{}", R::TABLE))
            .spawn(move || {
                let written = write(file, &incoming, &outgoing, limit_bytes);
                written.map_err(|source| TableError::File { path: name, source })
            })
            .map_err(failed)?;
        Ok(Spool {
            path: path.to_owned(),
            sample,
            batch: Vec::with_capacity(room),
            room,
            lost_rows: 0,
            full,
            empty,
            thread,
            row: PhantomData,
        })
    }

    /// Encodes the kept rows and gives the file its final name: about a second for a million rows.
    pub fn finish(self) -> Result<Written, TableError> {
        let Spool { path, sample, batch, full, thread, mut lost_rows, .. } = self;
        // Waiting is allowed here. A closed channel means that the thread met an error, which joining it
        // returns.
        let _ = full.send(batch);
        drop(full);
        let joined = thread.join().map_err(|_| TableError::Thread { path: path.clone() })?;
        let Spooled { mut file, bytes, lost_bytes } = joined?;
        lost_rows += lost_bytes / (R::WORDS as u64 * 8);
        let spool = spool_name(&path);
        let failed = |source| TableError::File { path: spool.clone(), source };
        file.rewind().map_err(failed)?;
        let notes = [("farlun.sample", u64::from(sample)), (LOST_ROWS, lost_rows)];
        let mut writer = Writer::<R>::with_notes(&path, &notes)?;
        let mut part = vec![0; BATCH_WORDS / R::WORDS * R::WORDS * 8];
        let mut words = Vec::with_capacity(part.len() / 8);
        let mut left = bytes;
        while left > 0 {
            let len = part.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            file.read_exact(&mut part[..len]).map_err(failed)?;
            left -= len as u64;
            words.clear();
            words.extend(part[..len].as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)));
            for row in words.chunks_exact(R::WORDS) {
                writer.push(&R::unpack(row))?;
            }
        }
        Ok(Written { rows: writer.finish()?, lost_rows })
    }

    /// Counts a row as lost that could not be made, because its data were not kept.
    pub fn lose(&mut self) {
        self.lost_rows += 1;
    }

    /// Rows that could not be kept so far, as far as is known before the end.
    pub fn lost_rows(&self) -> u64 {
        self.lost_rows
    }
}

impl<R: Packed> Sink<R> for Spool<R> {
    fn record(&mut self, row: &R) {
        if self.batch.len() == self.room {
            let Ok(next) = self.empty.try_recv() else {
                self.lost_rows += 1;
                return;
            };
            // There is room for all batches; a thread that is gone has met an error that ends the table.
            let _ = self.full.try_send(std::mem::replace(&mut self.batch, next));
        }
        self.batch.extend_from_slice(row.pack().as_ref());
    }
}

/// Writes batches until the queue is closed.
fn write(
    mut file: File,
    incoming: &Receiver<Vec<u64>>,
    outgoing: &SyncSender<Vec<u64>>,
    limit_bytes: u64,
) -> io::Result<Spooled> {
    let (mut bytes, mut lost_bytes) = (0, 0);
    let mut part: Vec<u8> = Vec::with_capacity(BATCH_WORDS * 8);
    for mut batch in incoming {
        part.resize(batch.len() * 8, 0);
        for (bytes, word) in part.as_chunks_mut().0.iter_mut().zip(&batch) {
            *bytes = word.to_le_bytes();
        }
        batch.clear();
        // The spool may be dropped already.
        let _ = outgoing.try_send(batch);
        if bytes + part.len() as u64 > limit_bytes {
            lost_bytes += part.len() as u64;
            continue;
        }
        file.write_all(&part)?;
        bytes += part.len() as u64;
    }
    Ok(Spooled { file, bytes, lost_bytes })
}

fn spool_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".spool.partial");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use event::{Instant, Io, Op};

    use super::*;
    use crate::{Ios, Row};

    fn io(i: u64) -> Io {
        let at = Instant::from_nanos;
        let op = if i.is_multiple_of(3) { Op::Write } else { Op::Read };
        let (offset_bytes, len_bytes) = (u64::MAX - i, u32::MAX - i as u32);
        Io { issued: at(i), completed: at(i * 2), op, offset_bytes, len_bytes, status: i as u8 }
    }

    #[test]
    fn rows_come_back_in_their_order_and_no_spool_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let mut expected = Ios::default();
        let mut spool = Spool::<Io>::create(dir.path().join("io.parquet"), 1).unwrap();
        for i in 0..100_003 {
            spool.record(&io(i));
            io(i).push(&mut expected);
        }
        // All of it fits into the batches, however slow the disk is.
        assert_eq!(spool.finish().unwrap(), Written { rows: 100_003, lost_rows: 0 });
        assert_eq!(crate::read::<Io>(dir.path()).unwrap(), expected);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_spool_has_a_limit_and_what_is_beyond_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("io.parquet");
        let mut spool = Spool::<Io>::with_limit(&path, 1, 1).unwrap();
        (0..10).for_each(|i| spool.record(&io(i)));
        spool.lose();
        assert_eq!(spool.finish().unwrap(), Written { rows: 0, lost_rows: 11 });
        assert_eq!(crate::lost_rows(dir.path()).unwrap(), [("io".to_owned(), 11)]);
    }

    #[test]
    fn without_an_empty_batch_rows_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::<Io>::create(dir.path().join("io.parquet"), 1).unwrap();
        while spool.empty.try_recv().is_ok() {}
        let room = (spool.room / Io::WORDS) as u64;
        (0..room + 7).for_each(|i| spool.record(&io(i)));
        assert_eq!(spool.lost_rows(), 7);
        assert_eq!(spool.finish().unwrap(), Written { rows: room, lost_rows: 7 });
    }
}
