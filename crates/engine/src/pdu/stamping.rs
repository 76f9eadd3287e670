//! Departure of single PDUs: their position in the stream of the connection, and the kernel's timestamps of their last
//! byte.
//!
//! Nothing is decided here: the sender marks PDUs and collects the results.

use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;

use event::Instant;
use net::clock::{self, Realtime};
use net::stamps::{self, Mile, Milestone};

/// Limit on marked bytes in flight; beyond it no timestamps are requested.
const AWAITED_MAX: usize = 1 << 14;

/// Names a PDU that is to be followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The sender's tag.
    pub tag: u64,
    /// The kernel's times are wanted too, which costs a system call more and three messages: [`Stamped`] follows.
    pub is_stamped: bool,
}

/// The socket has taken the last byte of a marked PDU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departed {
    /// The sender's tag.
    pub tag: u64,
    /// Offset of its first byte in the connection's stream, whose first byte is 0.
    pub begin: u64,
    /// Behind its last byte.
    pub end: u64,
    /// Begin of the write that accepted it.
    pub at: Instant,
    /// [`Stamped`] follows, if the connection stands until then.
    pub is_stamped: bool,
}

/// The kernel's timestamps of the last byte of a marked PDU. The kernel drops timestamps when a receive buffer is full,
/// so each may be missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamped {
    /// The sender's tag.
    pub tag: u64,
    /// TCP has passed it to the device's queueing discipline.
    pub queued: Option<Instant>,
    /// The device's driver has it.
    pub wire: Option<Instant>,
    /// The peer's TCP has acknowledged it.
    pub acked: Option<Instant>,
}

/// The stamps of a connection.
#[derive(Debug)]
pub(crate) struct Stamping {
    clock: Realtime,
    /// Offset in the stream at which the kernel's count begins.
    base: u64,
    /// In the order of the stream.
    awaited: VecDeque<Awaited>,
    finished: Vec<Stamped>,
}

#[derive(Debug)]
struct Awaited {
    /// The byte that the stamp is of.
    byte: u64,
    stamped: Stamped,
}

impl Stamping {
    /// Asks the kernel for it; `base` bytes have been written so far.
    pub(crate) fn start(stream: &TcpStream, base: u64) -> io::Result<Stamping> {
        let next = stamps::request(stream)?;
        // Where the kernel's count begins.
        let base = base.saturating_sub(u64::from(next));
        Ok(Stamping { clock: Realtime::new(), base, awaited: VecDeque::new(), finished: Vec::new() })
    }

    pub(crate) fn has_room(&self) -> bool {
        self.awaited.len() < AWAITED_MAX
    }

    /// Registers a request for timestamps of the byte before `end`, for the PDU `tag`.
    pub(crate) fn await_stamps(&mut self, tag: u64, end: u64) {
        let stamped = Stamped { tag, queued: None, wire: None, acked: None };
        self.awaited.push_back(Awaited { byte: end - 1, stamped });
    }

    /// Empties the error queue; whether anything was in it.
    pub(crate) fn collect(&mut self, stream: &TcpStream) -> io::Result<bool> {
        let now = clock::now();
        Ok(stamps::collect(stream, |milestone| self.take(milestone, now))? > 0)
    }

