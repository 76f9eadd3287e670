//! The orderly end: no new connections and requests, answers to those that are outstanding, a flush of the device. Each
//! has its time, which no client and no device extends.

use std::os::fd::AsFd;

use event::Instant;

use super::drain::{ANSWERS, Drain, FLUSH};
use super::end::EndReason;
use super::service::NbdService;

impl NbdService {
    /// Begins the end after a signal. Another signal ends the time at once.
    pub(super) fn begin_drain(&mut self, now: Instant) {
        match &mut self.drain {
            Some(Drain::Answers(until) | Drain::Flush(until)) => return *until = now,
            Some(Drain::Over(_)) => return,
            None => {}
        }
        for listener in self.listeners.drain(..) {
            let _ = self.poll.remove(listener.as_fd());
        }
        for index in self.clients.iter().map(|(index, _)| index).collect::<Vec<_>>() {
            if self.clients[index].is_negotiating() {
                self.close(index, &EndReason::Shutdown, now);
            } else {
                self.clients[index].end_soon();
                self.enqueue(index);
            }
        }
        self.drain = Some(Drain::Answers(now + ANSWERS));
    }

    /// Advances the end, if it is under way. Returns the time of the next step; [`Instant::ZERO`] when it is over.
    pub(super) fn advance_drain(&mut self, now: Instant) -> Option<Instant> {
        match self.drain.as_ref()? {
            Drain::Answers(until) if now < *until && !self.clients.is_empty() => Some(*until),
            Drain::Answers(_) => {
                for index in self.clients.iter().map(|(index, _)| index).collect::<Vec<_>>() {
                    self.close(index, &EndReason::Shutdown, now);
                }
                if self.shared.device.unflushed_bytes() == 0 {
                    self.drain = Some(Drain::Over(Ok(())));
                    return Some(Instant::ZERO);
                }
                self.shared.device.submit(Drain::flush(), now);
                self.drain = Some(Drain::Flush(now + FLUSH));
                Some(now + FLUSH)
            }
            Drain::Flush(until) if now < *until => Some(*until),
            Drain::Flush(_) | Drain::Over(_) => Some(Instant::ZERO),
        }
    }
}
