//! A table of another schema version is refused by every way of reading it.

use std::fs;
use std::path::Path;

use event::{Instant, Io, Op};
use tables::{SCHEMA_VERSION, TableError, Writer};

const KEY: &[u8] = b"farlun.schema_version";

fn io() -> Io {
    let at = Instant::from_nanos(1);
    Io { issued: at, completed: at, op: Op::Read, offset_bytes: 0, len_bytes: 4096, status: 0 }
}

fn write(path: &Path) {
    let mut writer = Writer::<Io>::create(path).unwrap();
    writer.push(&io()).unwrap();
    writer.finish().unwrap();
}

/// Replaces the one place where `from` stands in a file by as many bytes.
fn patch(path: &Path, from: &[u8], to: &[u8]) {
    let mut bytes = fs::read(path).unwrap();
    let places: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    let [at] = places[..] else { panic!("{} places", places.len()) };
    bytes[at..at + to.len()].copy_from_slice(to);
    fs::write(path, bytes).unwrap();
}

/// The key and a value, as the footer of a Parquet file has them: Thrift's compact protocol.
fn with_value(value: &str) -> Vec<u8> {
    [KEY, &[0x18, value.len() as u8], value.as_bytes()].concat()
}

/// Checks that every way of reading refuses the table in `dir`; returns the message, with FILE for the path.
#[track_caller]
fn refused(dir: &Path) -> String {
    let file = dir.join("io.parquet");
    let errors: [TableError; 5] = [
        tables::read::<Io>(dir).unwrap_err(),
        tables::read_optional::<Io>(dir).unwrap_err(),
        tables::read_pieces::<Io>(dir, Some(&["op"]), |_| panic!("a piece was read")).unwrap_err(),
        tables::said::<Io>(dir, "farlun.table").unwrap_err(),
        tables::lost_rows(dir).unwrap_err(),
    ];
    let texts = errors.map(|error| {
        assert!(matches!(error, TableError::SchemaVersion(_)), "{error:?}");
        error.to_string().replace(&file.display().to_string(), "FILE")
    });
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    texts[0].clone()
}

#[test]
fn a_table_of_another_schema_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("io.parquet");
    write(&file);
    let written = tables::said::<Io>(dir.path(), "farlun.schema_version").unwrap();
    assert_eq!(written, [Some(SCHEMA_VERSION.to_string())]);

    let ours = SCHEMA_VERSION.to_string();
    let other = "9".repeat(ours.len());
    patch(&file, &with_value(&ours), &with_value(&other));
    let writer = env!("CARGO_PKG_VERSION");
    assert_eq!(
        refused(dir.path()),
        format!(
            "FILE: found schema version {other}, expected {ours}; run it again with this farlun, or read it with farlun \
             {writer}, which wrote it"
        )
    );
    patch(&file, KEY, b"farlun.schema_vision_");
    patch(&file, b"farlun.version", b"farlun.vision_");
    assert_eq!(
        refused(dir.path()),
        format!("FILE: found no schema version, expected {ours}; run it again with this farlun")
    );
}

#[test]
fn a_file_of_another_program_has_no_lost_rows() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.parquet");
    write(&file);
    patch(&file, KEY, b"farlun.schema_vision_");
    patch(&file, b"farlun.table", b"farlun.tab__");
    assert_eq!(tables::lost_rows(dir.path()).unwrap(), []);
}
