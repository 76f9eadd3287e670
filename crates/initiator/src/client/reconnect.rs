//! Reconnect of a lost session: starts recovery, and continues with the re-established session.

use std::time::Duration;

use engine::Scratch;
use event::{Instant, RequestId};

use super::arrival::{lines, note_logins};
use super::growth::Growth;
use super::recovery::{ENDING, Ending, LOST_FLUSHES_MAX, Recovery, TAKEN_DOWN, TIME2WAIT_MIN, Trouble};
use super::state::{Client, State};
use crate::error::Error;
use crate::login::establishment::{Approach, Arrived};
use crate::session::command_timeout::is_flushing;

impl Client {
    /// Handles the loss of the session: starts recovery, or returns the error if recovery is impossible. `time2wait` is
    /// the target's Time2Wait, if it was reported.
    pub(super) fn lose(
        &mut self,
        error: Error,
        time2wait: Option<Duration>,
        now: Instant,
    ) -> Result<(), Error> {
        let was = std::mem::replace(&mut self.state, State::Closed);
        if self.options.connections.is_none() {
            // A number of connections that took long to find is kept; but after a loss without any completed request
            // since the previous one, fewer connections are safer.
            self.destination.connections = if self.trouble.is_none() { self.connections() } else { 1 };
        }
        let lines = self.hang_up(now);
        if !error.is_passing() {
            return Err(error);
        }
        let is_slow = self.peer_software().is_none() && lines.len() > 1;
        let ending = if is_slow { Ending::begin(lines, &self.poll, now) } else { Ending::default() };
        let agreed = self.side.session.params().default_time2wait_s;
        let time2wait = time2wait.unwrap_or(Duration::from_secs(agreed.into()));
        let time2wait = if is_slow { time2wait.max(ENDING + TAKEN_DOWN) } else { time2wait };
        let timeout = self.side.timeout;
        if time2wait > timeout.max(TIME2WAIT_MIN) {
            return Err(Error::Away { cause: Box::new(error), time2wait, after: timeout });
        }
        let trouble = self.trouble.get_or_insert_with(|| Trouble::new(now, time2wait, timeout));
        if is_flushing(&self.side.requests.open) {
            trouble.wait_for_flush(timeout);
            self.lost_flushes += 1;
            // Writes in between succeed, so that each of them would restart the time limit.
            if self.lost_flushes >= LOST_FLUSHES_MAX {
                return Err(Error::FlushesLost { cause: Box::new(error), flushes: self.lost_flushes });
            }
        }
        let mut again = "connecting again".to_owned();
        if let Some(bytes) = error.smaller_segment() {
            self.options.near.max_segment_bytes = Some(bytes);
            again += &format!(" with segments of at most {bytes} bytes (--mss {bytes})");
        }
        if !matches!(was, State::LoggingOut { .. } | State::Draining { .. }) {
            (self.options.notice)(&format!("{error}; {again}"));
        }
        let mut recovery = Recovery::new(error, trouble, now, time2wait);
        (recovery.ending, recovery.renews_isid) = (ending, is_slow);
        if recovery.is_over(trouble, now) {
            return Err(recovery.give_up(trouble));
        }
        self.state = State::Down(Box::new(recovery));
        Ok(())
    }

    /// Advances the recovery; returns `true` when the session is re-established.
    pub(super) fn recover(&mut self, scratch: &mut Scratch, now: Instant) -> Result<bool, Error> {
        let (State::Down(recovery), Some(trouble)) = (&mut self.state, &mut self.trouble) else {
            return Ok(false);
        };
        recovery.ending.end_due(now);
        if recovery.is_due(trouble, now) {
            recovery.name_session(&mut self.destination);
            let approach = Approach::new(self.destination.clone(), self.first_token, trouble.until());
            recovery.approach = Some(approach);
        }
        if let Some(approach) = &mut recovery.approach {
            match approach.turn(&self.poll, scratch, &self.options, now) {
                Ok(None) => {}
                Ok(Some(Arrived { session, address, tsih, connections, .. })) => {
                    self.state = State::Up;
                    self.reconnects += 1;
                    self.growth = Growth::of(&self.options, session.params(), tsih, self.growth.take());
                    self.lines = lines(connections, 0, &self.side.records.tables, now);
                    let number = RequestId::session_of(self.destination.request.isid, tsih);
                    let with = (number, &self.options);
                    note_logins(&self.lines, &session, with, &self.side.records.tables, now);
                    if let Some(trail) = &mut self.side.records.trail {
                        trail.begin_again(RequestId::session_of(self.destination.request.isid, tsih));
                    }
                    self.side.begin_again(session, address);
                    return Ok(true);
                }
                Err(error) => recovery.failed(error, trouble, now),
            }
        }
        if !recovery.is_over(trouble, now) {
            return Ok(false);
        }
        let trouble = *trouble;
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Down(recovery) => Err(recovery.give_up(&trouble)),
            _ => unreachable!("there was no session"),
        }
    }
}
