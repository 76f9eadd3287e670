//! The recording host's end: accepts senders and keeps their captures, a thread for each.
//!
//! A sender that lost its connection resumes its capture; a second connection of a sender replaces the first. Messages
//! are checked before they are written, so that a sender can write nothing but captures, and every wait for a sender
//! ends.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use event::{Instant, LineRate};
use net::{EndSignals, Events, Interest, Poll, clock};
use serde::Serialize;

use super::keeper::{KeepError, Keeper};
use super::message::{HEAD_BYTES, Message, MessageError, head};
use crate::files::Rotation;
use crate::shelf::{Shelf, Shelves};
use crate::{CaptureError, Notices};

/// Captures that are recorded at the same time, and connections.
const CAPTURES_MAX: usize = 64;
const TOO_MANY: &str = "as many captures as can be are being recorded already";
/// Time limit for a greeting, and for silence of a sender, which has statistics to send every second.
const GREETING: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_secs(60);
const ACCEPT: u64 = 0;
const SIGNAL: u64 = 1;

/// Directory and limits of the recordings.
#[derive(Clone, Debug)]
pub struct RecorderSettings {
    /// The directory of all files.
    pub dir: PathBuf,
    /// Rotation of files, and their limit for each host.
    pub rotation: Rotation,
}

/// Counters of a recorder.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Totals {
    /// Captures that began.
    pub captures: u64,
    /// Captures that ended regularly.
    pub ended: u64,
    /// Packets that are in files.
    pub packets: u64,
    /// Packets that are known to be missing.
    pub missing_packets: u64,
    /// Connections that ended because of an invalid message.
    pub refused: u64,
}

/// A recorder that runs.
pub struct Recorder {
    shared: Arc<Shared>,
}

struct Shared {
    settings: RecorderSettings,
    notices: Notices,
    captures: Mutex<HashMap<u64, Arc<Entry>>>,
    /// Files of each host, where their number is limited: a host may begin any number of captures.
    shelves: Mutex<Shelves>,
    /// Numbers of recently ended captures, with their next packet: the sender may have missed the acknowledgement of
    /// the end.
    ended: Mutex<VecDeque<(u64, u64)>>,
    totals: Mutex<Totals>,
    /// Notices of each host.
    lines: Mutex<LineRate>,
    connections: AtomicUsize,
    is_over: AtomicBool,
}

/// A counted connection; dropping it corrects the count.
struct Counted(Arc<Shared>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A connection and its thread.
struct Line {
    thread: JoinHandle<()>,
    stream: TcpStream,
    /// The greeting has arrived, or the connection is being closed.
    has_greeted: Arc<AtomicBool>,
}

/// A capture, and the connection it comes over.
struct Entry {
    stream: Mutex<Option<TcpStream>>,
    /// `None` once it is over.
    keeper: Mutex<Option<Keeper>>,
    peer: SocketAddr,
}

/// Reasons of a connection's end.
enum Ended {
    /// The capture is over.
    Whole,
    /// The sender is gone and may come again.
    Lost(io::Error),
    /// Invalid message of the sender, or an error at this end; the text for the sender.
    Refused(String),
}

impl Recorder {
    /// Records into `settings.dir`, which is made if need be.
    pub fn new(settings: RecorderSettings, notices: Notices) -> Result<Recorder, CaptureError> {
        let dir = &settings.dir;
        std::fs::create_dir_all(dir).map_err(|source| CaptureError::File { path: dir.clone(), source })?;
        let shared = Shared {
            settings,
            notices,
            captures: Mutex::default(),
            shelves: Mutex::default(),
            ended: Mutex::default(),
            totals: Mutex::default(),
            lines: Mutex::default(),
            connections: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        };
        Ok(Recorder { shared: Arc::new(shared) })
    }

    /// Serves until a signal comes. The listener does not block.
    pub fn serve(self, listener: &TcpListener, signals: &EndSignals) -> io::Result<Totals> {
        let poll = Poll::new()?;
        poll.add(listener.as_fd(), ACCEPT, Interest::READ)?;
        poll.add(signals.as_fd(), SIGNAL, Interest::READ)?;
        let mut events = Events::new();
        let mut lines: Vec<Line> = Vec::new();
        'signal: while !signals.came() {
            poll.wait(&mut events, None)?;
            lines.retain(|line| !line.thread.is_finished());
            while let Some((stream, peer)) = accepted(listener)? {
                // A signal arrives once: the loop that takes it ends.
                if signals.came() {
                    break 'signal;
                }
                let before = self.shared.connections.fetch_add(1, Ordering::AcqRel);
                let counted = Counted(self.shared.clone());
                if before >= CAPTURES_MAX && !make_room(&lines) {
                    turn_away(&stream);
                    continue;
                }
                let clone = stream.try_clone()?;
                let has_greeted = Arc::new(AtomicBool::new(false));
                let greeted = Arc::clone(&has_greeted);
                let work = move || counted.0.connection(&stream, peer, &greeted);
                let thread = std::thread::Builder::new().name("capture".to_owned()).spawn(work)?;
                lines.push(Line { thread, stream: clone, has_greeted });
            }
        }
        self.shared.is_over.store(true, Ordering::Release);
        for line in &lines {
            let _ = line.stream.shutdown(Shutdown::Both);
        }
        for line in lines {
            let _ = line.thread.join();
        }
        let totals = *lock(&self.shared.totals);
        Ok(totals)
    }
}

