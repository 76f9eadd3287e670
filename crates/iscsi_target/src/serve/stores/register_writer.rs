//! Writer of the register of nexuses, beside the loop: a disk may take its time, fail, or hang.
//!
//! A list that could not be written is written again until it is, so that an error that passes leaves no gap. Sessions
//! wait for the list that has them ([`SessionState::may_read`]), but not for one that fails or hangs: service comes first, and
//! a message says that it is not kept.
//!
//! [`SessionState::may_read`]: crate::serve::session::state::SessionState::may_read

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::Duration;

use block::{Claim, Step, Workers};
use event::Instant;

use crate::lun::{NexusList, Register};
use crate::serve::log;

/// Time between two attempts to write the register.
const RETRY_EVERY: Duration = Duration::from_secs(5);

/// Time after which sessions are served although the register is still being written.
const PATIENCE: Duration = Duration::from_secs(1);

/// Claim of all writes: the thread writes one list at a time.
const ONLY: Claim = Claim { owner: 0, store: 0 };

/// The register and the thread that writes it.
pub(crate) struct Registrar {
    writer: Workers<(u64, NexusList), (u64, io::Result<()>)>,
    path: PathBuf,
    /// The last list could not be written.
    is_failing: bool,
    /// Time of the next attempt, unless one is under way.
    retry_at: Option<Instant>,
    /// Start of the write that is under way.
    begun: Option<Instant>,
}

impl Registrar {
    pub(crate) fn start(register: Register) -> io::Result<Registrar> {
        let path = register.path().to_owned();
        Registrar::start_with(path, move |list| register.save(list))
    }

    fn start_with(
        path: PathBuf,
        save: impl Fn(&NexusList) -> io::Result<()> + Send + Sync + 'static,
    ) -> io::Result<Registrar> {
        let save = std::sync::Arc::new(save);
        let writer = Workers::start(1, move |(version, list)| Step::Done((version, save(&list))))?;
        Ok(Registrar { writer, path, is_failing: false, retry_at: None, begun: None })
    }

    /// Queues a list of a version; may be called while the one before it is being written.
    pub(crate) fn save(&mut self, list: (u64, NexusList), now: Instant) {
        (self.retry_at, self.begun) = (None, Some(now));
        self.writer.submit(ONLY, 0, list);
    }

    /// Takes the results of the writer; returns the version of the last list.
    pub(crate) fn finish(&mut self, now: Instant) -> Option<u64> {
        let path = self.path.display();
        let mut last = None;
        for (version, result) in self.writer.results() {
            (last, self.begun) = (Some(version), None);
            let was_failing = std::mem::replace(&mut self.is_failing, result.is_err());
            self.retry_at = result.is_err().then_some(now + RETRY_EVERY);
            match result {
                Ok(()) if was_failing => log(format_args!("{path} is written again")),
                Err(error) if !was_failing => log(format_args!(
                    "cannot write {path}: {error}; after a crash the target does not know the sessions that began since \
                     then, and does not close replaced LUNs to them; it tries again every {} s",
                    RETRY_EVERY.as_secs()
                )),
                _ => {}
            }
        }
        last
    }

    /// Lists that are queued or being written.
    pub(crate) fn pending(&self) -> usize {
        self.writer.pending()
    }

    /// Returns true if the last list was not written and its next attempt is due.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.retry_at.is_some_and(|at| now >= at)
    }

    /// Returns true if the last list was not written.
    pub(crate) fn is_behind(&self) -> bool {
        self.retry_at.is_some()
    }

    /// Returns true if the list that is being written takes so long that sessions do not wait for it.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        self.begun.is_some_and(|begun| now >= begun + PATIENCE)
    }

    /// Time at which a write becomes late, or a failed one is due; [`Instant::FAR_FUTURE`] without one. The end of a
    /// write shows at the descriptor.
    pub(crate) fn next_look(&self, now: Instant) -> Instant {
        let late_at = self.begun.map(|begun| begun + PATIENCE).filter(|at| now < *at);
        late_at.or(self.retry_at).unwrap_or(Instant::FAR_FUTURE)
    }

    /// Leaves the thread to itself, as a drop waits for it.
    pub(crate) fn abandon(self) {
        self.writer.abandon();
    }
}

impl AsFd for Registrar {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.writer.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};

    use net::wait;

    use super::*;

    /// Waits until the list is written, or is not.
    fn settle(registrar: &mut Registrar, now: Instant) -> Option<u64> {
        wait::readable([registrar.as_fd()], None).unwrap();
        registrar.finish(now)
    }

    fn list(version: u64) -> (u64, NexusList) {
        (version, NexusList::default())
    }

    #[test]
    fn a_failed_write_is_due_again_until_it_succeeds() {
        let fails = Arc::new(AtomicBool::new(true));
        let result = Arc::clone(&fails);
        let save = move |_: &NexusList| match result.load(Ordering::Relaxed) {
            true => Err(io::Error::other("full")),
            false => Ok(()),
        };
        let mut registrar = Registrar::start_with("register".into(), save).unwrap();
        let mut now = Instant::ZERO;
        registrar.save(list(1), now);
        for _ in 0..2 {
            assert_eq!(settle(&mut registrar, now), Some(1), "its sessions are served");
            assert!(!registrar.is_due(now) && registrar.next_look(now) == now + RETRY_EVERY);
            now += RETRY_EVERY;
            assert!(registrar.is_due(now) && registrar.is_behind());
            registrar.save(list(1), now);
            assert!(!registrar.is_due(now), "it is under way");
        }
        settle(&mut registrar, now);
        fails.store(false, Ordering::Relaxed);
        registrar.save(list(2), now);
        assert_eq!(settle(&mut registrar, now), Some(2));
        assert!(!registrar.is_behind() && registrar.pending() == 0);
        assert_eq!(registrar.next_look(now), Instant::FAR_FUTURE);
    }

    #[test]
    fn a_write_that_hangs_is_late_and_can_be_abandoned() {
        let gate = Arc::new(Mutex::new(()));
        let held = gate.lock().unwrap();
        let save = {
            let gate = Arc::clone(&gate);
            move |_: &NexusList| {
                drop(gate.lock());
                Ok(())
            }
        };
        let mut registrar = Registrar::start_with("register".into(), save).unwrap();
        let begun = Instant::ZERO;
        registrar.save(list(1), begun);
        assert_eq!(registrar.pending(), 1);
        assert_eq!(registrar.next_look(begun), begun + PATIENCE);
        assert!(!registrar.is_late(begun));
        let late = begun + PATIENCE;
        assert!(registrar.is_late(late) && registrar.next_look(late) == Instant::FAR_FUTURE);
        registrar.abandon();
        drop(held);
    }
}
