//! Name resolution outside the event loop: the system's resolver blocks, for many seconds if a name server is silent,
//! and a reconnecting session must not delay other sessions of its loop.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use event::Instant;

use crate::error::Error;

/// Poll interval for the result.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A name resolution in progress. After a drop its thread continues, and the result is discarded.
pub(crate) struct Lookup {
    host: String,
    answer: Receiver<io::Result<Vec<SocketAddr>>>,
    look_at: Instant,
}

impl Lookup {
    /// Starts the resolution; an IP address needs no thread.
    pub(crate) fn start(host: &str, port: u16) -> Lookup {
        let (sender, answer) = channel();
        let (name, unstarted) = (host.to_owned(), sender.clone());
        if let Ok(address) = host.parse::<IpAddr>() {
            // The receiver exists, so sending cannot fail.
            let _ = sender.send(Ok(vec![SocketAddr::new(address, port)]));
        } else {
            let resolve = move || {
                let resolved = (name.as_str(), port).to_socket_addrs();
                // The receiver is gone if this fails.
                let _ = sender.send(resolved.map(Iterator::collect));
            };
            if let Err(refused) = std::thread::Builder::new().name("lookup".to_owned()).spawn(resolve) {
                // The receiver exists, so sending cannot fail.
                let _ = unstarted.send(Err(refused));
            }
        }
        Lookup { host: host.to_owned(), answer, look_at: Instant::ZERO }
    }

    /// Time of the next poll.
    pub(crate) fn look_at(&self) -> Instant {
        self.look_at
    }

    /// The addresses, once they are known. The resolution may take until `deadline`.
    pub(crate) fn poll(
        &mut self,
        now: Instant,
        deadline: Instant,
    ) -> Result<Option<VecDeque<SocketAddr>>, Error> {
        let failed = |source| Error::Resolve { host: self.host.clone(), source };
        match self.answer.try_recv() {
            Ok(addresses) => addresses.map(|addresses| Some(addresses.into())).map_err(failed),
            Err(TryRecvError::Empty) if now < deadline => {
                self.look_at = deadline.min(now + LOOK_EVERY);
                Ok(None)
            }
            Err(TryRecvError::Empty) => {
                Err(failed(io::Error::other("the name server does not answer in time")))
            }
            Err(TryRecvError::Disconnected) => Err(failed(io::Error::other("the resolver has failed"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::ZERO;

    #[test]
    fn an_address_is_there_at_once() {
        for (host, expected) in [("127.0.0.1", "127.0.0.1:7"), ("::1", "[::1]:7")] {
            let found = Lookup::start(host, 7).poll(NOW, NOW).expect("an address");
            assert_eq!(found, Some(VecDeque::from([expected.parse().expect("an address")])));
        }
    }

    #[test]
    fn a_name_that_takes_too_long() {
        let (sender, answer) = channel();
        let mut lookup = Lookup { host: "far.example".to_owned(), answer, look_at: NOW };
        let deadline = NOW + Duration::from_millis(7);
        assert_eq!(lookup.poll(NOW, deadline).expect("there is time"), None);
        assert_eq!(lookup.look_at(), NOW + LOOK_EVERY);
        assert_eq!(lookup.poll(lookup.look_at(), deadline).expect("there is time"), None);
        assert_eq!(lookup.look_at(), deadline);
        let error = lookup.poll(deadline, deadline).expect_err("the time is over").to_string();
        assert!(error.contains("far.example") && error.contains("in time"), "{error}");
        sender.send(Ok(Vec::new())).expect("somebody listens");
        assert_eq!(lookup.poll(deadline, deadline).expect("an answer counts"), Some(VecDeque::new()));
    }
}
