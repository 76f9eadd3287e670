//! Kernel tracepoints, through perf's rings; no compiler and no program in the kernel are needed.
//!
//! `tracefs` reads the record layout of an event, `ring` reads the records of one CPU, `point` decodes the supported
//! events. Needs CAP_PERFMON (root). All resources belong to descriptors of this process, so tracing ends with the
//! process in any case.

mod point;
mod ring;
mod tracefs;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use event::Instant;

use crate::process::limits;

pub use point::{BlockKind, BlockPoint, Happened, Point, TcpPoint};
use point::{KNOWN, Reader};
use ring::Ring;
use tracefs::Tracefs;

/// A tracer of the whole machine.
#[derive(Debug)]
pub struct Tracer {
    rings: Vec<Ring>,
    readers: Vec<Reader>,
    lost: u64,
}

/// Error of tracing.
#[derive(Debug, thiserror::Error)]
pub enum TracingError {
    /// Missing privilege.
    #[error(
        "the kernel's tracepoints are for root only (CAP_PERFMON), and a user namespace does not count: {0}"
    )]
    Refused(io::Error),
    /// Tracepoints are not readable.
    #[error("the kernel's tracepoints cannot be read: {what}: {source}")]
    Failed {
        /// Attempted operation.
        what: String,
        /// Error of the system.
        source: io::Error,
    },
}

/// Returns true if this process may trace the kernel.
pub fn is_allowed() -> bool {
    Tracer::start().is_ok()
}

impl Tracer {
    /// Starts to trace all supported events of this kernel. Each CPU has a ring, and a descriptor for each event: more
    /// than 1024 on a large machine.
    pub fn start() -> Result<Tracer, TracingError> {
        // If the limit cannot be raised, the current one may suffice.
        let _ = limits::raise_open_files();
        let tracefs = Tracefs::open().map_err(|source| refused_or(source, "open tracefs"))?;
        let mut readers = Vec::new();
        for (event, happened) in KNOWN {
            match tracefs.format(event) {
                Ok(format) => readers.push(Reader::new(&format, *happened)),
                // Older kernels lack some events, and block events are optional.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(refused_or(source, event)),
            }
        }
        if !readers.iter().any(Reader::is_tcp) {
            let source = io::Error::new(io::ErrorKind::NotFound, "this kernel has none of TCP's");
            return Err(TracingError::Failed { what: "events/tcp".to_owned(), source });
        }
        let ids: Vec<u16> = readers.iter().map(Reader::id).collect();
        let failed = |source| refused_or(source, "perf_event_open");
        let rings = processors().map_err(failed)?.into_iter().map(|processor| Ring::open(processor, &ids));
        let rings = rings.collect::<io::Result<Vec<_>>>().map_err(failed)?;
        Ok(Tracer { rings, readers, lost: 0 })
    }

    /// Descriptors that become readable when there is much to read.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.rings.iter().map(AsFd::as_fd)
    }

    /// Passes all events since the last call to `take`, one CPU after the other.
    pub fn read(&mut self, mut take: impl FnMut(Instant, Point)) {
        let readers = &self.readers;
        for ring in &mut self.rings {
            self.lost += ring.read(|t_ns, record| {
                if let Some(point) = readers.iter().find_map(|reader| reader.read(record)) {
                    take(Instant::from_nanos(t_ns), point);
                }
            });
        }
    }

    /// Number of events that were lost because a ring was full.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

fn refused_or(source: io::Error, what: &str) -> TracingError {
    match source.kind() {
        io::ErrorKind::PermissionDenied => TracingError::Refused(source),
        _ => TracingError::Failed { what: what.to_owned(), source },
    }
}

/// Online CPUs, from a list such as `0-3,6`.
fn processors() -> io::Result<Vec<u32>> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    parse_list(list.trim()).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("processors that are online: found '{list}'"))
    })
}

fn parse_list(list: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        all.extend(first.parse().ok()?..=last.parse::<u32>().ok()?);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(parse_list("0-3,6"), Some(vec![0, 1, 2, 3, 6]));
        assert_eq!(parse_list("0"), Some(vec![0]));
        assert_eq!(parse_list(""), None);
    }

    #[test]
    fn what_tcp_does_on_loopback_is_seen_or_the_refusal_is_said() {
        let mut tracer = match Tracer::start() {
            Ok(tracer) => tracer,
            Err(error) => {
                println!("skipped: what_tcp_does_on_loopback_is_seen_or_the_refusal_is_said: {error}");
                assert!(
                    !crate::namespace::user::is_privileged() || matches!(error, TracingError::Failed { .. })
                );
                return;
            }
        };
        let before = crate::clock::now();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        for _ in 0..3 {
            stream.write_all(&[7; 1000]).unwrap();
            peer.read_exact(&mut [0; 1000]).unwrap();
            peer.write_all(&[7]).unwrap();
            stream.read_exact(&mut [0]).unwrap();
        }
        let after = crate::clock::now();
        let mut seen = Vec::new();
        tracer.read(|t, point| {
            if let Point::Tcp(found) = point
                && found.local == stream.local_addr().unwrap()
                && found.remote == address
            {
                assert!(t >= before && t <= after, "{before:?} {t:?} {after:?}");
                seen.push(found);
            }
        });
        assert!(seen.len() >= 3, "an answer is a segment that TCP receives: {seen:?}");
        assert!(seen.iter().all(|found| found.cwnd_packets >= 1 && found.snd_wnd_bytes > 0), "{seen:?}");
        assert_eq!(tracer.lost(), 0);
    }
}
