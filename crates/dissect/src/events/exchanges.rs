//! Requests that wait for the response with their task tag: logouts and task management.

use crate::packets::packet_ref::PacketRef;

/// Limit of requests without a response; the oldest one gives way.
const REQUESTS_MAX: usize = 16;

/// Requests of one kind without a response.
#[derive(Clone, Debug, Default)]
pub(super) struct Exchanges {
    waiting: Vec<Request>,
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Request {
    pub(super) itt: u32,
    /// Reason or function.
    pub(super) code: u8,
    pub(super) packet: PacketRef,
}

impl Exchanges {
    /// Takes a request; returns one that will not be followed any more.
    pub(super) fn request(&mut self, request: Request) -> Option<Request> {
        let oldest = (self.waiting.len() == REQUESTS_MAX).then(|| self.waiting.remove(0));
        self.waiting.push(request);
        oldest
    }

    /// Takes a response; returns its request.
    pub(super) fn response(&mut self, itt: u32) -> Option<Request> {
        let place = self.waiting.iter().position(|request| request.itt == itt)?;
        Some(self.waiting.remove(place))
    }

    /// Forgets all requests and returns them.
    pub(super) fn take(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.waiting)
    }
}
