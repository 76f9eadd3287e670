//! Session recovery at error recovery level 0 (RFC 7143 sections 7.1.4.3 and 7.3.1): times and number of the attempts
//! to re-establish a lost session.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::Duration;

use event::Instant;
use net::Poll;

use crate::error::Error;
use crate::login::establishment::{Approach, Destination};
use crate::options::FLUSH_TIMES;
use crate::session::connection::Line;

/// Wait between a failed attempt and the next: the first wait, and the maximum.
const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(3);
/// Time between the closing of the first and of the last of several connections to a target other than farlun.
pub(super) const ENDING: Duration = Duration::from_secs(1);
/// Additional time for such a target to terminate the session.
pub(super) const TAKEN_DOWN: Duration = Duration::from_secs(2);
/// Maximum number of consecutive session losses during a flush: `farlun write` halves the bytes between flushes each
/// time, and has come down to a block by then.
pub(super) const LOST_FLUSHES_MAX: u32 = 16;
/// Maximum Time2Wait that is always respected, even with a shorter timeout.
pub(super) const TIME2WAIT_MIN: Duration = Duration::from_secs(5);

/// Recovery of a lost session.
pub(super) struct Recovery {
    /// Reason of the loss.
    cause: Error,
    last: Option<Error>,
    pub(super) approach: Option<Approach>,
    next_at: Instant,
    pub(super) ending: Ending,
    /// The next attempt uses a new ISID: LIO crashes when a session of several connections is reinstated. Later
    /// attempts keep that ISID: if the target accepted a login whose response was lost, the next login ends that
    /// session of one connection.
    pub(super) renews_isid: bool,
}

/// Old connections, each with the time at which it is closed.
#[derive(Default)]
pub(super) struct Ending(VecDeque<(Instant, Line)>);

impl Ending {
    /// Schedules the closing of `lines` over [`ENDING`], from `now` on.
    pub(super) fn begin(lines: Vec<Line>, poll: &Poll, now: Instant) -> Ending {
        let gaps = lines.len().saturating_sub(1).max(1) as u32;
        let end = |(place, line): (u32, Line)| {
            // The connection is not served any more; removal from epoll may fail for a socket that is closed already.
            let _ = poll.remove(line.connection.stream().as_fd());
            (now + ENDING * place / gaps, line)
        };
        Ending((0..).zip(lines).map(end).collect())
    }

    /// Closes the connections whose time has come.
    pub(super) fn end_due(&mut self, now: Instant) {
        while self.0.pop_front_if(|(at, _)| *at <= now).is_some() {}
    }

    fn next_at(&self) -> Option<Instant> {
        self.0.front().map(|(at, _)| *at)
    }
}

/// Time since the session was first lost; it ends when a request completes, not with a login that is soon lost again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trouble {
    after: Duration,
    /// End of Time2Wait.
    since: Instant,
    until: Instant,
    attempts: u32,
    wait: Duration,
}

impl Trouble {
    pub(super) fn new(now: Instant, time2wait: Duration, timeout: Duration) -> Trouble {
        let since = now + time2wait;
        Trouble { after: timeout, since, until: since + timeout, attempts: 0, wait: WAIT_MIN }
    }

    /// Extends the time limit after a loss during a flush: the login that reinstates the session waits for the target's
    /// flush.
    pub(super) fn wait_for_flush(&mut self, timeout: Duration) {
        self.after = timeout * FLUSH_TIMES;
        self.until = self.since + self.after;
    }

    pub(super) fn until(&self) -> Instant {
        self.until
    }
}

impl Recovery {
    /// Starts recovery of a session that was just lost; `time2wait` is the minimum time before the first attempt.
    pub(super) fn new(cause: Error, trouble: &Trouble, now: Instant, time2wait: Duration) -> Recovery {
        let wait = if trouble.attempts == 0 { time2wait } else { time2wait.max(trouble.wait) };
        Recovery {
            cause,
            last: None,
            approach: None,
            next_at: now + wait,
            ending: Ending::default(),
            renews_isid: false,
        }
    }

    /// Time of the next action.
    pub(super) fn next_at(&self) -> Instant {
        let next_at = self.approach.as_ref().map_or(self.next_at, Approach::deadline);
        self.ending.next_at().map_or(next_at, |at| at.min(next_at))
    }

