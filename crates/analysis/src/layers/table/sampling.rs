//! Sampling of `layers`: the rows that count if files keep one request in N, each file its own N.
//!
//! A file keeps the requests whose CmdSN is a multiple of its N. So all files of one end have those whose CmdSN is a
//! multiple of the least common multiple, and both ends those of the multiple of both: counts of one end are scaled up
//! by its own number, counts between the ends by that of both.

use std::path::{Path, PathBuf};

use event::{Host, Layers};
use tables::TableError;

/// Sampling at each end: one request in N counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::layers) struct Sampling {
    near: u64,
    far: u64,
}

impl Sampling {
    /// Reads the sampling of the files in these directories.
    pub(in crate::layers) fn said(dirs: &[PathBuf]) -> Result<Sampling, TableError> {
        let mut sampling = Sampling { near: 1, far: 1 };
        for dir in dirs {
            let numbers = tables::said::<Layers>(dir, "farlun.sample")?;
            for (file, number) in tables::files::<Layers>(dir)?.iter().zip(numbers) {
                sampling.and(host_of(file), number.and_then(|number| number.parse().ok()).unwrap_or(1));
            }
        }
        Ok(sampling)
    }

    /// Adds another file, of one end or of an unknown one.
    fn and(&mut self, host: Option<Host>, one_in: u64) {
        if host != Some(Host::Far) {
            self.near = common(self.near, one_in.max(1));
        }
        if host != Some(Host::Near) {
            self.far = common(self.far, one_in.max(1));
        }
    }

    /// Factor for rows of one end.
    pub(in crate::layers) fn of(self, host: Host) -> u64 {
        match host {
            Host::Near => self.near,
            Host::Far => self.far,
        }
    }

    /// Factor for rows of both ends.
    pub(in crate::layers) fn both(self) -> u64 {
        common(self.near, self.far)
    }

    /// True if a row of one end counts.
    pub(in crate::layers) fn takes(self, host: Host, cmd_sn: u32) -> bool {
        u64::from(cmd_sn).is_multiple_of(self.of(host))
    }

    /// Number of a row among those of both ends; `None` if it does not count there.
    pub(in crate::layers) fn number(self, cmd_sn: u32) -> Option<u64> {
        let (cmd_sn, both) = (u64::from(cmd_sn), self.both());
        cmd_sn.is_multiple_of(both).then(|| cmd_sn / both)
    }
}

/// `layers-near.parquet`, `layers-far.parquet`.
fn host_of(file: &Path) -> Option<Host> {
    let stem = file.file_stem()?.to_str()?;
    [Host::Near, Host::Far].into_iter().find(|host| stem.ends_with(&format!("-{}", host.name())))
}

/// The least common multiple.
fn common(a: u64, b: u64) -> u64 {
    let (mut divisor, mut rest) = (a, b);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    (a / divisor).saturating_mul(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_files_of_an_end_have_is_counted() {
        let mut sampling = Sampling { near: 1, far: 1 };
        sampling.and(Some(Host::Near), 4);
        sampling.and(Some(Host::Far), 6);
        assert_eq!((sampling.of(Host::Near), sampling.of(Host::Far), sampling.both()), (4, 6, 12));
        assert!(sampling.takes(Host::Near, 8) && !sampling.takes(Host::Far, 8));
        assert_eq!((sampling.number(36), sampling.number(8)), (Some(3), None));
        sampling.and(None, 5);
        assert_eq!((sampling.of(Host::Near), sampling.of(Host::Far)), (20, 30));
        // A value that no recorder writes.
        sampling.and(Some(Host::Near), 0);
        assert_eq!(sampling.of(Host::Near), 20);
        sampling.and(None, u64::MAX);
        assert!(!sampling.takes(Host::Near, 20));
    }

    #[test]
    fn files_are_known_by_their_names() {
        assert_eq!(host_of(Path::new("/a/layers-near.parquet")), Some(Host::Near));
        assert_eq!(host_of(Path::new("/a/layers-far.parquet")), Some(Host::Far));
        assert_eq!(host_of(Path::new("/near/layers.parquet")), None);
    }
}
