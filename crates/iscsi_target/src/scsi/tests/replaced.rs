//! A LUN with a replaced store, and one that grows, from the view of sessions with and without earlier knowledge.

use super::*;
use crate::lun::Lun;

const OLD: Nexus = Nexus(1);
const SAME: Nexus = Nexus(2);
const NEW: Nexus = Nexus(3);

const READY: [u8; 6] = [0; 6];

struct Swap {
    luns: Luns,
}

fn port(last: u8) -> Port {
    Port { name: "iqn.2026-11.io.farlun:a".to_owned(), isid: [0x80, 0, 0, 0, 0, last], user: None }
}

fn lun(spec: &str) -> Lun {
    Lun::open(&spec.parse().unwrap(), 0, Opening::of(IQN, None)).unwrap()
}

impl Swap {
    /// A LUN that one session knows, after its unit attentions were reported.
    fn new(spec: &str) -> Swap {
        let luns = Luns::open(&[(0, spec.parse().unwrap())].into(), Opening::of(IQN, None)).unwrap();
        let mut swap = Swap { luns };
        swap.luns.begin(OLD, port(1));
        assert_eq!(swap.run(OLD, &READY), Outcome::Check(Sense::POWER_ON));
        swap
    }

    fn run(&mut self, nexus: Nexus, cdb: &[u8]) -> Outcome {
        let mut bytes = [0; 16];
        bytes[..cdb.len()].copy_from_slice(cdb);
        execute(&mut self.luns, Address::from_number(0), nexus, &bytes)
    }

    /// Another store, which is there as soon as the old one is gone.
    fn replace(&mut self, spec: &str) {
        self.luns.change(&[0], vec![lun(spec)]);
        assert_eq!(self.run(OLD, &READY), Outcome::Check(Sense::LUN_NOT_SUPPORTED));
        self.luns.release(0).unwrap();
    }

    fn listed(&mut self, nexus: Nexus) -> usize {
        let Outcome::DataIn(data) =
            self.run(nexus, &Cdb::ReportLuns { select: 0, allocation_len: 512 }.emit())
        else {
            panic!("no list of LUNs")
        };
        ReportLuns::parse(&data).unwrap().luns.len()
    }

    fn is_there(&mut self, nexus: Nexus) -> bool {
        let inquiry = Cdb::Inquiry { page: None, allocation_len: 96 }.emit();
        let Outcome::DataIn(data) = self.run(nexus, &inquiry) else { panic!("no INQUIRY data") };
        let serial = Cdb::Inquiry { page: Some(page::UNIT_SERIAL_NUMBER), allocation_len: 96 }.emit();
        let has_serial = matches!(self.run(nexus, &serial), Outcome::DataIn(_));
        let is_there = StandardInquiry::parse(&data).unwrap().qualifier == 0;
        assert_eq!(is_there, has_serial);
        is_there
    }

    #[track_caller]
    fn expect_closed(&mut self, nexus: Nexus) {
        let refused = Outcome::Check(Sense::LUN_NOT_SUPPORTED);
        // Each of them might count as having noticed.
        for _ in 0..2 {
            for cdb in [&READY[..], &ten(0x28, 0, 0, 1), &ten(0x2a, 0, 0, 1), &ten(0x35, 0, 0, 0)] {
                assert_eq!(self.run(nexus, cdb), refused, "CDB {cdb:02x?}");
            }
            assert!(!self.is_there(nexus));
            assert_eq!(self.listed(nexus), 0);
            let sense = Outcome::DataIn(Sense::LUN_NOT_SUPPORTED.emit_fixed().to_vec());
            assert_eq!(self.run(nexus, &[3, 0, 0, 0, 18, 0]), sense);
        }
    }

    #[track_caller]
    fn expect_new(&mut self, nexus: Nexus) {
        assert_eq!(self.run(nexus, &READY), Outcome::Check(Sense::POWER_ON));
        while self.run(nexus, &READY) != Outcome::Good {}
        assert!(self.is_there(nexus) && self.listed(nexus) == 1);
    }
}

