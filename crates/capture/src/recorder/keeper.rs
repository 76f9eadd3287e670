//! One capture on the recording host: its files, and the number of its next packet.

use std::net::IpAddr;
use std::path::Path;

use event::Instant;

use super::message::{MessageError, check_header, check_records};
use crate::CaptureError;
use crate::files::{Files, Rotation};
use crate::shelf::Shelf;

/// A capture that is being recorded.
#[derive(Debug)]
pub(super) struct Keeper {
    files: Files,
    interfaces: usize,
    /// The packet that comes next; `None` before the first.
    next: Option<u64>,
    written: u64,
    missing: u64,
}

/// Reasons why records were refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeepError {
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The sender may try again.
    #[error(transparent)]
    File(#[from] CaptureError),
}

impl Keeper {
    /// Begins the files of capture number `capture` from `peer`; they share the limit of `shelf`.
    pub(super) fn new(
        shelf: &Shelf,
        dir: &Path,
        peer: IpAddr,
        capture: u64,
        header: &[u8],
        rotation: Rotation,
        now: Instant,
    ) -> Result<Keeper, KeepError> {
        let interfaces = check_header(header)?;
        // Colons of IPv6 are not for names of files.
        let peer = peer.to_string().replace(':', "_");
        let prefix = format!("{peer}-{:08x}", capture >> 32);
        let files = Files::create_on(shelf, dir, &prefix, (header.to_vec(), rotation), now)?;
        Ok(Keeper { files, interfaces, next: None, written: 0, missing: 0 })
    }

    /// The packet that is wanted next.
    pub(super) fn next(&self) -> u64 {
        self.next.unwrap_or(0)
    }

    /// Writes records unless they were written before; how many packets were missing in front of them.
    pub(super) fn records(
        &mut self,
        first: u64,
        packets: u32,
        blocks: &[u8],
        now: Instant,
    ) -> Result<u64, KeepError> {
        check_records(blocks, packets, self.interfaces)?;
        let next = self.next.unwrap_or(first);
        let end = first.saturating_add(u64::from(packets));
        if first < next {
            // Sent again because our acknowledgement was lost.
            return Ok(0);
        }
        // A sender without packets sends empty messages as keep-alive.
        if !blocks.is_empty() {
            self.files.write(blocks, now)?;
        }
        let missing = first - next;
        self.missing += missing;
        self.written += u64::from(packets);
        self.next = Some(end);
        Ok(missing)
    }

    /// The capture had `packets` in all; how many are missing at its end.
    pub(super) fn end(&mut self, packets: u64) -> u64 {
        let missing = packets.saturating_sub(self.next());
        self.missing += missing;
        self.next = Some(packets.max(self.next()));
        missing
    }

    /// Packets that are in files, and that are known to be missing.
    pub(super) const fn counts(&self) -> (u64, u64) {
        (self.written, self.missing)
    }

    /// The files that are there.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.paths()
    }
}

#[cfg(test)]
mod tests {
    use wire::pcap::write;

    use super::*;

    fn records(count: u32) -> Vec<u8> {
        let mut blocks = Vec::new();
        for n in 0..count {
            write::packet(&mut blocks, 0, n.into(), 60, &[b"abc"]);
        }
        blocks
    }

    #[test]
    fn captures_of_a_host_count_together() {
        let dir = tempfile::tempdir().unwrap();
        let mut header = Vec::new();
        write::section(&mut header, &write::Section::default());
        let about = write::Interface { name: "a", description: "", link: 1, snap_bytes: 96, filter: "" };
        write::interface(&mut header, &about);
        let peer = "10.0.0.7".parse().unwrap();
        let rotation = Rotation { bytes: Some(1), time: None, files: Some(3) };
        let (shelf, now) = (Shelf::default(), Instant::ZERO);
        for capture in 1..=4 {
            let capture = capture << 32;
            let mut keeper = Keeper::new(&shelf, dir.path(), peer, capture, &header, rotation, now).unwrap();
            assert!((0..3).all(|n| keeper.records(n, 1, &records(1), now).is_ok()));
        }
        let names = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, [1, 2, 3].map(|n| format!("10.0.0.7-00000004-{n:05}.pcapng")));
    }

    #[test]
    fn every_packet_is_written_once_or_missing() {
        let dir = tempfile::tempdir().unwrap();
        let mut header = Vec::new();
        write::section(&mut header, &write::Section::default());
        let about = write::Interface { name: "a", description: "", link: 1, snap_bytes: 96, filter: "" };
        write::interface(&mut header, &about);
        let peer = "2001:db8::7".parse().unwrap();
        let now = Instant::ZERO;
        let shelf = Shelf::default();
        let new =
            || Keeper::new(&shelf, dir.path(), peer, u64::MAX, &header, Rotation::default(), now).unwrap();
        let mut keeper = new();
        let mut take = |first, count| keeper.records(first, count, &records(count), now).unwrap();
        assert_eq!((take(0, 3), take(3, 2), take(3, 2), take(5, 0)), (0, 0, 0, 0));
        assert_eq!((take(9, 1), take(10, 2)), (4, 0));
        assert_eq!((keeper.end(20), keeper.counts(), keeper.next()), (8, (8, 12), 20));
        let paths: Vec<_> = keeper.paths().collect();
        assert_eq!(paths, [dir.path().join("2001_db8__7-ffffffff-00001.pcapng")]);
        let expected = [header.clone(), records(3), records(2), records(1), records(2)].concat();
        assert!(std::fs::read(paths[0]).unwrap() == expected);

        // A recorder that was started later begins where the sender is.
        let mut later = new();
        assert_eq!(later.records(100, 1, &records(1), now).unwrap(), 0);
        assert_eq!((later.next(), later.counts()), (101, (1, 0)));
        assert!(matches!(later.records(101, 2, &records(1), now), Err(KeepError::Message(_))));
        assert!(Keeper::new(&shelf, dir.path(), peer, 1, b"nothing", Rotation::default(), now).is_err());
    }
}
