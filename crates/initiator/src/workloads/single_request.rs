//! The smallest workloads: one request, and none. Both run in the session's loop like any other.

use event::Instant;

use crate::error::Error;
use crate::request::{Completed, Request, Workload};

/// One request.
pub(crate) struct Once {
    request: Option<Request>,
    pub(crate) completed: Option<Completed>,
}

impl Once {
    pub(crate) fn of(request: Request) -> Once {
        Once { request: Some(request), completed: None }
    }
}

impl Workload for Once {
    type Error = Error;

    fn depth(&self) -> Option<usize> {
        Some(1)
    }

    fn next(&mut self, _now: Instant) -> Option<Request> {
        self.request.take()
    }

    fn done(&mut self, completed: Completed) -> Result<(), Error> {
        self.completed = Some(completed);
        Ok(())
    }

    fn is_over(&self, _now: Instant) -> bool {
        self.completed.is_some()
    }
}

/// No request: the loop ends when nothing is outstanding.
pub(crate) struct Nothing;

impl Workload for Nothing {
    type Error = Error;

    fn depth(&self) -> Option<usize> {
        None
    }

    fn next(&mut self, _now: Instant) -> Option<Request> {
        None
    }

    fn done(&mut self, _completed: Completed) -> Result<(), Error> {
        Ok(())
    }

    fn is_over(&self, _now: Instant) -> bool {
        true
    }
}
