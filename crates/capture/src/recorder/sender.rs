//! Sends batches to a recorder, and repeats batches that a lost connection may have lost.
//!
//! It has a thread of its own: the capturing thread never waits for it. Sent batches await their acknowledgement, a few
//! at most; if the recorder is slow the queue fills, and the capturing thread counts the packets that it drops.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use event::Instant;
use net::{clock, wait};

use super::message::{HEAD_BYTES, Message, head};
use crate::batch::Batch;
use crate::queue::{Queue, Taken};
use crate::{CaptureError, Notices};

/// Batches that are sent and not acknowledged: 16 MiB.
const UNACKNOWLEDGED_MAX: usize = 32;
/// Time limit for an answer of the recorder, and for a blocked send.
const PATIENCE: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_secs(1);
/// Interval of messages while there is nothing to send; a recorder gives up after a minute of silence.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Interval of polls for acknowledgements while there is nothing to send.
const TURN: Duration = Duration::from_millis(20);
/// Time limit for the rest of the queue when the capture is over.
const FAREWELL: Duration = Duration::from_secs(5);

/// Result of sending a capture.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Sent {
    /// Address of the recorder.
    pub address: String,
    /// Times the connection was lost and made again.
    pub reconnects: u64,
    /// Packets that the recorder has acknowledged.
    pub acknowledged_packets: u64,
    /// Packets unacknowledged when the capture had to end.
    pub unacknowledged_packets: u64,
}

/// The sending end.
pub(crate) struct Sender {
    address: String,
    capture: u64,
    header: Vec<u8>,
    notices: Notices,
    stream: Option<TcpStream>,
    unacknowledged: VecDeque<Batch>,
    /// Number of the next packet to send.
    next: u64,
    line: Line,
    sent: Sent,
}

/// State of the message exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Line {
    /// Time of the last message sent.
    sent: Instant,
    /// Answers that are due: one to each message.
    due: u64,
    /// Begin of the wait for answers; restarts with each answer while more are due.
    waiting: Option<Instant>,
}

/// Reasons to drop a connection.
enum Lost {
    Io(io::Error),
    Refused(String),
}

impl Sender {
    /// Connects for the first time.
    pub(crate) fn connect(address: &str, header: Vec<u8>, notices: Notices) -> Result<Sender, CaptureError> {
        let mut capture = [0; 8];
        net::random::fill(&mut capture);
        let mut sender = Sender {
            address: address.to_owned(),
            capture: u64::from_ne_bytes(capture),
            header,
            notices,
            stream: None,
            unacknowledged: VecDeque::new(),
            next: 0,
            line: Line::new(clock::now()),
            sent: Sent { address: address.to_owned(), ..Sent::default() },
        };
        match sender.dial() {
            Ok(_) => Ok(sender),
            Err(lost) => Err(CaptureError::Recorder { address: address.to_owned(), reason: lost.sentence() }),
        }
    }

    /// Sends the batches of the queue to its end. `total` returns the number of packets at the end.
    pub(crate) fn run(mut self, queue: &Arc<Queue>, total: impl Fn() -> u64) -> Sent {
        let mut until: Option<Instant> = None;
        loop {
            if queue.is_closed() {
                let now = clock::now();
                if now >= *until.get_or_insert(now + FAREWELL) {
                    self.notices
                        .say(&format!("{}: the recorder did not take the rest in time", self.address));
                    break;
                }
            }
            if self.stream.is_none() {
                self.reconnect(queue);
                continue;
            }
            match self.turn(queue, &total) {
                Ok(false) => {}
                Ok(true) => break,
                Err(lost) => {
                    self.stream = None;
                    self.notices.say(&format!("{}: {}; trying again", self.address, lost.sentence()));
                }
            }
        }
        queue.abandon();
        let mut rest: u64 = self.unacknowledged.iter().map(Batch::packets).sum();
        while let Taken::Batch(batch) = queue.take(Duration::ZERO) {
            rest += batch.packets();
        }
        self.sent.unacknowledged_packets = rest;
        self.sent
    }

