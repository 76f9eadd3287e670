//! End of a session at the request of the target (a logout request, or an announced drop) or of the user. The recovery
//! of a session that is only lost is in `reconnect`.

use engine::{Progress, Turn};
use event::{Host, Instant};

use super::growth::Growth;
use super::state::{Client, State};
use crate::error::Error;
use crate::session::connection::Line;
use crate::session::state::Leave;

impl Client {
    /// Handles a request of the target to leave: lets outstanding requests complete while there is time, logs out, and
    /// stays away for Time2Wait.
    pub(super) fn leave(&mut self, now: Instant) -> Result<(), Error> {
        let address = self.side.address;
        if let Some(time2wait) = self.side.end.logged_out {
            if matches!(self.state, State::LoggingOut { .. }) {
                return self.lose(Error::LogoutRequested { address }, Some(time2wait), now);
            }
        } else if let Some(Leave::Now { time2wait }) = self.side.end.leave {
            return self.lose(Error::Dropped { address }, Some(time2wait), now);
        }
        match self.state {
            State::Up => {
                if let Some(Leave::LogOut { within }) = self.side.end.leave {
                    (self.options.notice)(&format!(
                        "{address} asked for a logout; the session is made again"
                    ));
                    // The logout request must arrive within the time limit.
                    let until = now + within.saturating_sub(self.min_rtt().unwrap_or_default());
                    self.side.session.send_no_more();
                    self.state = State::Draining { until };
                    self.next_check = now;
                    return self.leave(now);
                }
            }
            State::Draining { until } => {
                // Commands that were not sent are left to the next session.
                if !self.side.session.awaits_answers() || now >= until {
                    let patience = self.lines.iter().map(|line| line.port.pulse.patience(self.side.timeout));
                    self.log_out(now + patience.max().unwrap_or_default());
                    self.send()?;
                } else {
                    self.next_check = self.next_check.min(until);
                }
            }
            State::LoggingOut { until } if now >= until => {
                return self.lose(Error::LogoutRequested { address }, None, now);
            }
            _ => {}
        }
        Ok(())
    }

    fn log_out(&mut self, until: Instant) {
        self.side.session.logout();
        self.state = State::LoggingOut { until };
    }

    /// One turn of closing. A target may close the connection as soon as it has received the logout request: all
    /// commands have completed before, so a lost connection is no error.
    pub(super) fn close_step(
        &mut self,
        until: Instant,
        exchanged: Result<Progress, Error>,
        now: Instant,
    ) -> Result<Turn, Error> {
        let is_over = match exchanged {
            Ok(Progress::More) if now < until => return Ok(Turn::Again),
            Ok(_) => self.side.end.logged_out.is_some() || now >= until,
            Err(error) if error.is_passing() => true,
            Err(error) => return Err(error),
        };
        if !is_over {
            // A delayed PDU, such as the logout request, must not wait until the time limit. The connections are not
            // sampled any more, so the times of their next samples do not count.
            let resumes = self.lines.iter().filter_map(|line| line.connection.resume_at());
            return Ok(Turn::WaitUntil(resumes.fold(until, Instant::min)));
        }
        drop(self.hang_up(now));
        self.state = State::Closed;
        Ok(Turn::Stop)
    }

    /// Removes the connections from the session and records a last sample of each. Dropping the result closes them.
    pub(super) fn hang_up(&mut self, now: Instant) -> Vec<Line> {
        self.min_rtt = self.min_rtt();
        self.growth.iter_mut().for_each(Growth::restart);
        let lines = std::mem::take(&mut self.lines);
        for line in &lines {
            if self.side.end.logged_out.is_some() {
                // Both sides have completed everything. A failed socket is closed in any case.
                let _ = net::tcp::abandon_on_close(line.connection.stream(), false);
            }
            if let Ok(sample) = line.connection.sample(now, Host::Near) {
                self.side.records.tables.socket(&sample);
            }
        }
        lines
    }
}