#[test]
fn another_store_before_and_after_a_logout() {
    let mut swap = Swap::new("memory:1MiB");
    swap.replace("memory:1MiB");
    swap.expect_closed(OLD);
    swap.luns.begin(NEW, port(2));
    swap.expect_new(NEW);
    swap.luns.reset(None);
    swap.expect_closed(OLD);
    // Lost, and made again, with the same name and ISID.
    swap.luns.end(OLD, false);
    swap.luns.begin(SAME, port(1));
    swap.expect_closed(SAME);
    swap.luns.end(SAME, true);
    swap.luns.begin(SAME, port(1));
    swap.expect_new(SAME);
}

#[test]
fn another_store_that_comes_later() {
    let mut swap = Swap::new("memory:1MiB");
    swap.luns.change(&[0], Vec::new());
    swap.luns.release(0).unwrap();
    // The session has nothing to do with that number while it is open.
    swap.luns.begin(NEW, port(2));
    swap.luns.end(NEW, false);
    let next = lun("memory:2MiB");
    let strangers = swap.luns.strangers_to(&next);
    assert_eq!(
        strangers.iter().map(|stranger| (&stranger.port, stranger.session)).collect::<Vec<_>>(),
        [(&port(1), Some(OLD))]
    );
    swap.luns.change(&[], vec![next]);
    swap.expect_closed(OLD);
    swap.luns.begin(SAME, port(2));
    swap.expect_new(SAME);
}

#[test]
fn the_old_store_after_its_return() {
    let dir = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| {
        let path = dir.path().join(name);
        File::create(&path).unwrap().set_len(1 << 20).unwrap();
        format!("file:{}", path.display())
    });
    let mut swap = Swap::new(&first);
    swap.replace(&second);
    swap.expect_closed(OLD);
    assert!(swap.luns.strangers_to(&lun("memory:1MiB")).is_empty(), "it is closed to it already");
    swap.luns.change(&[0], Vec::new());
    swap.luns.release(0).unwrap();
    File::options().write(true).open(dir.path().join("first")).unwrap().set_len(2 << 20).unwrap();
    swap.luns.change(&[], vec![lun(&format!("{first},ro"))]);
    swap.expect_new(OLD);
    // A smaller one of the same name is another disk.
    swap.luns.change(&[0], Vec::new());
    swap.luns.release(0).unwrap();
    File::options().write(true).open(dir.path().join("first")).unwrap().set_len(512 << 10).unwrap();
    assert_eq!(swap.luns.strangers_to(&lun(&first)).len(), 1);
}

#[test]
fn unit_attentions_of_a_lun_that_grows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    File::create(&path).unwrap().set_len(1 << 20).unwrap();
    let spec = format!("file:{},fault=notready:lba=0:nth=9", path.display());
    let mut swap = Swap::new(&spec);
    swap.luns.begin(NEW, port(2));
    assert_eq!(swap.run(NEW, &READY), Outcome::Check(Sense::POWER_ON));
    File::options().write(true).open(&path).unwrap().set_len(3 << 20).unwrap();
    let served = swap.luns.served();
    assert_eq!(served[&0].store.as_ref().unwrap().measure(), Ok(3 << 20));
    swap.luns.grow(0, (3 << 20) / 512);
    for nexus in [OLD, NEW] {
        assert_eq!(swap.run(nexus, &READY), Outcome::Check(Sense::CAPACITY_CHANGED));
        assert_eq!(swap.run(nexus, &ten(0x28, 0, 6143, 1)), Outcome::Read(range(6143, 1, false)));
        assert_eq!(swap.run(nexus, &ten(0x28, 0, 6144, 1)), illegal(0x21, 0));
    }
    assert_eq!(swap.luns.served()[&0].blocks, 6144);
    assert_eq!(served[&0].store.as_ref().unwrap().len_bytes(), 3 << 20);
    swap.luns.begin(SAME, port(3));
    assert_eq!(swap.run(SAME, &READY), Outcome::Check(Sense::POWER_ON));
    assert_eq!(swap.run(SAME, &READY), Outcome::Good);
}
