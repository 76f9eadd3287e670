//! Opening of a session in an event loop of its own, bounded by deadlines.

use std::rc::Rc;

use engine::{Scratch, Service, Turn};
use event::Instant;
use net::{Poll, Ready};

use crate::client::Client;
use crate::error::Error;
use crate::login::establishment::{Approach, Arrived, Destination};
use crate::options::Options;
use crate::tables::Tables;

/// Connects and logs in. `number` distinguishes the caller's sessions in the tables.
pub(crate) fn session(
    destination: &Destination,
    number: usize,
    options: &Options,
    tables: &Rc<Tables>,
) -> Result<Client, Error> {
    let first_token = Client::first_token(number);
    // The deadlines of the single connections yield more specific errors.
    let approach = Approach::new(destination.clone(), first_token, Instant::FAR_FUTURE);
    let mut opening =
        Opening { poll: Poll::new()?, scratch: Scratch::new(), approach, options, arrived: None };
    engine::run(&mut opening)?;
    let Opening { poll, arrived: Some(arrived), .. } = opening else {
        unreachable!("the loop ends with an error or with a session");
    };
    Ok(Client::new(poll, arrived, destination, first_token, options, Rc::clone(tables)))
}

struct Opening<'a> {
    poll: Poll,
    scratch: Scratch,
    approach: Approach,
    options: &'a Options,
    arrived: Option<Arrived>,
}

impl Service for Opening<'_> {
    type Error = Error;

    fn poll(&self) -> &Poll {
        &self.poll
    }

    fn ready(&mut self, ready: Ready, _now: Instant) -> Result<(), Error> {
        self.approach.ready(ready);
        Ok(())
    }

    fn turn(&mut self, now: Instant) -> Result<Turn, Error> {
        self.arrived = self.approach.turn(&self.poll, &mut self.scratch, self.options, now)?;
        Ok(if self.arrived.is_some() { Turn::Stop } else { Turn::WaitUntil(self.approach.deadline()) })
    }
}
