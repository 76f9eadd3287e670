//! A table can be read column by column and piece by piece, with its metadata.

use event::{Instant, Io, Op};
use tables::{Ios, ROWS_PER_GROUP, Row, Writer};

fn io(i: u64) -> Io {
    Io {
        issued: Instant::from_nanos(i),
        completed: Instant::from_nanos(i + 16_000_000),
        op: if i.is_multiple_of(2) { Op::Read } else { Op::Write },
        offset_bytes: i * 4096,
        len_bytes: 4096,
        status: 0,
    }
}

#[test]
fn some_columns_or_all_of_them_in_pieces() {
    let dir = tempfile::tempdir().unwrap();
    let rows = ROWS_PER_GROUP as u64 + 7;
    for (name, range) in [("io-far.parquet", 0..rows), ("io-near.parquet", rows..rows + 3)] {
        let mut writer = Writer::<Io>::create(dir.path().join(name)).unwrap();
        range.for_each(|i| writer.push(&io(i)).unwrap());
        writer.finish().unwrap();
    }
    let mut all = Ios::default();
    (0..rows + 3).for_each(|i| io(i).push(&mut all));

    let mut pieces = Vec::new();
    assert!(tables::read_pieces::<Io>(dir.path(), None, |piece| pieces.push(piece)).unwrap());
    assert_eq!(pieces.iter().map(|p| p.op.len() as u64).collect::<Vec<_>>(), [ROWS_PER_GROUP as u64, 7, 3]);
    tables::read_pieces::<Io>(dir.path(), Some(&["op"]), |piece| {
        assert!(piece.status.is_empty() && !piece.op.is_empty());
    })
    .unwrap();
    let issued: Vec<u64> = pieces.iter().flat_map(|p| p.issued_t_ns.iter().copied()).collect();
    assert_eq!(issued, all.issued_t_ns);

    let said = tables::said::<Io>(dir.path(), "farlun.table").unwrap();
    assert_eq!(said, [Some("io".to_owned()), Some("io".to_owned())]);
    assert_eq!(tables::said::<Io>(dir.path(), "colour").unwrap(), [None, None]);

    let empty = tempfile::tempdir().unwrap();
    assert!(!tables::read_pieces::<Io>(empty.path(), None, |_| ()).unwrap());
}
