//! Writes one table to one Parquet file, a row group at a time.
//!
//! Rows are kept as columns until a group is full; encoding a full group takes some tens of
//! milliseconds. A writer that cannot pause that long uses a [`crate::Recorder`].

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use event::Sink;
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::ColumnPath;

use crate::schema::{self, Kind};
use crate::version::{SCHEMA_VERSION_KEY, SOFTWARE, SOFTWARE_KEY};
use crate::{Row, SCHEMA_VERSION, TableError, Visit, Word};

/// Key of the table's name in the metadata of its file.
pub(super) const TABLE_KEY: &str = "farlun.table";
/// Rows in a full row group.
pub const ROWS_PER_GROUP: usize = 128 * 1024;

/// Writes a table. Dropped without [`Writer::finish`], it leaves a `.partial` file behind.
pub struct Writer<R: Row> {
    file: SerializedFileWriter<File>,
    path: PathBuf,
    partial: PathBuf,
    columns: R::Columns,
    waiting: usize,
    rows: u64,
    failed: Option<ParquetError>,
    broken: bool,
    row: PhantomData<R>,
}

impl<R: Row> Writer<R> {
    /// Starts the file that becomes `path` when it is finished. The directory must be there. The file's
    /// metadata carries the schema version, the version of farlun and this process's command line.
    pub fn create(path: impl AsRef<Path>) -> Result<Writer<R>, TableError> {
        Writer::with_notes(path.as_ref(), &[])
    }

    /// Creates the file with further metadata.
    pub(super) fn with_notes(path: &Path, notes: &[(&str, u64)]) -> Result<Writer<R>, TableError> {
        let path = path.to_owned();
        let partial = partial_name(&path);
        let failed = |source| TableError::File { path: partial.clone(), source };
        let file = fresh(&partial).map_err(failed)?;
        let file = schema::parquet_schema::<R>()
            .and_then(|schema| SerializedFileWriter::new(file, schema, Arc::new(properties::<R>(notes))))
            .map_err(|source| TableError::Parquet { path: partial.clone(), source })?;
        Ok(Writer {
            file,
            path,
            partial,
            columns: R::Columns::default(),
            waiting: 0,
            rows: 0,
            failed: None,
            broken: false,
            row: PhantomData,
        })
    }

    /// Adds an entry to the metadata.
    pub(super) fn note(&mut self, key: &str, value: u64) {
        self.file.append_key_value_metadata(KeyValue::new(key.to_owned(), value.to_string()));
    }

    /// Adds a row. Once a row group could not be written, every call fails and the file stays partial.
    pub fn push(&mut self, row: &R) -> Result<(), TableError> {
        self.record(row);
        self.outcome()
    }

    /// Rows taken so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Writes the remaining rows and gives the file its final name. Returns the number of rows.
    pub fn finish(mut self) -> Result<u64, TableError> {
        self.flush();
        self.outcome()?;
        self.file.finish().map_err(|source| TableError::Parquet { path: self.partial.clone(), source })?;
        std::fs::rename(&self.partial, &self.path)
            .map_err(|source| TableError::File { path: self.path.clone(), source })?;
        Ok(self.rows)
    }

    /// Takes a batch of `rows` rows, collected by the caller.
    pub(super) fn push_columns(&mut self, columns: R::Columns, rows: usize) -> Result<(), TableError> {
        self.flush();
        self.columns = columns;
        self.waiting = rows;
        self.rows += rows as u64;
        self.flush();
        self.outcome()
    }

    fn flush(&mut self) {
        if self.waiting == 0 || self.broken {
            return;
        }
        self.waiting = 0;
        let mut columns = std::mem::take(&mut self.columns);
        let written = self.file.next_row_group().and_then(|group| {
            let mut encode = Encode { group };
            R::visit(&mut columns, &mut encode)?;
            encode.group.close().map(drop)
        });
        self.broken = written.is_err();
        self.failed = written.err();
    }