    /// Sends one batch, or looks for acknowledgements; whether all is done.
    fn turn(&mut self, queue: &Arc<Queue>, total: &impl Fn() -> u64) -> Result<bool, Lost> {
        self.hear(queue, Duration::ZERO)?;
        if self.line.is_lost(clock::now()) {
            return Err(Lost::Io(io::ErrorKind::WouldBlock.into()));
        }
        if self.unacknowledged.len() >= UNACKNOWLEDGED_MAX {
            self.hear(queue, TURN)?;
            return Ok(false);
        }
        match queue.take(TURN) {
            Taken::Batch(batch) => {
                self.next = batch.first + batch.packets();
                // Before it is sent: a batch sent in part is sent again.
                self.unacknowledged.push_back(batch);
                let batch = self.unacknowledged.back().expect("just put there");
                send(self.stream.as_ref(), batch)?;
                self.line.said(clock::now());
            }
            Taken::Nothing if self.line.is_idle(clock::now()) => {
                records(self.stream.as_ref(), self.next, 0, &[])?;
                self.line.said(clock::now());
            }
            Taken::Nothing => {}
            Taken::Closed if self.unacknowledged.is_empty() => {
                self.end(total())?;
                return Ok(true);
            }
            Taken::Closed => self.hear(queue, TURN)?,
        }
        Ok(false)
    }

    /// Sends the end of the capture, and waits for its acknowledgement.
    fn end(&mut self, packets: u64) -> Result<(), Lost> {
        let mut stream = self.stream.as_ref().ok_or_else(gone)?;
        let mut bytes = Vec::new();
        Message::End { packets }.emit(&mut bytes);
        stream.write_all(&bytes)?;
        // Batches without packets, and those that only kept the line alive, may have been acknowledged with others.
        for _ in 0..=self.line.due {
            answer(stream)?;
        }
        Ok(())
    }

    /// Takes the acknowledgements that are there, or come within `patience`.
    fn hear(&mut self, queue: &Arc<Queue>, patience: Duration) -> Result<(), Lost> {
        let stream = self.stream.as_ref().ok_or_else(gone)?;
        let mut patience = patience;
        while wait::readable([stream.as_fd()], Some(patience))?[0] {
            let (Answer::Written(next) | Answer::Welcome(next)) = answer(stream)?;
            acknowledge(&mut self.unacknowledged, &mut self.sent, queue, next);
            self.line.heard(clock::now());
            patience = Duration::ZERO;
        }
        Ok(())
    }

    fn reconnect(&mut self, queue: &Arc<Queue>) {
        match self.dial() {
            Ok(next) => {
                self.sent.reconnects += 1;
                acknowledge(&mut self.unacknowledged, &mut self.sent, queue, next);
                self.notices.say(&format!("{}: connected again", self.address));
                let again =
                    self.unacknowledged.iter().try_for_each(|batch| send(self.stream.as_ref(), batch));
                self.line = Line::new(clock::now());
                if again.is_err() {
                    self.stream = None;
                }
                self.unacknowledged.iter().for_each(|_| self.line.said(clock::now()));
            }
            Err(_) => std::thread::sleep(RETRY),
        }
    }

    /// Makes a connection and greets; the packet that the recorder wants next.
    fn dial(&mut self) -> Result<u64, Lost> {
        let addresses = self.address.to_socket_addrs()?;
        let mut last = Lost::Io(io::Error::new(io::ErrorKind::NotFound, "no such host"));
        for address in addresses {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(PATIENCE))?;
                    stream.set_write_timeout(Some(PATIENCE))?;
                    let mut bytes = Vec::new();
                    Message::Hello { capture: self.capture, header: &self.header }.emit(&mut bytes);
                    bytes.extend(&self.header);
                    (&stream).write_all(&bytes)?;
                    let (Answer::Welcome(next) | Answer::Written(next)) = answer(&stream)?;
                    self.stream = Some(stream);
                    return Ok(next);
                }
                Err(error) => last = Lost::Io(error),
            }
        }
        Err(last)
    }
}

