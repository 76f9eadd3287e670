//! Writer of the register of nexuses, beside the loop: a disk may take its time.
//!
//! A session begins without waiting for that. One that began within the last moments before the machine stops may be
//! missing from the register; one that comes again is in it already.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::log;
use crate::lun::{NexusList, Register};

/// The thread that writes.
pub(super) struct Registrar {
    lists: Option<SyncSender<NexusList>>,
    thread: Option<JoinHandle<()>>,
    is_busy: Arc<AtomicBool>,
}

impl Registrar {
    pub(super) fn start(register: Register) -> io::Result<Registrar> {
        let (lists, incoming) = sync_channel::<NexusList>(1);
        let is_busy = Arc::new(AtomicBool::new(false));
        let busy = Arc::clone(&is_busy);
        let write = move || {
            let mut was_told = false;
            for list in incoming {
                let result = register.save(&list);
                if let Err(error) = &result
                    && !was_told
                {
                    let path = register.path().display();
                    log(format_args!(
                        "{path} cannot be written, and after a restart a LUN that was replaced is not closed to those that \
                         know the old one: {error}"
                    ));
                }
                was_told = result.is_err();
                busy.store(false, Ordering::Release);
            }
        };
        let thread = std::thread::Builder::new().name("register".to_owned()).spawn(write)?;
        Ok(Registrar { lists: Some(lists), thread: Some(thread), is_busy })
    }

    /// Returns true while the last list is being written.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Acquire)
    }

    /// Has a list written; waits if there is one before it.
    pub(super) fn save(&self, list: NexusList) {
        self.is_busy.store(true, Ordering::Release);
        if let Some(lists) = &self.lists {
            // It fails only where the thread has panicked.
            let _ = lists.send(list);
        }
    }
}

/// Waits until everything is written.
impl Drop for Registrar {
    fn drop(&mut self) {
        self.lists = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
