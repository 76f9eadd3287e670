//! Re-validation of a LUN's identity before further commands: after a reconnect, and after unit attentions that
//! announce a change. Outstanding requests wait for the result.

use crate::error::Error;
use crate::request::{Body, Completed, Request};
use crate::session::lun::identity::{Attention, Held, Known};
use crate::session::lun::state::{Asking, LunState};
use crate::session::requests::{Open, Requests};
use crate::session::state::SessionState;

impl SessionState {
    /// Starts the re-validation again, and holds back all commands that are not submitted.
    pub(crate) fn ask(&mut self) {
        let mut asking = self.lun.asking.take().unwrap_or_default();
        asking.held.extend(self.requests.again.drain(..).chain(self.requests.refused.drain(..)));
        asking.is_stale = false;
        asking.left = self.lun.known.len();
        self.lun.asking = Some(asking);
        for index in 0..self.lun.known.len() {
            let Known { cdb, len, .. } = self.lun.known[index];
            let request = Request { cdb, body: Body::Read(self.buffers.take(len)), offset_bytes: 0, tag: 0 };
            self.requests.outstanding_bytes += request.len_bytes();
            let (issued, submitted) = (self.now, self.now);
            let open = Open { request, issued, submitted, itt: 0, attentions: 0, question: Some(index) };
            let token = self.requests.open.insert(open);
            self.submit(token);
        }
    }

    /// Holds all outstanding requests and starts the re-validation; one of a lost session is dropped.
    pub(crate) fn ask_first(&mut self) {
        let SessionState {
            requests: Requests { open, outstanding_bytes, .. },
            lun: LunState { asking, .. },
            ..
        } = self;
        open.retain(|_, open| {
            if open.question.is_some() {
                *outstanding_bytes -= open.request.len_bytes();
            }
            open.question.is_none()
        });
        let held = open.iter_mut().map(|(token, open)| {
            (open.submitted, open.attentions) = (event::Instant::FAR_FUTURE, 0);
            token
        });
        *asking = Some(Asking { held: held.collect(), is_first: true, ..Asking::default() });
        self.ask();
    }

    /// Handles a unit attention of a command, which is issued again as soon as permitted.
    pub(crate) fn attend(&mut self, token: usize, attention: Attention) {
        if attention == Attention::Reset {
            // Several commands may report the same reset; only the first counts.
            if !matches!(self.requests.finished.back(), Some(None)) {
                self.lun.resets += 1;
                self.requests.finished.push_back(None);
            }
            if let Some(asking) = &mut self.lun.asking {
                asking.was_reset = true;
            }
        }
        if self.requests.open[token].question.is_some() {
            // Only the first command of a re-validation meets unit attentions: the others were issued after it.
            return self.requests.again.push_back(token);
        }
        if attention == Attention::Passing || self.lun.known.is_empty() {
            return self.hold(token);
        }
        match &mut self.lun.asking {
            Some(asking) => {
                asking.held.push(token);
                asking.is_stale = true;
            }
            None => {
                let was_reset = attention == Attention::Reset;
                self.lun.asking = Some(Asking { held: vec![token], was_reset, ..Asking::default() });
                self.ask();
            }
        }
    }

    /// Queues a command for another submission: at once, or after the re-validation.
    fn hold(&mut self, token: usize) {
        match &mut self.lun.asking {
            Some(asking) => asking.held.push(token),
            None => self.requests.again.push_back(token),
        }
    }

    /// Queues a command that the target refused for lack of resources.
    pub(crate) fn put_off(&mut self, token: usize) {
        match &mut self.lun.asking {
            Some(asking) if self.requests.open[token].question.is_none() => asking.held.push(token),
            _ => self.requests.refused.push(token),
        }
    }

    /// Handles a response of the re-validation.
    pub(crate) fn answered(&mut self, index: usize, completed: Completed) -> Result<(), Error> {
        let (known, address) = (&mut self.lun.known[index], self.address);
        let command = completed.request.name();
        match completed.into_data() {
            Ok(answer) if known.compare(&answer) != Held::No => {}
            Err(failure) if !failure.is_illegal_request() || failure.is_no_lun() => {
                return Err(Error::Command { command, failure });
            }
            _ if self.lun.asking.as_ref().is_some_and(|asking| asking.is_first) => {
                return Err(Error::OtherLun { address, what: known.what });
            }
            _ => return Err(Error::ChangedLun { address, what: known.what }),
        }
        if let Some(asking) = &mut self.lun.asking {
            asking.left -= 1;
        }
        Ok(())
    }

    /// Ends the re-validation when all responses have arrived. Commands submitted before it must complete first: their
    /// status may have been received on another connection, and be older than a reset.
    pub(crate) fn go_on(&mut self) {
        let Some(asking) = self.lun.asking.take_if(|asking| asking.left == 0) else { return };
        if asking.is_stale {
            self.lun.asking = Some(asking);
            return self.ask();
        }
        if self.requests.open.len() > asking.held.len() {
            self.lun.asking = Some(asking);
            return;
        }
        if asking.was_reset {
            self.requests.finished.push_back(None);
        }
        self.requests.again.extend(asking.held);
    }
}
