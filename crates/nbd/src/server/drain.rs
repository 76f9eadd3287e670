//! State of the orderly end: its steps, and the result of the last flush.

use std::time::Duration;

use block::{BlockCompletion, BlockOp, BlockRequest, Owner, Token};
use event::{Bytes, Instant};

use super::config::NbdServiceError;
use super::device::SharedDevice;

/// Time for answers.
pub(super) const ANSWERS: Duration = Duration::from_secs(5);
/// Time for the flush.
pub(super) const FLUSH: Duration = Duration::from_secs(20);
/// Owner of the last flush: no connection has it.
const NOBODY: Owner = Owner(u64::MAX);

/// The end under way.
#[derive(Debug)]
pub(super) enum Drain {
    /// Connections are answered until this time.
    Answers(Instant),
    /// The device is flushed until this time.
    Flush(Instant),
    /// The flush has ended, or was not needed.
    Over(Result<(), String>),
}

impl Drain {
    /// The last flush.
    pub(super) fn flush() -> BlockRequest {
        BlockRequest { id: Token(0), owner: NOBODY, op: BlockOp::Flush, fua: false, is_timed: false }
    }

    /// A completion that belongs to no connection.
    pub(super) fn completed(&mut self, done: BlockCompletion) {
        if done.owner == NOBODY {
            *self = Drain::Over(done.result.map_err(|error| match error.device_error() {
                Some(error) => error.to_string(),
                None => "the flush failed".to_owned(),
            }));
        }
    }

    /// Result of the service.
    pub(super) fn result(self, device: &SharedDevice) -> Result<(), NbdServiceError> {
        let unflushed = Bytes(device.unflushed_bytes());
        match self {
            Drain::Over(Ok(())) => Ok(()),
            Drain::Over(Err(text)) => Err(NbdServiceError::Unflushed(unflushed, text)),
            Drain::Answers(_) | Drain::Flush(_) => {
                let text = format!("the device has not ended its flush in {} s", FLUSH.as_secs());
                Err(NbdServiceError::Unflushed(unflushed, text))
            }
        }
    }
}