    /// Drains the PDUs of which no more timestamps will come.
    pub(crate) fn finished(&mut self) -> std::vec::Drain<'_, Stamped> {
        self.finished.drain(..)
    }

    fn take(&mut self, milestone: Milestone, now: Instant) {
        let Some(first) = self.awaited.front().map(|awaited| awaited.byte) else { return };
        let ahead = milestone.byte.wrapping_sub((first - self.base) as u32);
        // The bytes behind were written in part and registered again.
        if ahead > u32::MAX / 2 {
            return;
        }
        let byte = first + u64::from(ahead);
        let t = self.clock.monotonic(milestone.stamp, now);
        let begin = self.awaited.partition_point(|awaited| awaited.byte < byte);
        for awaited in self.awaited.iter_mut().skip(begin).take_while(|awaited| awaited.byte == byte) {
            let stamped = &mut awaited.stamped;
            let place = match milestone.mile {
                Mile::Queued => &mut stamped.queued,
                Mile::Wire => &mut stamped.wire,
                Mile::Acked => &mut stamped.acked,
            };
            // A retransmission has a second one.
            place.get_or_insert(t);
        }
        if milestone.mile == Mile::Acked {
            // Bytes before are acknowledged too: their own stamps have been lost.
            let end = self.awaited.partition_point(|awaited| awaited.byte <= byte);
            self.finished.extend(self.awaited.drain(..end).map(|awaited| awaited.stamped));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    use net::stamps::Stamp;
    use net::{Events, Poll};

    use crate::connection::{Connection, Progress};
    use crate::pacing::steering::Course;
    use crate::pdu::tx::{Outgoing, Sender};

    fn check(base: u64) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut stamping = Stamping::start(&stream, base).unwrap();
        let now = clock::now();
        let ends = [100, 200, 200, 300].map(|end| base + (1 << 32) - 250 + end);
        for (tag, end) in (1..).zip(ends) {
            stamping.await_stamps(tag, end);
        }
        let mut say = |mile, end: u64, ns| {
            let byte = (end - 1 - base) as u32;
            stamping.take(Milestone { mile, byte, stamp: Stamp(ns) }, now);
            let facts =
                stamping.finished().map(|found| (found.tag, found.wire.is_some(), found.acked.is_some()));
            facts.collect::<Vec<_>>()
        };
        let none = Vec::new();
        // Cut in the middle of the first PDU: it is not awaited.
        assert_eq!(say(Mile::Acked, ends[0] - 30, 1), none);
        assert_eq!(say(Mile::Wire, ends[1], 2), none);
        assert_eq!(say(Mile::Wire, ends[3], 3), none);
        // The first one's stamps were dropped; two PDUs share a byte.
        assert_eq!(say(Mile::Acked, ends[2], 4), [(1, false, false), (2, true, true), (3, true, true)]);
        assert_eq!(say(Mile::Acked, ends[3], 5), [(4, true, true)]);
        assert_eq!(say(Mile::Acked, ends[3], 6), none);
    }

    #[test]
    fn stamps_find_their_pdus_although_the_kernel_counts_in_32_bits() {
        check(0);
        check(77);
        check((5 << 32) - 3);
    }

    /// PDUs with data of these lengths; all are marked, those of odd lengths are written alone.
    struct Marked(VecDeque<usize>);

    impl Sender for Marked {
        type Data = Vec<u8>;

        fn next(&mut self) -> Option<Outgoing<Vec<u8>>> {
            let data = vec![7; self.0.pop_front()?];
            let (tag, is_alone) = (self.0.len() as u64, data.len() % 2 == 1);
            Some(Outgoing {
                header: [0; 48],
                data: Some(data),
                is_payload: true,
                mark: Some(Mark { tag, is_stamped: true }),
                is_alone,
            })
        }

        fn bytes<'a>(&'a self, data: &'a Vec<u8>) -> &'a [u8] {
            data
        }
    }

    /// Sends PDUs of these lengths over a connection; returns their departures and timestamps.
    fn follow(lens: &[usize], joins: bool) -> (Vec<Departed>, Vec<Stamped>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let total: usize = lens.iter().map(|len| 48 + len).sum();
        let reader = thread::spawn(move || peer.read_exact(&mut vec![0; total]).map(|()| peer).unwrap());
        stream.set_nonblocking(true).unwrap();
        // Data that await an acknowledgement are merged with the data behind them.
        stream.set_nodelay(true).unwrap();
        let (poll, mut events) = (Poll::new().unwrap(), Events::new());
        let mut connection = Connection::<(), Vec<u8>>::new(stream, &poll, 5, Course::default()).unwrap();
        connection.start_stamping().unwrap();
        if joins {
            connection.join_stamped_writes();
        }
        let mut sender = Marked(lens.iter().copied().collect());
        let (mut departed, mut stamped) = (Vec::new(), Vec::new());
        while stamped.len() < lens.len() {
            let progress = connection.send(&poll, &mut sender, 0).unwrap();
            departed.extend(connection.departed());
            let timeout = if progress == Progress::More { Duration::ZERO } else { Duration::from_secs(60) };
            poll.wait(&mut events, Some(timeout)).unwrap();
            let ready: Vec<_> = events.iter().collect();
            assert!(progress == Progress::More || !ready.is_empty(), "{departed:?} {stamped:?}");
            for ready in ready {
                assert!(!connection.ready(ready).readable, "its peer says nothing");
            }
            stamped.extend(connection.stamped());
        }
        drop(reader.join());
        (departed, stamped)
    }

    #[test]
    fn every_marked_pdu_has_its_place_and_its_times() {
        let before = clock::now();
        let lens = [100, 0, 5000, 300_000, 8, 1 << 20, 48, 20];
        let (departed, stamped) = follow(&lens, false);
        let mut end = 0;
        for (index, (departed, len)) in departed.iter().zip(lens).enumerate() {
            let (begin, tag) = (end, (lens.len() - 1 - index) as u64);
            end += 48 + len as u64;
            assert_eq!(*departed, Departed { tag, begin, end, at: departed.at, is_stamped: true });
            assert!(departed.at >= before);
        }
        let tags: Vec<u64> = stamped.iter().map(|stamped| stamped.tag).collect();
        assert_eq!(tags, [7, 6, 5, 4, 3, 2, 1, 0]);
        let after = clock::now() + Duration::from_millis(1);
        for Stamped { queued, wire, acked, .. } in &stamped {
            let times = [Some(before), *queued, *wire, *acked, Some(after)];
            let times: Vec<Instant> = times.into_iter().flatten().collect();
            assert!(times.len() > 2 && times.is_sorted(), "{stamped:?}");
        }
    }

    #[test]
    fn stamps_leave_writes_alone_where_they_are_told_to() {
        let (departed, stamped) = follow(&[100, 200, 301, 400, 500], true);
        assert_eq!(departed.len(), 5);
        let sent: Vec<_> = stamped.iter().map(|stamped| stamped.wire.expect("a short transfer")).collect();
        // Three writes: the first two, the one that is alone, the last two.
        assert!(sent[0] == sent[1] && sent[3] == sent[4], "{stamped:?}");
        assert!(sent[1] < sent[2] && sent[2] < sent[3], "{stamped:?}");
    }
}