/// Closes the oldest connection without a greeting, so that silent ones keep no sender out. Returns false if there is
/// none.
fn make_room(lines: &[Line]) -> bool {
    let silent = lines.iter().find(|line| !line.has_greeted.swap(true, Ordering::AcqRel));
    if let Some(line) = silent {
        let _ = line.stream.shutdown(Shutdown::Both);
    }
    silent.is_some()
}

/// Accepts the next connection; `None` if there is none, or its peer has aborted it.
fn accepted(listener: &TcpListener) -> io::Result<Option<(TcpStream, SocketAddr)>> {
    match listener.accept() {
        Ok(accepted) => Ok(Some(accepted)),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {
                Ok(None)
            }
            _ => Err(error),
        },
    }
}

impl Shared {
    /// Reports an event of a kind about a host, within the rate limit.
    fn say(&self, kind: &'static str, peer: SocketAddr, text: &str) {
        match lock(&self.lines).allow(kind, peer.ip(), clock::now()) {
            None => {}
            Some(0) => self.notices.say(text),
            Some(left_out) => {
                self.notices
                    .say(&format!("{text} (before it, {left_out} notices of this kind are left out)"));
            }
        }
    }

    fn connection(&self, stream: &TcpStream, peer: SocketAddr, has_greeted: &AtomicBool) {
        match self.talk(stream, peer, has_greeted) {
            Ended::Whole => {}
            Ended::Lost(error) => {
                if !self.is_over.load(Ordering::Acquire) {
                    let text = format!("{peer}: the connection ended early: {}", sentence(&error));
                    self.say("lost", peer, &text);
                }
            }
            Ended::Refused(reason) => {
                lock(&self.totals).refused += 1;
                self.say("refused", peer, &format!("{peer}: {reason}"));
                refuse(stream, &reason);
            }
        }
        // The thread that shuts the recorder down holds a clone of the stream: dropping ours does not end the
        // connection.
        let _ = stream.shutdown(Shutdown::Both);
    }

    fn talk(&self, stream: &TcpStream, peer: SocketAddr, has_greeted: &AtomicBool) -> Ended {
        match self.begin(stream, peer, has_greeted) {
            Ok((capture, entry)) => {
                let ended = self.records(stream, capture, &entry);
                if let Ok(Ended::Whole) = ended {
                    lock(&self.captures).remove(&capture);
                }
                ended.unwrap_or_else(|ended| ended)
            }
            Err(ended) => ended,
        }
    }

