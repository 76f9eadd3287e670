//! Statistics of all TCP connections of a network namespace: sock_diag(7) with INET_DIAG.
//!
//! No privilege is needed. [`Diag::find`] scans all sockets of the machine, some tenths of a millisecond with the
//! kernel's usual tables, whatever the filter: use it rarely. [`Diag::look`] requests single connections, many in one
//! message, and costs about as much as TCP_INFO of each: use it as often as needed. TCP's statistics are returned as
//! [`TcpInfo`]; the data of a connection are not examined.
#![allow(unsafe_code)]

mod answer;
mod connection;
mod question;
mod ring;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::device::rtnetlink::{self, NLMSG_DONE, NLMSG_ERROR, error_of, messages};
use crate::namespace::Namespace;
use crate::socket::tcp_info::TcpInfo;
pub use connection::{Bbr, Found, Memory, SocketId};
use question::{Extras, Family, SOCK_DIAG_BY_FAMILY};
use ring::Ring;

/// Requests in one message: their responses fit into a default receive buffer of a socket.
const BATCH: usize = 32;
/// Maximum length of a dump's response (linux/netlink.h, NLMSG_GOODSIZE, and the limit of dumps).
const DUMP_BYTES: usize = 32 << 10;

/// A diagnostic socket of one network namespace.
#[derive(Debug)]
pub struct Diag {
    socket: OwnedFd,
    /// Sequence number of the next request.
    sequence: u32,
    question: Vec<u8>,
    dump: Vec<u8>,
    ring: Ring,
}

/// Result of a search.
#[derive(Clone, Debug, Default)]
pub struct Finding {
    /// Connections found.
    pub connections: Vec<Found>,
    /// Number of connections beyond the limit.
    pub left_out: usize,
}

impl Diag {
    /// Opens a socket in the namespace of the calling thread.
    pub fn open() -> io::Result<Diag> {
        Ok(Diag {
            socket: rtnetlink::open(libc::NETLINK_SOCK_DIAG)?,
            sequence: 0,
            question: Vec::new(),
            dump: vec![0; DUMP_BYTES],
            ring: Ring::new(BATCH),
        })
    }

    /// Opens a socket in another namespace; a socket stays where it was created.
    pub fn open_in(namespace: &Namespace) -> io::Result<Diag> {
        namespace.run(Diag::open)
    }

    /// Returns established and closing connections with one of `ports` at either end, at most `most`.
    pub fn find(&mut self, ports: &[u16], most: usize) -> io::Result<Finding> {
        let mut finding = Finding::default();
        for family in [Family::V4, Family::V6] {
            self.question.clear();
            question::search(&mut self.question, family, ports, question::STANDING, self.sequence);
            self.dump(|body| {
                let Some(found) = answer::found(body) else { return };
                if finding.connections.len() < most {
                    finding.connections.push(found);
                } else {
                    finding.left_out += 1;
                }
            })?;
        }
        Ok(finding)
    }

    /// Listening addresses with one of `ports`.
    pub fn listeners(&mut self, ports: &[u16]) -> io::Result<Vec<SocketAddr>> {
        let mut listeners = Vec::new();
        for family in [Family::V4, Family::V6] {
            self.question.clear();
            question::search(&mut self.question, family, ports, question::LISTENING, self.sequence);
            self.dump(|body| listeners.extend(answer::local(body)))?;
        }
        Ok(listeners)
    }

    /// Reads TCP_INFO of each of `ids`; `each` gets the index, and `None` for a closed connection. Responses that the
    /// kernel dropped for lack of buffer space are omitted.
    pub fn look(&mut self, ids: &[SocketId], mut each: impl FnMut(usize, Option<TcpInfo>)) -> io::Result<()> {
        for (batch, ids) in ids.chunks(BATCH).enumerate() {
            self.question.clear();
            let first = self.sequence;
            for id in ids {
                question::one(&mut self.question, id, Extras::INFO, self.sequence);
                self.sequence = self.sequence.wrapping_add(1);
            }
            send(&self.socket, &self.question)?;
            self.ring.receive(&self.socket, ids.len(), |bytes| {
                let mut is_answer = false;
                for message in messages(bytes) {
                    let place = message.sequence.wrapping_sub(first) as usize;
                    if place >= ids.len() {
                        continue;
                    }
                    is_answer = true;
                    match message.kind {
                        SOCK_DIAG_BY_FAMILY => {
                            if let Some(info) = answer::info(message.body) {
                                each(batch * BATCH + place, Some(info));
                            }
                        }
                        NLMSG_ERROR => each(batch * BATCH + place, None),
                        _ => {}
                    }
                }
                is_answer
            })?;
        }
        Ok(())
    }

