//! A LUN that may be another one by now is asked who it is, before anything else goes to it: after its session
//! was made again, and after unit attentions that say so. What is open waits for the answers meanwhile.

use crate::error::Error;
use crate::known::{Attention, Held, Known};
use crate::request::{Body, Completed, Request};
use crate::side::{Open, Side};

/// The questions are out.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    /// Requests that wait.
    held: Vec<usize>,
    /// Answers to come.
    left: usize,
    /// There was another reason to ask after these questions were.
    is_stale: bool,
    /// What was written until now may be lost.
    was_reset: bool,
    /// Nothing but the questions has gone to the LUN since the session was made again.
    is_first: bool,
}

impl Side {
    /// Asks again, and holds back whatever has not been submitted.
    pub(crate) fn ask(&mut self) {
        let mut asking = self.asking.take().unwrap_or_default();
        asking.held.extend(self.again.drain(..).chain(self.refused.drain(..)));
        asking.is_stale = false;
        asking.left = self.known.len();
        self.asking = Some(asking);
        for index in 0..self.known.len() {
            let Known { cdb, len, .. } = self.known[index];
            let request = Request { cdb, body: Body::Read(self.buffers.take(len)), offset_bytes: 0, tag: 0 };
            self.outstanding_bytes += request.len_bytes();
            let (issued, submitted) = (self.now, self.now);
            let open = Open { request, issued, submitted, itt: 0, attentions: 0, question: Some(index) };
            let token = self.open.insert(open);
            self.submit(token);
        }
    }

    /// Holds everything that is open and asks; questions of a session that is lost are forgotten.
    pub(crate) fn ask_first(&mut self) {
        let Side { open, outstanding_bytes, asking, .. } = self;
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

    /// A command met a unit attention; it is issued again when that may be.
    pub(crate) fn attend(&mut self, token: usize, attention: Attention) {
        if attention == Attention::Reset {
            // Of several commands that one reset has met, the first tells of it.
            if !matches!(self.finished.back(), Some(None)) {
                self.resets += 1;
                self.finished.push_back(None);
            }
            if let Some(asking) = &mut self.asking {
                asking.was_reset = true;
            }
        }
        if self.open[token].question.is_some() {
            // The question that meets attentions is the first: the others were asked after it.
            return self.again.push_back(token);
        }
        if attention == Attention::Passing || self.known.is_empty() {
            return self.hold(token);
        }
        match &mut self.asking {
            Some(asking) => {
                asking.held.push(token);
                asking.is_stale = true;
            }
            None => {
                let was_reset = attention == Attention::Reset;
                self.asking = Some(Asking { held: vec![token], was_reset, ..Asking::default() });
                self.ask();
            }
        }
    }

    /// A command is to be issued again, at once unless the LUN is being asked.
    fn hold(&mut self, token: usize) {
        match &mut self.asking {
            Some(asking) => asking.held.push(token),
            None => self.again.push_back(token),
        }
    }

    /// A command was refused for want of room.
    pub(crate) fn put_off(&mut self, token: usize) {
        match &mut self.asking {
            Some(asking) if self.open[token].question.is_none() => asking.held.push(token),
            _ => self.refused.push(token),
        }
    }

    /// The LUN has answered a question.
    pub(crate) fn answered(&mut self, index: usize, completed: Completed) -> Result<(), Error> {
        let (known, address) = (&mut self.known[index], self.address);
        let command = completed.request.name();
        match completed.into_data() {
            Ok(answer) if known.compare(&answer) != Held::No => {}
            Err(failure) if !failure.is_illegal_request() || failure.is_no_lun() => {
                return Err(Error::Command { command, failure });
            }
            _ if self.asking.as_ref().is_some_and(|asking| asking.is_first) => {
                return Err(Error::OtherLun { address, what: known.what });
            }
            _ => return Err(Error::ChangedLun { address, what: known.what }),
        }
        if let Some(asking) = &mut self.asking {
            asking.left -= 1;
        }
        Ok(())
    }

    /// Goes on if all is answered. What was submitted before the questions has to end first: its answer may have
    /// been on another connection, and be older than a reset.
    pub(crate) fn go_on(&mut self) {
        let Some(asking) = self.asking.take_if(|asking| asking.left == 0) else { return };
        if asking.is_stale {
            self.asking = Some(asking);
            return self.ask();
        }
        if self.open.len() > asking.held.len() {
            self.asking = Some(asking);
            return;
        }
        if asking.was_reset {
            self.finished.push_back(None);
        }
        self.again.extend(asking.held);
    }
}