    fn outcome(&mut self) -> Result<(), TableError> {
        if !self.broken {
            return Ok(());
        }
        let again = || ParquetError::General("an earlier row group could not be written".to_owned());
        let source = self.failed.take().unwrap_or_else(again);
        Err(TableError::Parquet { path: self.partial.clone(), source })
    }
}

/// Takes rows and keeps quiet: the first error waits for [`Writer::finish`], later rows are not kept.
impl<R: Row> Sink<R> for Writer<R> {
    fn record(&mut self, row: &R) {
        if self.broken {
            return;
        }
        row.push(&mut self.columns);
        self.waiting += 1;
        self.rows += 1;
        if self.waiting == ROWS_PER_GROUP {
            self.flush();
        }
    }
}

/// A new file, locked while it is open. The remains of an earlier run are removed; a link is not followed.
fn fresh(path: &Path) -> io::Result<File> {
    if std::fs::symlink_metadata(path).is_ok_and(|left| left.is_file())
        && matches!(File::options().write(true).open(path)?.try_lock(), Err(TryLockError::WouldBlock))
    {
        return Err(io::Error::new(ErrorKind::ResourceBusy, "another process is writing this table"));
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = File::create_new(path)?;
    // On a file system without locks no writer is excluded.
    let _ = file.try_lock();
    Ok(file)
}

fn partial_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

/// Times and counters grow, so their differences are small: delta encoding. The rest repeats: dictionary.
fn properties<R: Row>(notes: &[(&str, u64)]) -> WriterProperties {
    let command_line = event::shown_words(std::env::args_os()).join(" ");
    let entry = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
    let mut metadata = vec![
        entry(SCHEMA_VERSION_KEY, SCHEMA_VERSION.to_string()),
        entry(SOFTWARE_KEY, SOFTWARE.to_owned()),
        entry("farlun.command_line", command_line),
        entry(TABLE_KEY, R::TABLE.to_owned()),
    ];
    metadata.extend(notes.iter().map(|(key, value)| entry(key, value.to_string())));
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(format!("farlun version {SOFTWARE}"))
        .set_key_value_metadata(Some(metadata));
    for (name, kind) in schema::columns::<R>() {
        if kind == Kind::U64 {
            let column = ColumnPath::from(name);
            properties = properties
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
        }
    }
    properties.build()
}

struct Encode<'a> {
    group: SerializedRowGroupWriter<'a, File>,
}

impl Encode<'_> {
    fn column<T: DataType>(&mut self, name: &str, values: &[T::T]) -> Result<(), ParquetError> {
        let Some(mut column) = self.group.next_column()? else {
            return Err(ParquetError::General(format!("no room for column {name}")));
        };
        column.typed::<T>().write_batch(values, None, None)?;
        column.close()
    }
}

impl Visit for Encode<'_> {
    type Error = ParquetError;

    fn u64(&mut self, name: &'static str, column: &mut Vec<u64>) -> Result<(), ParquetError> {
        let values: Vec<i64> = column.iter().map(|v| v.cast_signed()).collect();
        self.column::<Int64Type>(name, &values)
    }

    fn u32(&mut self, name: &'static str, column: &mut Vec<u32>) -> Result<(), ParquetError> {
        let values: Vec<i32> = column.iter().map(|v| v.cast_signed()).collect();
        self.column::<Int32Type>(name, &values)
    }

    fn word<W: Word>(&mut self, name: &'static str, column: &mut Vec<W>) -> Result<(), ParquetError> {
        // Made once and shared: a row of a word column costs no allocation.
        let words: Vec<ByteArray> = W::ALL.iter().map(|word| ByteArray::from(word.word())).collect();
        let place = |word: W| W::ALL.iter().position(|known| std::ptr::eq(known.word(), word.word()));
        let share =
            |word: &W| place(*word).map_or_else(|| ByteArray::from(word.word()), |n| words[n].clone());
        let values: Vec<ByteArray> = column.iter().map(share).collect();
        self.column::<ByteArrayType>(name, &values)
    }
}