/// Drops batches that the recorder has.
fn acknowledge(unacknowledged: &mut VecDeque<Batch>, sent: &mut Sent, queue: &Arc<Queue>, next: u64) {
    while let Some(batch) = unacknowledged.pop_front() {
        // A batch without packets is acknowledged with the one before it.
        if batch.first + batch.packets() > next {
            unacknowledged.push_front(batch);
            break;
        }
        sent.acknowledged_packets += batch.packets();
        queue.give_back(batch);
    }
}

fn send(stream: Option<&TcpStream>, batch: &Batch) -> Result<(), Lost> {
    records(stream, batch.first, batch.packets() as u32, batch.bytes())
}

fn records(stream: Option<&TcpStream>, first: u64, packets: u32, blocks: &[u8]) -> Result<(), Lost> {
    let mut stream = stream.ok_or_else(gone)?;
    let mut bytes = Vec::new();
    Message::Records { first, packets, blocks }.emit(&mut bytes);
    stream.write_all(&bytes)?;
    Ok(stream.write_all(blocks)?)
}

impl Line {
    const fn new(now: Instant) -> Line {
        Line { sent: now, due: 0, waiting: None }
    }

    fn said(&mut self, now: Instant) {
        self.sent = now;
        self.due += 1;
        self.waiting.get_or_insert(now);
    }

    fn heard(&mut self, now: Instant) {
        self.due = self.due.saturating_sub(1);
        self.waiting = (self.due > 0).then_some(now);
    }

    /// An answer is overdue.
    fn is_lost(&self, now: Instant) -> bool {
        self.waiting.is_some_and(|since| now.since(since) >= PATIENCE)
    }

    fn is_idle(&self, now: Instant) -> bool {
        now.since(self.sent) >= KEEP_ALIVE
    }
}

/// Answer of a recorder.
enum Answer {
    Welcome(u64),
    Written(u64),
}

fn answer(mut stream: &TcpStream) -> Result<Answer, Lost> {
    let mut front = [0; HEAD_BYTES];
    stream.read_exact(&mut front)?;
    let strange = |error| Lost::Refused(format!("{error}; is it `farlun recorder`?"));
    let (kind, len) = head(front).map_err(strange)?;
    let mut body = vec![0; len];
    stream.read_exact(&mut body)?;
    match Message::parse(kind, &body).map_err(strange)? {
        Message::Welcome { next } => Ok(Answer::Welcome(next)),
        Message::Written { next } => Ok(Answer::Written(next)),
        Message::Refused { reason } => Err(Lost::Refused(format!("the recorder says: {reason}"))),
        _ => Err(Lost::Refused("it sends packets itself; is it `farlun recorder`?".to_owned())),
    }
}

fn gone() -> Lost {
    Lost::Io(io::ErrorKind::NotConnected.into())
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Lost {
        Lost::Io(error)
    }
}

impl Lost {
    fn sentence(&self) -> String {
        match self {
            Lost::Io(error) => match error.kind() {
                io::ErrorKind::UnexpectedEof => "the recorder closed the connection".to_owned(),
                io::ErrorKind::WouldBlock => format!("no answer within {PATIENCE:?}"),
                _ => error.to_string(),
            },
            Lost::Refused(reason) => reason.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorder_that_answers_nothing_is_lost_and_one_that_is_slow_is_not() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut line = Line::new(at(0));
        assert!(!line.is_lost(at(1000)), "nothing was said");
        line.said(at(1));
        line.said(at(5));
        assert_eq!([5, 6].map(|second| line.is_lost(at(second))), [false, true], "the oldest counts");
        line.heard(at(5));
        assert_eq!([9, 10].map(|second| line.is_lost(at(second))), [false, true], "it goes on slowly");
        line.heard(at(9));
        assert!(!line.is_lost(at(1000)), "all was answered");
        assert_eq!([14, 15].map(|second| line.is_idle(at(second))), [false, true]);
    }
}
