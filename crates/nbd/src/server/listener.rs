//! Listening sockets: TCP addresses and paths of Unix sockets.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use net::tcp;

use super::config::NbdServiceError;
use super::stream::Stream;

/// A listening socket.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix { socket: UnixListener, path: PathBuf, inode: u64 },
}

/// An accepted connection.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) stream: Stream,
    /// Peer, for the log.
    pub(super) peer: Peer,
}

/// The other end of a connection, for the log.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) name: String,
    /// Address by which lines are counted; unspecified for a Unix socket.
    pub(super) address: IpAddr,
}

impl Listener {
    pub(super) fn tcp(address: SocketAddr) -> Result<Listener, NbdServiceError> {
        match tcp::listen(address, None) {
            Ok(socket) => Ok(Listener::Tcp(socket)),
            Err(source) => Err(NbdServiceError::Listen { address, source }),
        }
    }

    /// Listens on a path. A socket that was left behind there is replaced.
    pub(super) fn unix(path: &Path) -> Result<Listener, NbdServiceError> {
        let failed = |source| NbdServiceError::Socket { path: path.to_owned(), source };
        if path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket()) {
            match UnixStream::connect(path) {
                Ok(_) => return Err(NbdServiceError::SocketInUse { path: path.to_owned() }),
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    fs::remove_file(path).map_err(failed)?;
                }
                Err(error) => return Err(failed(error)),
            }
        }
        let socket = UnixListener::bind(path).map_err(failed)?;
        let inode = path.symlink_metadata().map_err(failed)?.ino();
        let listener = Listener::Unix { socket, path: path.to_owned(), inode };
        if let Listener::Unix { socket, .. } = &listener {
            socket.set_nonblocking(true).map_err(failed)?;
        }
        Ok(listener)
    }

    /// Address of a TCP socket.
    pub(super) fn address(&self) -> io::Result<Option<SocketAddr>> {
        match self {
            Listener::Tcp(socket) => socket.local_addr().map(Some),
            Listener::Unix { .. } => Ok(None),
        }
    }

    /// The next connection, see [`Stream::prepare`].
    pub(super) fn accept(&self) -> io::Result<Accepted> {
        match self {
            Listener::Tcp(socket) => {
                let (stream, peer) = socket.accept()?;
                let peer = Peer { name: peer.to_string(), address: peer.ip() };
                Ok(Accepted { stream: Stream::Tcp(stream), peer })
            }
            Listener::Unix { socket, path, .. } => {
                let (stream, _) = socket.accept()?;
                let name = format!("client of {}", path.display());
                let peer = Peer { name, address: Ipv4Addr::UNSPECIFIED.into() };
                Ok(Accepted { stream: Stream::Unix(stream), peer })
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(socket) => socket.as_fd(),
            Listener::Unix { socket, .. } => socket.as_fd(),
        }
    }
}

/// Removes the path of a Unix socket, unless another process has replaced it.
impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix { path, inode, .. } = self
            && path.symlink_metadata().is_ok_and(|found| found.ino() == *inode)
        {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_left_behind_is_replaced_and_one_in_use_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        drop(UnixListener::bind(&path).unwrap());
        let listener = Listener::unix(&path).expect("nobody listens there");
        assert!(matches!(Listener::unix(&path), Err(NbdServiceError::SocketInUse { .. })));
        drop(listener);
        assert!(!path.exists(), "it is removed at the end");
        fs::write(&path, "a file").unwrap();
        let error = Listener::unix(&path).unwrap_err().to_string();
        assert!(error.starts_with("cannot listen on"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "a file");
    }

    #[test]
    fn a_path_that_another_has_replaced_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = Listener::unix(&path).unwrap();
        let other = dir.path().join("other");
        fs::write(&other, "").unwrap();
        fs::rename(&other, &path).unwrap();
        drop(listener);
        assert!(path.exists());
    }
}
