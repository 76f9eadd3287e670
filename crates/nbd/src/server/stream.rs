//! The socket of a connection: TCP or Unix.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use net::tcp;

/// A non-blocking stream socket.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Makes it non-blocking. A dead peer of a TCP connection is detected within a minute.
    pub(super) fn prepare(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => tcp::prepare(stream, None),
            Stream::Unix(stream) => stream.set_nonblocking(true),
        }
    }

    pub(super) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        retried(|| match self {
            Stream::Tcp(stream) => (&*stream).read(into),
            Stream::Unix(stream) => (&*stream).read(into),
        })
    }

    pub(super) fn read_vectored(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        retried(|| match self {
            Stream::Tcp(stream) => (&*stream).read_vectored(into),
            Stream::Unix(stream) => (&*stream).read_vectored(into),
        })
    }

    pub(super) fn write_vectored(&self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        retried(|| match self {
            Stream::Tcp(stream) => (&*stream).write_vectored(from),
            Stream::Unix(stream) => (&*stream).write_vectored(from),
        })
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

fn retried(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
