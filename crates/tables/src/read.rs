//! Reads every file of a table in a cell directory back into plain columns.
//!
//! Files are read in the order of their names and appended; rows are not sorted across files. A file of another schema
//! version is refused before anything of it is read.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use parquet::basic::{LogicalType, Type as PhysicalType};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};

use crate::background::LOST_ROWS;
use crate::schema::Kind;
use crate::version::{self, SCHEMA_VERSION_KEY, SOFTWARE_KEY};
use crate::write::TABLE_KEY;
use crate::{Row, TableError, Visit, Word};

/// All rows of a table in the cell directory `dir`; an error if it has no file.
pub fn read<R: Row>(dir: impl AsRef<Path>) -> Result<R::Columns, TableError> {
    let dir = dir.as_ref();
    read_optional::<R>(dir)?.ok_or_else(|| TableError::Missing { dir: dir.to_owned(), table: R::TABLE })
}

/// Like [`read`], and `None` if the table has no file there.
pub fn read_optional<R: Row>(dir: impl AsRef<Path>) -> Result<Option<R::Columns>, TableError> {
    let files = files::<R>(dir)?;
    if files.is_empty() {
        return Ok(None);
    }
    let mut columns = R::Columns::default();
    for path in &files {
        append::<R>(path, &mut columns)?;
    }
    Ok(Some(columns))
}

/// Shows a table, or the columns of these names, to `each` piece by piece, in the order of [`read`]; true if
/// it has a file.
pub fn read_pieces<R: Row>(
    dir: impl AsRef<Path>,
    names: Option<&[&str]>,
    mut each: impl FnMut(R::Columns),
) -> Result<bool, TableError> {
    let files = files::<R>(dir)?;
    for path in &files {
        for_groups(path, names, |decode| {
            let mut columns = R::Columns::default();
            R::visit(&mut columns, decode)?;
            each(columns);
            Ok(())
        })?;
    }
    Ok(!files.is_empty())
}

/// Values of `key` in the metadata of a table's files, one entry per file.
pub fn said<R: Row>(dir: impl AsRef<Path>, key: &str) -> Result<Vec<Option<String>>, TableError> {
    let value = |path: &PathBuf| Ok(entry(&open(path)?, key).map(str::to_owned));
    files::<R>(dir)?.iter().map(value).collect()
}

/// The tables in `dir` of which rows could not be kept, and how many of each file's.
pub fn lost_rows(dir: impl AsRef<Path>) -> Result<Vec<(String, u64)>, TableError> {
    let mut lost = Vec::new();
    for path in finished(dir.as_ref(), |_| true)? {
        let reader = open_any(&path)?;
        // Another program may have left a file of its own beside ours.
        let Some(table) = entry(&reader, TABLE_KEY) else { continue };
        check_version(&path, &reader)?;
        if let Some(rows @ 1..) = entry(&reader, LOST_ROWS).and_then(|n| n.parse().ok()) {
            lost.push((table.to_owned(), rows));
        }
    }
    Ok(lost)
}

/// The finished files of a table in `dir`, sorted by name.
pub fn files<R: Row>(dir: impl AsRef<Path>) -> Result<Vec<PathBuf>, TableError> {
    // `io-near` belongs to `io`; a table `iodine` would not.
    let belongs = |rest: &str| rest.is_empty() || rest.starts_with('-');
    finished(dir.as_ref(), |name| name.strip_prefix(R::TABLE).is_some_and(belongs))
}

