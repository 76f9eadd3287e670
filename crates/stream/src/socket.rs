//! Sockets and threads of both ends.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use event::SocketSample;
use net::{Events, Interest, Poll, clock, scheduling, tcp};
use tables::{Recorder, TableError};

use crate::error::StreamError;
use crate::spec::StreamOptions;

/// Time in which the socket has room for a few bytes.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);

/// Connects within `options.timeout`; the stream is non-blocking.
pub(crate) fn connect(address: SocketAddr, options: &StreamOptions) -> Result<TcpStream, StreamError> {
    let failed = |source| StreamError::Connect { address, source };
    let stream = tcp::start_connect(address, options.congestion.name()).map_err(failed)?;
    let poll = Poll::new()?;
    poll.add(stream.as_fd(), 0, Interest::WRITE)?;
    let deadline = clock::now() + options.timeout;
    let mut events = Events::new();
    loop {
        let left = deadline.since(clock::now());
        if left == Duration::ZERO {
            return Err(StreamError::Timeout { address, after: options.timeout });
        }
        poll.wait(&mut events, Some(left))?;
        if events.iter().any(|ready| ready.writable) {
            return match stream.take_error()? {
                None => Ok(stream),
                Some(source) => Err(failed(source)),
            };
        }
    }
}

/// Writes a message before or after the flow; the stream blocks meanwhile.
pub(crate) fn write_message(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(WRITE_PATIENCE))?;
    stream.write_all(bytes)?;
    stream.set_nonblocking(true)
}

/// Pins the calling thread, that of stream `number`, to one of `cpus`; no-op without any.
pub(crate) fn pin(cpus: &[usize], number: u16) -> io::Result<()> {
    match cpus {
        [] => Ok(()),
        cpus => scheduling::keep_to(&[cpus[usize::from(number) % cpus.len()]]),
    }
}

/// Table of samples, shared by all streams.
pub(crate) fn table(path: Option<PathBuf>) -> Result<Option<Mutex<Recorder<SocketSample>>>, TableError> {
    Ok(path.map(Recorder::create).transpose()?.map(Mutex::new))
}