    fn dump(&mut self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        send(&self.socket, &self.question)?;
        loop {
            let got = rtnetlink::receive(&self.socket, &mut self.dump)?;
            if got == 0 {
                return Err(io::Error::other("the kernel ended a dump of sockets early"));
            }
            // Responses to an abandoned request have another sequence number.
            for message in messages(&self.dump[..got]).filter(|message| message.sequence == sequence) {
                match message.kind {
                    NLMSG_DONE => return rtnetlink::end_of(message.body),
                    NLMSG_ERROR => return error_of(message.body),
                    SOCK_DIAG_BY_FAMILY => each(message.body),
                    _ => {}
                }
            }
        }
    }
}

/// Sends a request. The kernel responds before this returns, except for later parts of a dump.
fn send(socket: &OwnedFd, message: &[u8]) -> io::Result<()> {
    // SAFETY: `message` holds as many bytes as we say. A socket without an address talks to the kernel.
    let sent = unsafe { libc::send(socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// A connection over loopback with a port of its own; returns both ends.
    fn pair(address: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(address).expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let (far, _) = listener.accept().expect("its other end");
        (near, far)
    }

    #[track_caller]
    fn check(address: &str) {
        let (mut near, mut far) = pair(address);
        near.write_all(&[7; 5000]).expect("room");
        far.read_exact(&mut [0; 5000]).expect("what was written");
        let (at_near, at_far) = (near.local_addr().unwrap(), far.local_addr().unwrap());
        let mut diag = Diag::open().expect("anybody may ask");
        let finding = diag.find(&[at_far.port(), 1], 10).expect("a search");
        assert_eq!((finding.connections.len(), finding.left_out), (2, 0), "{finding:?}");
        let one = finding.connections.iter().find(|found| found.local == at_near).expect("the near end");
        assert_eq!((one.remote, one.info.acked_bytes >= 5000), (at_far, true), "{one:?}");
        assert!(one.inode > 0 && one.info.cwnd_packets > 0 && !one.congestion.is_empty(), "{one:?}");
        assert!(one.memory.is_some_and(|memory| memory.sndbuf_bytes > 0), "{one:?}");
        assert_eq!(diag.find(&[at_far.port()], 1).expect("a search").left_out, 1);
        assert!(diag.find(&[1], 10).expect("a search").connections.is_empty(), "another port");

        near.write_all(&[7; 3000]).expect("room");
        far.read_exact(&mut [0; 3000]).expect("what was written");
        // More than one batch.
        let ids = vec![one.id; 2 * BATCH + 3];
        let mut seen = vec![0u64; ids.len()];
        diag.look(&ids, |at, info| seen[at] = info.expect("it stands").received_bytes + 1).expect("a look");
        assert!(seen.iter().all(|bytes| *bytes == 1), "every one is answered: {seen:?}");
        let far_id = finding.connections.iter().find(|found| found.local == at_far).expect("the far end").id;
        let mut bytes = 0;
        diag.look(&[far_id], |_, info| bytes = info.expect("it stands").received_bytes).expect("a look");
        assert_eq!(bytes, 8000);

        drop((near, far));
        // The end that was closed last disappears as soon as the other has acknowledged its FIN.
        let mut gone = 0;
        while gone == 0 {
            std::thread::yield_now();
            diag.look(&[one.id, far_id], |_, info| gone += usize::from(info.is_none())).expect("a look");
        }
    }

    #[test]
    fn connections_of_both_families_are_found_and_looked_at() {
        check("127.0.0.1:0");
        check("[::1]:0");
    }

    #[test]
    fn who_listens_is_known() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut diag = Diag::open().expect("anybody may ask");
        assert_eq!(diag.listeners(&[address.port()]).expect("a search"), [address]);
        assert!(diag.find(&[address.port()], 10).expect("a search").connections.is_empty());
    }

    #[test]
    fn another_namespace_has_its_own_connections() {
        let Ok((namespace, ())) = Namespace::create(|| Ok(())) else {
            println!("skipped: another_namespace_has_its_own_connections: no namespace can be made");
            return;
        };
        let (_near, far) = pair("127.0.0.1:0");
        let mut diag = Diag::open_in(&namespace).expect("a socket there");
        let port = far.local_addr().unwrap().port();
        assert!(diag.find(&[port], 10).expect("a search").connections.is_empty());
    }
}