/// The finished files of the tables that `is_wanted` selects by name without ending; sorted.
fn finished(dir: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, TableError> {
    let failed = |source| TableError::File { path: dir.to_owned(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if name.to_str().and_then(|name| name.strip_suffix(".parquet")).is_some_and(&is_wanted) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

fn append<R: Row>(path: &Path, columns: &mut R::Columns) -> Result<(), TableError> {
    for_groups(path, None, |decode| R::visit(columns, decode))
}

/// Opens a file of a table of this schema version.
fn open(path: &Path) -> Result<SerializedFileReader<File>, TableError> {
    let reader = open_any(path)?;
    check_version(path, &reader)?;
    Ok(reader)
}

fn check_version(path: &Path, reader: &SerializedFileReader<File>) -> Result<(), TableError> {
    let writer = || entry(reader, SOFTWARE_KEY).map(str::to_owned);
    Ok(version::check(path, entry(reader, SCHEMA_VERSION_KEY), writer)?)
}

/// The value of `key` in the metadata of a file.
fn entry<'a>(reader: &'a SerializedFileReader<File>, key: &str) -> Option<&'a str> {
    let entries = reader.metadata().file_metadata().key_value_metadata()?;
    entries.iter().find(|entry| entry.key == key)?.value.as_deref()
}

fn open_any(path: &Path) -> Result<SerializedFileReader<File>, TableError> {
    let file = File::open(path).map_err(|source| TableError::File { path: path.to_owned(), source })?;
    guarded(path, || SerializedFileReader::new(file))
}

fn for_groups(
    path: &Path,
    wanted: Option<&[&str]>,
    mut each: impl FnMut(&mut Decode<'_>) -> Result<(), TableError>,
) -> Result<(), TableError> {
    let reader = open(path)?;
    for index in 0..reader.num_row_groups() {
        let group = guarded(path, || reader.get_row_group(index))?;
        each(&mut Decode { path, group: group.as_ref(), wanted })?;
    }
    Ok(())
}

/// Reads from a file. The Parquet library takes some damage for a mistake of its own and panics; it is an error of the file.
fn guarded<T>(path: &Path, read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, TableError> {
    let panicked = |_| {
        Err(ParquetError::General(
            "damaged in a way that the Parquet library does not expect; write the file again".to_owned(),
        ))
    };
    let result = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(panicked);
    result.map_err(|source| TableError::Parquet { path: path.to_owned(), source })
}

struct Decode<'a> {
    path: &'a Path,
    group: &'a dyn RowGroupReader,
    /// Names of the columns to read; `None` for all.
    wanted: Option<&'a [&'a str]>,
}

impl Decode<'_> {
    fn wants(&self, name: &str) -> bool {
        self.wanted.is_none_or(|wanted| wanted.contains(&name))
    }

    fn column<T: DataType>(&self, name: &'static str, kind: Kind) -> Result<Vec<T::T>, TableError> {
        let schema = self.group.metadata().schema_descr();
        let wrong = |found: String| TableError::Column {
            path: self.path.to_owned(),
            column: name,
            found,
            expected: kind.name(),
        };
        let position = schema.columns().iter().position(|c| c.path().parts() == [name]);
        let index = position.ok_or_else(|| wrong("none".to_owned()))?;
        let column = schema.column(index);
        let logical = column.logical_type_ref();
        let unsigned = |width| logical == Some(&LogicalType::integer(width, false));
        let fits = column.max_def_level() == 0
            && match kind {
                Kind::U64 => column.physical_type() == PhysicalType::INT64 && unsigned(64),
                Kind::U32 => column.physical_type() == PhysicalType::INT32 && unsigned(32),
                Kind::Word => column.physical_type() == PhysicalType::BYTE_ARRAY,
            };
        if !fits {
            return Err(wrong(format!("{} {logical:?}", column.physical_type())));
        }
        let read = || -> Result<Vec<T::T>, ParquetError> {
            let rows = usize::try_from(self.group.metadata().num_rows()).unwrap_or(0);
            // The row count of the file is untrusted; memory grows with the rows that are read.
            let mut values = Vec::with_capacity(rows.min(crate::ROWS_PER_GROUP));
            let mut reader = get_typed_column_reader::<T>(self.group.get_column_reader(index)?);
            while values.len() < rows {
                let (records, _, _) = reader.read_records(rows - values.len(), None, None, &mut values)?;
                if records == 0 {
                    let text = format!("column {name} ends after {} of {rows} rows", values.len());
                    return Err(ParquetError::EOF(text));
                }
            }
            Ok(values)
        };
        guarded(self.path, read)
    }
}

impl Visit for Decode<'_> {
    type Error = TableError;

    fn u64(&mut self, name: &'static str, column: &mut Vec<u64>) -> Result<(), TableError> {
        if !self.wants(name) {
            return Ok(());
        }
        column.extend(self.column::<Int64Type>(name, Kind::U64)?.into_iter().map(i64::cast_unsigned));
        Ok(())
    }

    fn u32(&mut self, name: &'static str, column: &mut Vec<u32>) -> Result<(), TableError> {
        if !self.wants(name) {
            return Ok(());
        }
        column.extend(self.column::<Int32Type>(name, Kind::U32)?.into_iter().map(i32::cast_unsigned));
        Ok(())
    }

    fn word<W: Word>(&mut self, name: &'static str, column: &mut Vec<W>) -> Result<(), TableError> {
        if !self.wants(name) {
            return Ok(());
        }
        for value in self.column::<ByteArrayType>(name, Kind::Word)? {
            let known = W::ALL.iter().find(|w| w.word().as_bytes() == value.data());
            column.push(*known.ok_or_else(|| TableError::Column {
                path: self.path.to_owned(),
                column: name,
                found: format!("'{}'", String::from_utf8_lossy(value.data())),
                expected: "one of the words in docs/reference/tables.md",
            })?);
        }
        Ok(())
    }
}