    /// Returns true if an attempt is due, and counts it.
    pub(super) fn is_due(&self, trouble: &mut Trouble, now: Instant) -> bool {
        let is_due = self.approach.is_none() && now >= self.next_at;
        trouble.attempts += u32::from(is_due);
        is_due
    }

    /// Gives the session another ISID before the first attempt, if necessary.
    pub(super) fn name_session(&mut self, destination: &mut Destination) {
        if std::mem::take(&mut self.renews_isid) {
            destination.renew_isid();
        }
    }

    /// Notes a failed attempt and schedules the next one.
    pub(super) fn failed(&mut self, error: Error, trouble: &mut Trouble, now: Instant) {
        self.approach = None;
        self.last = Some(error);
        self.next_at = now + trouble.wait;
        trouble.wait = (trouble.wait * 2).min(WAIT_MAX);
    }

    /// Returns true if there are no further attempts: the time limit is reached, or the target refused the login.
    pub(super) fn is_over(&self, trouble: &Trouble, now: Instant) -> bool {
        let is_refused = self.last.as_ref().is_some_and(|error| error.is_refusal() && !error.may_pass());
        is_refused || (self.approach.is_none() && (now >= trouble.until || self.next_at > trouble.until))
    }

    /// Error of a session that could not be re-established.
    pub(super) fn give_up(self, trouble: &Trouble) -> Error {
        let Trouble { attempts, after, .. } = *trouble;
        match self.last {
            Some(last) => {
                Error::GaveUp { cause: Box::new(self.cause), attempts, after, last: Box::new(last) }
            }
            None => self.cause,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use engine::{Connection, Course};
    use proto::login::Session as Kind;

    use super::*;

    #[test]
    fn a_flush_that_was_under_way_makes_the_time_longer_once() {
        let [time2wait, timeout] = [1, 4].map(Duration::from_secs);
        let mut trouble = Trouble::new(Instant::ZERO, time2wait, timeout);
        assert_eq!(trouble.until(), Instant::ZERO + Duration::from_secs(5));
        for _ in 0..2 {
            trouble.wait_for_flush(timeout);
            assert_eq!(trouble.until(), Instant::ZERO + Duration::from_secs(17));
            assert_eq!(trouble.after, Duration::from_secs(16), "the message says so");
        }
    }

    #[test]
    fn a_loss_changes_the_isid_once() {
        let mut destination = Destination::plain(Kind::Discovery);
        let trouble = Trouble::new(Instant::ZERO, Duration::ZERO, Duration::from_secs(1));
        let cause = || Error::Malformed { command: "INQUIRY" };
        let lose = |renews_isid| Recovery {
            renews_isid,
            ..Recovery::new(cause(), &trouble, Instant::ZERO, Duration::ZERO)
        };
        let [mut plain, mut slow] = [lose(false), lose(true)];
        let mut isid = |recovery: &mut Recovery| {
            recovery.name_session(&mut destination);
            destination.request.isid
        };
        let first = isid(&mut plain);
        let second = isid(&mut slow);
        assert_ne!(first, second);
        assert_eq!(isid(&mut slow), second, "the next attempt ends what this one has left at the target");
    }

    #[test]
    fn old_connections_end_one_after_the_other() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (poll, start) = (Poll::new().unwrap(), Instant::ZERO);
        let (mut peers, mut lines) = (Vec::new(), Vec::new());
        for cid in 0..3 {
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            stream.set_nonblocking(true).unwrap();
            peers.push(listener.accept().unwrap().0);
            let connection = Connection::new(stream, &poll, cid.into(), Course::default()).unwrap();
            lines.push(Line::new(connection, cid, start));
        }
        let mut ending = Ending::begin(lines, &poll, start);
        for (part, left) in [(0, 2), (499, 2), (500, 1), (999, 1), (1000, 0)] {
            ending.end_due(start + ENDING * part / 1000);
            assert_eq!(ending.0.len(), left, "after {part} thousandths");
        }
        assert_eq!(ending.next_at(), None);
        for peer in &mut peers {
            assert_eq!(peer.read(&mut [0]).unwrap(), 0, "it is closed");
        }
    }
}