    /// Receives the greeting and answers it.
    fn begin(
        &self,
        stream: &TcpStream,
        peer: SocketAddr,
        has_greeted: &AtomicBool,
    ) -> Result<(u64, Arc<Entry>), Ended> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(GREETING))?;
        let mut body = Vec::new();
        let Message::Hello { capture, header } = hear(stream, &mut body, GREETING)? else {
            return Err(MessageError::Magic.into());
        };
        has_greeted.store(true, Ordering::Release);
        let ended = lock(&self.ended).iter().find(|(number, _)| *number == capture).copied();
        if let Some((_, next)) = ended {
            return Err(end_again(stream, next).unwrap_or_else(|ended| ended));
        }
        let entry = self.entry(capture, header, peer)?;
        if let Some(before) = lock(&entry.stream).replace(stream.try_clone()?) {
            // It has come again over another connection: the old one is dead and does not know it yet.
            let _ = before.shutdown(Shutdown::Both);
        }
        Ok((capture, entry))
    }

    /// The capture of this number; a new one if there is none.
    fn entry(&self, capture: u64, header: &[u8], peer: SocketAddr) -> Result<Arc<Entry>, Ended> {
        let mut captures = lock(&self.captures);
        if let Some(entry) = captures.get(&capture).filter(|entry| entry.peer.ip() == peer.ip()) {
            return Ok(entry.clone());
        }
        if captures.contains_key(&capture) {
            return Err(Ended::Refused("this capture comes from another host".to_owned()));
        }
        if captures.len() >= CAPTURES_MAX {
            let idle = captures.iter().find(|(_, entry)| lock(&entry.stream).is_none());
            let Some(idle) = idle.map(|(number, _)| *number) else {
                return Err(Ended::Refused(TOO_MANY.to_owned()));
            };
            captures.remove(&idle);
        }
        let RecorderSettings { dir, rotation } = &self.settings;
        let ip = plain(peer.ip());
        let shelf = match rotation.files {
            Some(_) => lock(&self.shelves).of(ip),
            None => Shelf::default(),
        };
        let keeper = Keeper::new(&shelf, dir, ip, capture, header, *rotation, clock::now())?;
        let path = keeper.paths().next().map(|path| path.display().to_string()).unwrap_or_default();
        self.say("begin", peer, &format!("{peer}: a capture begins, in {path}"));
        lock(&self.totals).captures += 1;
        let entry = Entry { stream: Mutex::new(None), keeper: Mutex::new(Some(keeper)), peer };
        let entry = Arc::new(entry);
        captures.insert(capture, entry.clone());
        Ok(entry)
    }

    /// Receives packets until the capture ends.
    fn records(&self, stream: &TcpStream, capture: u64, entry: &Entry) -> Result<Ended, Ended> {
        let outcome = self.records_of(stream, capture, entry);
        // A capture without a connection can make room for another.
        lock(&entry.stream).take_if(|current| current.peer_addr().ok() == stream.peer_addr().ok());
        outcome
    }

    fn records_of(&self, stream: &TcpStream, capture: u64, entry: &Entry) -> Result<Ended, Ended> {
        // The previous thread of the capture has lost its connection and releases it.
        let mut keeper = lock(&entry.keeper);
        let kept = keeper.as_mut().ok_or_else(|| Ended::Refused("this capture is over".to_owned()))?;
        say(stream, &Message::Welcome { next: kept.next() })?;
        let outcome = self.hear_all(stream, kept, entry.peer);
        if let Ok(Ended::Whole) = outcome {
            self.remember(capture, kept.next());
            // If it is lost, the sender reconnects.
            let _ = say(stream, &Message::Written { next: kept.next() });
            *keeper = None;
        }
        outcome
    }

    fn remember(&self, capture: u64, next: u64) {
        let mut ended = lock(&self.ended);
        if ended.len() >= CAPTURES_MAX {
            ended.pop_front();
        }
        ended.push_back((capture, next));
    }

    fn hear_all(&self, stream: &TcpStream, kept: &mut Keeper, peer: SocketAddr) -> Result<Ended, Ended> {
        let mut body = Vec::new();
        loop {
            match hear(stream, &mut body, SILENCE)? {
                Message::Records { first, packets, blocks } => {
                    let (written, _) = kept.counts();
                    let missing = kept.records(first, packets, blocks, clock::now())?;
                    let mut totals = lock(&self.totals);
                    totals.packets += kept.counts().0 - written;
                    totals.missing_packets += missing;
                    drop(totals);
                    say(stream, &Message::Written { next: kept.next() })?;
                }
                Message::End { packets } => {
                    let missing = kept.end(packets);
                    let mut totals = lock(&self.totals);
                    totals.missing_packets += missing;
                    totals.ended += 1;
                    drop(totals);
                    let (written, missing) = kept.counts();
                    let text =
                        format!("{peer}: the capture is over, {written} packets, {missing} are missing");
                    self.say("end", peer, &text);
                    return Ok(Ended::Whole);
                }
                _ => return Err(MessageError::Magic.into()),
            }
        }
    }
}

