//! Orderly end of a target: no new connections, requests to log out (RFC 7143 section 11.9.1), completion of commands
//! under way, and a time limit that no initiator can extend. Calls of a hanging store are awaited until another signal
//! comes.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use event::Instant;
use net::{Signal, clock, wait};

use crate::serve::connection::end_reason::End;
use crate::serve::reload::prepare::Reloader;
use crate::serve::service::target::Drain;
use crate::serve::stores::register_writer::Registrar;
use crate::serve::{Target, log};

/// Time limit of the whole end.
const MOST: Duration = Duration::from_secs(2);
/// Time for idle sessions to log out: a few round trips, but not less than this …
const QUIET_LEAST: Duration = Duration::from_millis(100);
/// … and not more.
const QUIET_MOST: Duration = Duration::from_secs(1);
const ROUND_TRIPS: u32 = 4;
/// Calls that take longer are logged.
const CALLS: Duration = Duration::from_secs(1);

impl Target {
    /// Begins the end after a signal. A second signal ends all connections at once.
    pub(crate) fn begin_drain(&mut self, now: Instant) {
        if let Some(drain) = &mut self.shutdown.drain {
            drain.last = now;
            return;
        }
        for listener in self.listening.listeners.drain(..) {
            let _ = self.poll.remove(listener.socket.as_fd());
        }
        self.listening.listen_again = None;
        self.shared.is_draining = true;
        let mut rtt = Duration::ZERO;
        for index in self.clients.iter().map(|(index, _)| index).collect::<Vec<_>>() {
            let client = &mut self.clients[index];
            if client.awaits_login() {
                self.close(index, &End::Shutdown, now);
            } else {
                rtt = rtt.max(client.tcp_info().map_or(Duration::ZERO, |info| info.rtt));
                client.request_logout(MOST.as_secs() as u16, &mut self.sides);
                client.become_dirty(&mut self.schedule.dirty);
            }
        }
        let quiet = now + (rtt * ROUND_TRIPS).clamp(QUIET_LEAST, QUIET_MOST);
        self.shutdown.drain = Some(Drain { quiet, last: now + MOST });
    }

    /// Advances the end of the target; returns the time of the next step, or `None` when all connections are closed.
    pub(crate) fn drain(&mut self, drain: Drain, now: Instant) -> Option<Instant> {
        if now >= drain.last && !self.clients.is_empty() {
            log(format_args!("{} connections are closed without a logout", self.clients.len()));
            for index in self.clients.iter().map(|(index, _)| index).collect::<Vec<_>>() {
                self.dismiss(index, &End::Shutdown, now);
            }
        }
        if now >= drain.quiet {
            for (_, client) in &mut self.clients {
                if client.is_quiet(&self.sides) {
                    client.announce_drop(&mut self.sides);
                    client.end_with(End::Shutdown);
                    client.become_dirty(&mut self.schedule.dirty);
                }
            }
        }
        match self.clients.is_empty() {
            true => None,
            false if now < drain.quiet => Some(drain.quiet),
            false => Some(drain.last),
        }
    }

    /// Waits for the calls that are under way, as no connection does any more; how many are left when a signal ends
    /// that.
    pub(crate) fn wait_for_calls(&mut self) -> io::Result<usize> {
        let mut told_in = Some(CALLS);
        loop {
            drop(self.shared.work.workers.results());
            self.finish_register(clock::now());
            let (workers, reloader) = (&self.shared.work.workers, self.background.reloader.as_ref());
            let registrar = self.background.registrar.as_ref();
            let others = reloader.map_or(0, Reloader::pending) + registrar.map_or(0, Registrar::pending);
            let pending = workers.pending() + others;
            if pending == 0 {
                // The last one may have ended a moment ago.
                self.finish_register(clock::now());
                return Ok(0);
            }
            let reloader_fd = reloader.map_or(workers.as_fd(), AsFd::as_fd);
            let registrar_fd = registrar.map_or(workers.as_fd(), AsFd::as_fd);
            let all = [self.shutdown.signals.as_fd(), workers.as_fd(), reloader_fd, registrar_fd];
            let ready = wait::readable(all, told_in)?;
            while let Some(signal) = self.shutdown.signals.take() {
                if signal == Signal::End {
                    return Ok(pending);
                }
            }
            if ready == [false; 4] && told_in.take().is_some() {
                log(format_args!(
                    "calls of stores, for a configuration or for the register have not come back ({pending}); they are \
                     waited for until another signal to end comes"
                ));
            }
        }
    }

    /// Announces a drop in an Async Message, if the socket takes that at once, and closes the connection.
    pub(crate) fn dismiss(&mut self, index: usize, end: &End, now: Instant) {
        if let Some(client) = self.clients.get_mut(index)
            && !client.awaits_login()
        {
            client.announce_drop(&mut self.sides);
            // The result of the turn does not matter: the connection is closed.
            let _ = client.turn(&self.poll, &mut self.sides, &mut self.shared);
        }
        self.close(index, end, now);
    }
}
