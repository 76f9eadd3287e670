//! What the kernel knows of anybody's TCP connections: sock_diag(7) with INET_DIAG, for one network namespace.
//!
//! Nobody's permission is needed. [`Diag::find`] goes through all sockets of the machine, some tenths of a millisecond
//! with the kernel's usual tables, whatever the filter: once in a while. [`Diag::look`] asks for connections one by one,
//! many in one message, and costs about as much as TCP_INFO of each: as often as one likes. What the answers say of TCP
//! is [`TcpInfo`]; nothing is known here of what goes over a connection.
#![allow(unsafe_code)]

mod answer;
mod question;
mod ring;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::namespace::Namespace;
use crate::rtnetlink::{self, NLMSG_DONE, NLMSG_ERROR, error_of, messages};
use crate::tcp_info::TcpInfo;
use question::{Extras, Family, SOCK_DIAG_BY_FAMILY};
use ring::Ring;

/// Questions in one message: their answers fit into the receive buffer that a socket usually has.
const BATCH: usize = 32;
/// The kernel's answers to a dump fit into so much (linux/netlink.h, NLMSG_GOODSIZE and what dumps use).
const DUMP_BYTES: usize = 32 << 10;

/// The way to ask one network namespace.
#[derive(Debug)]
pub struct Diag {
    socket: OwnedFd,
    /// Of the next question.
    sequence: u32,
    question: Vec<u8>,
    dump: Vec<u8>,
    ring: Ring,
}

/// What names a connection to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SocketId {
    family: u8,
    id: [u8; question::ID_BYTES],
}

/// A connection as a search finds it.
#[derive(Clone, Debug)]
pub struct Found {
    /// What to look at it by.
    pub id: SocketId,
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// The number of its file, by which the processes are known that have it open; 0 if no program ever had it.
    pub inode: u32,
    /// The user who made it.
    pub uid: u32,
    /// Its congestion control.
    pub congestion: String,
    /// Its buffers.
    pub memory: Option<Memory>,
    /// What BBR thinks of the path.
    pub bbr: Option<Bbr>,
    /// What TCP says of it.
    pub info: TcpInfo,
}

/// The buffers of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Received and not read.
    pub received_bytes: u32,
    /// The most of that.
    pub rcvbuf_bytes: u32,
    /// Written, and not acknowledged or not sent.
    pub queued_bytes: u32,
    /// The most of that.
    pub sndbuf_bytes: u32,
}

/// What BBR thinks of the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bbr {
    /// The bottleneck's rate.
    pub bytes_per_s: u64,
    /// Smallest round trip of late.
    pub min_rtt_us: u32,
}

/// What a search found.
#[derive(Clone, Debug, Default)]
pub struct Finding {
    /// The connections.
    pub connections: Vec<Found>,
    /// Connections that were left out because there are too many.
    pub left_out: usize,
}

impl Diag {
    /// For the namespace of the calling thread.
    pub fn open() -> io::Result<Diag> {
        Ok(Diag {
            socket: rtnetlink::open(libc::NETLINK_SOCK_DIAG)?,
            sequence: 0,
            question: Vec::new(),
            dump: vec![0; DUMP_BYTES],
            ring: Ring::new(BATCH),
        })
    }

    /// For another namespace: a socket stays where it was made.
    pub fn open_in(namespace: &Namespace) -> io::Result<Diag> {
        namespace.run(Diag::open)
    }

    /// Every connection that stands and has one of `ports` at either end, but no more than `most`.
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

    /// Where somebody listens, of these ports.
    pub fn listeners(&mut self, ports: &[u16]) -> io::Result<Vec<SocketAddr>> {
        let mut listeners = Vec::new();
        for family in [Family::V4, Family::V6] {
            self.question.clear();
            question::search(&mut self.question, family, ports, question::LISTENING, self.sequence);
            self.dump(|body| listeners.extend(answer::local(body)))?;
        }
        Ok(listeners)
    }

    /// What TCP says of each of `ids` now; `each` has its place among them, and `None` for one that is gone. Those of
    /// which the kernel had no room to answer are left out.
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
            // What is left of a question that was given up is not for this one.
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

/// The kernel answers before this returns, but for the later parts of a dump.
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

    /// A connection over loopback with a port of its own; both ends.
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
        // The end that was closed last is no connection any more, as soon as the other has acknowledged that.
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
