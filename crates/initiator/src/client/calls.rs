//! Calls that run the event loop until a workload, a command, a text request or the logout is over.

use net::clock;
use tables::manifest::Trace;

use super::state::{Client, State};
use crate::error::Error;
use crate::request::{Request, Workload};
use crate::run;
use crate::session::state::Records;
use crate::tables::Tables;
use crate::workloads::single_request::{Nothing, Once};

impl Client {
    /// Runs a workload until it has ended and nothing is outstanding. A session that is lost is re-established, and
    /// outstanding requests are issued again.
    pub fn run<W: Workload>(&mut self, workload: &mut W) -> Result<(), W::Error> {
        run::alone(self, workload)
    }

    /// Executes one command and returns the received data.
    pub(crate) fn command(&mut self, request: Request, name: &'static str) -> Result<Vec<u8>, Error> {
        let mut once = Once::of(request);
        self.run(&mut once)?;
        let Some(completed) = once.completed else {
            unreachable!("a workload is over when its request has completed");
        };
        completed.into_data().map_err(|failure| Error::Command { command: name, failure })
    }

    /// Sends a text request and returns the response.
    pub(crate) fn text(&mut self, text: Vec<u8>) -> Result<Vec<u8>, Error> {
        self.side.text.request = Some(text.clone());
        self.side.text.sent = clock::now();
        if !self.lines.is_empty() {
            self.side.session.send_text(text);
        }
        self.run(&mut Nothing)?;
        Ok(self.side.text.answer.take().unwrap_or_default())
    }

    /// Logs out. Completes the tables and returns their manifest, unless another session records in them.
    pub fn close(mut self) -> Result<Option<Trace>, Error> {
        if !self.lines.is_empty() {
            self.growth = None;
            self.side.session.logout();
            self.state = State::Closing { until: clock::now() + self.side.timeout };
            self.run(&mut Nothing)?;
        }
        let Records { tables, trail } = self.side.records;
        if let Some(mut trail) = trail {
            trail.close();
        }
        Ok(Tables::finish(tables)?)
    }
}
