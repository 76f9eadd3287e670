//! Workloads without a session: the tests execute the requests.

use std::collections::HashMap;
use std::io::Write;

use wire::scsi::BlockForm;

use super::*;

const BLOCK: u32 = 4096;
const BLOCKS: u64 = 100;

/// A disk with a volatile write cache.
#[derive(Default)]
struct Disk {
    cache: HashMap<u64, Vec<u8>>,
    durable: HashMap<u64, Vec<u8>>,
}

impl Disk {
    fn carry_out(&mut self, request: &Request) {
        match &request.body {
            Body::Write(block) => drop(self.cache.insert(request.offset_bytes, block.to_vec())),
            _ => {
                assert!(request.is_flush());
                self.durable.extend(self.cache.drain());
            }
        }
    }
}

/// Writes a file while the target restarts after the given numbers of responses.
fn write_with_restarts(restarts: &[u64]) -> (Disk, u64) {
    let mut file = tempfile::tempfile().expect("a temporary file");
    let len_bytes = BLOCKS * u64::from(BLOCK) - 512;
    let bytes: Vec<u8> = (0..len_bytes).map(|at| (at / 512 * 7) as u8).collect();
    file.write_all(&bytes).expect("room for the file");
    let range = Range { offset_bytes: 1 << 20, len_bytes };
    let geometry = Geometry::of(512, BlockForm::Ten);
    let mut ignored = |_| {};
    let buffers = Buffers::new(1 << 20);
    let mut work = FromFile::new(range, BLOCK, geometry, &buffers, file, &mut ignored).expect("a thread");
    let (mut disk, mut open, mut answers) = (Disk::default(), VecDeque::new(), 0);
    let now = Instant::ZERO;
    while !(work.is_over(now) && open.is_empty()) {
        while open.len() < 8
            && let Some(request) = work.next(now)
        {
            open.push_back(request);
        }
        let Some(request) = open.pop_front() else {
            std::thread::yield_now();
            continue;
        };
        disk.carry_out(&request);
        answers += 1;
        let completed =
            Completed { request, issued: now, completed: now, transferred_bytes: 0, result: Ok(()) };
        work.done(completed).expect("nothing fails");
        if restarts.contains(&answers) {
            // The session issues outstanding requests again.
            disk.cache.clear();
            work.reconnected();
        }
    }
    assert_eq!(work.done_bytes(), len_bytes);
    let written: Vec<u8> =
        (0..BLOCKS).flat_map(|block| disk.durable[&((1 << 20) + block * u64::from(BLOCK))].clone()).collect();
    assert!(written == bytes, "what is durable differs from the file");
    (disk, answers)
}

#[test]
fn what_a_restarted_target_forgot_is_written_again() {
    let (disk, answers) = write_with_restarts(&[]);
    assert_eq!((disk.cache.len(), answers), (0, BLOCKS + 1), "once, and one flush");
    // More restarts than the file has blocks.
    let often: Vec<u64> = (1..1000).map(|count| 40 * count).collect();
    let (_, answers) = write_with_restarts(&often);
    assert!(answers < 10 * BLOCKS, "{answers}");
    for restarts in [&[1][..], &[50], &[99], &[100], &[30, 60, 90], &[40, 140, 141]] {
        let (disk, answers) = write_with_restarts(restarts);
        assert!(disk.cache.is_empty() && answers > BLOCKS + 1, "{restarts:?}: {answers}");
    }
}

#[test]
fn a_range_is_read_once_in_any_order_of_its_answers() {
    let file = tempfile::tempfile().expect("a temporary file");
    let copy = file.try_clone().expect("a descriptor");
    let range = Range { offset_bytes: 1 << 20, len_bytes: BLOCKS * u64::from(BLOCK) - 512 };
    let geometry = Geometry::of(512, BlockForm::Ten);
    let (buffers, mut progress) = (Buffers::new(1 << 20), Vec::new());
    let mut note = |done_bytes| progress.push(done_bytes);
    let mut work = ToFile::new(range, BLOCK, geometry, &buffers, file, &mut note).expect("a thread");
    let byte_of = |at: u64| (at / 512 * 7) as u8;
    let (mut open, mut asked, now) = (VecDeque::new(), Vec::new(), Instant::ZERO);
    while !work.is_over(now) {
        while open.len() < 8
            && let Some(request) = work.next(now)
        {
            open.push_back(request);
        }
        let Some(mut request) = open.pop_back() else {
            let waits = work.resume_at().is_some() || work.is_over(now);
            assert!(waits, "no request follows {asked:?}");
            std::thread::yield_now();
            continue;
        };
        let (begin, len_bytes) = (request.offset_bytes, request.len_bytes());
        asked.push((begin, len_bytes));
        let Body::Read(block) = &mut request.body else { panic!("{request:?}") };
        (begin..).zip(block.iter_mut()).for_each(|(at, byte)| *byte = byte_of(at));
        let transferred_bytes = len_bytes as u32;
        let completed = Completed { request, issued: now, completed: now, transferred_bytes, result: Ok(()) };
        work.done(completed).expect("nothing fails");
    }
    assert!(open.is_empty() && work.next(now).is_none());
    assert_eq!(work.done_bytes(), range.len_bytes);
    work.finish().expect("room for the file");
    drop(work);
    assert_eq!((progress.len() as u64, progress.last()), (BLOCKS, Some(&range.len_bytes)));
    asked.sort_unstable();
    let len_of = |block| if block == BLOCKS - 1 { 4096 - 512 } else { 4096 };
    let expected = (0..BLOCKS).map(|block| (range.offset_bytes + block * 4096, len_of(block)));
    assert!(asked == expected.collect::<Vec<_>>(), "{asked:?}");
    let mut found = vec![0; range.len_bytes as usize];
    copy.read_exact_at(&mut found, 0).expect("the whole range");
    assert!((range.offset_bytes..).zip(&found).all(|(at, byte)| *byte == byte_of(at)));
    assert_eq!(copy.metadata().expect("a file").len(), range.len_bytes);
}