/// Repeats to a sender that its capture is over, because it missed the first answer.
fn end_again(stream: &TcpStream, next: u64) -> Result<Ended, Ended> {
    say(stream, &Message::Welcome { next })?;
    let mut body = Vec::new();
    // Records that it sends once more are acknowledged with the rest.
    while !matches!(hear(stream, &mut body, GREETING)?, Message::End { .. }) {
        say(stream, &Message::Written { next })?;
    }
    say(stream, &Message::Written { next })?;
    Ok(Ended::Whole)
}

/// The next message, all of it within `patience`.
fn hear<'a>(stream: &TcpStream, body: &'a mut Vec<u8>, patience: Duration) -> Result<Message<'a>, Ended> {
    let until = clock::now() + patience;
    let mut front = [0; HEAD_BYTES];
    read_all(stream, &mut front, until)?;
    let (kind, len) = head(front)?;
    body.resize(len, 0);
    read_all(stream, body, until)?;
    Ok(Message::parse(kind, body)?)
}

fn read_all(mut stream: &TcpStream, mut room: &mut [u8], until: Instant) -> io::Result<()> {
    while !room.is_empty() {
        let left = until.since(clock::now());
        if left.is_zero() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(room) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => room = &mut room[len..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn say(mut stream: &TcpStream, message: &Message<'_>) -> io::Result<()> {
    let mut bytes = Vec::new();
    message.emit(&mut bytes);
    stream.write_all(&bytes)
}

/// Refuses a connection beyond the limit without waiting for its peer: the same thread accepts the others.
fn turn_away(stream: &TcpStream) {
    if stream.set_nonblocking(true).is_ok() {
        let _ = say(stream, &Message::Refused { reason: TOO_MANY });
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Sends the reason, if the sender still listens.
fn refuse(stream: &TcpStream, reason: &str) {
    let _ = stream.set_nonblocking(false);
    let _ = stream.set_write_timeout(Some(GREETING));
    let _ = say(stream, &Message::Refused { reason });
    // The rest of the sender's data is not read; without this shutdown its end would discard the reason.
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.set_read_timeout(Some(GREETING));
    let until: Instant = clock::now() + GREETING;
    let (mut stream, mut scratch) = (stream, vec![0; 64 << 10]);
    while clock::now() < until && matches!(stream.read(&mut scratch), Ok(1..)) {}
}

/// An IPv4 address as it is written.
fn plain(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}

fn sentence(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "closed by the sender".to_owned(),
        io::ErrorKind::WouldBlock => "nothing was heard for too long".to_owned(),
        _ => error.to_string(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Ended {
        Ended::Lost(error)
    }
}

impl From<MessageError> for Ended {
    fn from(error: MessageError) -> Ended {
        Ended::Refused(error.to_string())
    }
}

impl From<KeepError> for Ended {
    fn from(error: KeepError) -> Ended {
        Ended::Refused(error.to_string())
    }
}

#[cfg(test)]
mod tests;
