//! A capture of the emulated path: two interfaces, the taps of its two ends, on one clock.
//!
//! The emulator shows every packet when it takes it from the sending hosts and again when it delivers it to the
//! receiving ones, so a file is in the order of time by itself. It is never delayed: packets without room are counted.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use event::{Host, Instant, Sink, Tapped};
use net::clock;
use net::tap::Link;

use crate::filter::Keep;
use crate::header::{self, Described};
use crate::outlet::{Destination, Outlet, WhenFull};
use crate::run::{Captured, Outcome};
use crate::sources::system_ns;
use crate::{CaptureError, Notices};

const ENDS: [(&str, &str); 2] =
    [("near", "what near hosts send and get"), ("far", "what far hosts send and get")];

/// The emulator's side; to be dropped when the path is over.
#[derive(Debug)]
pub struct Taps {
    /// `None` once it is returned.
    outlet: Option<Outlet>,
    back: SyncSender<Outlet>,
    keep: Keep,
    offset_ns: u64,
}

/// The capture's side of the taps.
#[derive(Debug)]
pub struct Tapping {
    outlet: Receiver<Outlet>,
    begun: Instant,
}

/// Begins a capture. Call it when the signals that end the process have been taken over: a thread is started.
pub fn start(
    destination: &Destination,
    keep: Keep,
    notices: Notices,
) -> Result<(Taps, Tapping), CaptureError> {
    let begun = clock::now();
    let offset_ns = system_ns().saturating_sub(begun.as_nanos());
    // Tables of the same run are on CLOCK_MONOTONIC.
    let note = format!("times are t_ns + {offset_ns}");
    let described =
        ENDS.map(|(name, description)| Described { name: name.to_owned(), description, link: Link::Ip });
    let snap_bytes = keep.of(Some(HEADERS_MAX)) as u32;
    let header = header::blocks(&note, &described, snap_bytes, "");
    let outlet = Outlet::start(destination, header, ENDS.len(), WhenFull::Drop, notices)?;
    let (back, handed_back) = sync_channel(1);
    let taps = Taps { outlet: Some(outlet), back, keep, offset_ns };
    Ok((taps, Tapping { outlet: handed_back, begun }))
}

/// The longest headers of IPv4 with options or IPv6, and TCP with options.
const HEADERS_MAX: usize = 60 + 60;

impl Sink<Tapped<'_>> for Taps {
    fn record(&mut self, packet: &Tapped<'_>) {
        let Some(outlet) = &mut self.outlet else { return };
        let Tapped { t, host, headers, payload } = *packet;
        let kept = self.keep.of(Some(headers.len()));
        let first = &headers[..headers.len().min(kept)];
        let rest = &payload[..payload.len().min(kept - first.len())];
        let len = (headers.len() + payload.len()) as u32;
        outlet.packet(number(host), t.as_nanos() + self.offset_ns, len, &[first, rest]);
        outlet.hand_on_if_due(t);
    }

    fn idle(&mut self, now: Instant) {
        if let Some(outlet) = &mut self.outlet {
            outlet.hand_on_if_due(now);
        }
    }
}

impl Drop for Taps {
    fn drop(&mut self) {
        if let Some(outlet) = self.outlet.take() {
            // The receiver is gone if the run has failed.
            let _ = self.back.try_send(outlet);
        }
    }
}

impl Tapping {
    /// Waits until everything is kept; the taps must be gone.
    pub fn finish(self) -> Result<Outcome, CaptureError> {
        let over = |_| std::io::Error::other("the emulator still has its taps");
        let mut outlet = self.outlet.recv().map_err(over)?;
        for interface in 0..ENDS.len() {
            let (packets, dropped) = outlet.counts(interface);
            outlet.statistics(interface, system_ns(), packets + dropped, 0);
        }
        let (kept, counts) = outlet.finish();
        let interfaces = ENDS.iter().zip(counts).map(|((name, _), (packets, dropped_queue))| Captured {
            name: (*name).to_owned(),
            accepted: packets + dropped_queue,
            packets,
            dropped_kernel: 0,
            dropped_queue,
            unstamped: 0,
        });
        let seconds = clock::now().since(self.begun).as_secs_f64();
        let interfaces = interfaces.collect();
        Ok(Outcome { interfaces, seconds, cpu_ns: clock::process_cpu_ns(), kept })
    }
}

const fn number(host: Host) -> usize {
    match host {
        Host::Near => 0,
        Host::Far => 1,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wire::pcap::{Decoder, Found};

    use super::*;
    use crate::files::Rotation;

    #[test]
    fn the_last_packets_do_not_wait_for_more() {
        let dir = tempfile::tempdir().unwrap();
        let destination = Destination::Files { dir: dir.path().to_owned(), rotation: Rotation::default() };
        let keep = Keep { snap_bytes: 64, payload_bytes: Some(30) };
        let (mut taps, tapping) = start(&destination, keep, Notices::new(|_| {})).unwrap();
        let path = dir.path().join("capture-00001.pcapng");
        let len = || std::fs::metadata(&path).unwrap().len();
        let (empty, t) = (len(), clock::now());
        taps.record(&Tapped { t, host: Host::Near, headers: &[0x45; 52], payload: &[] });
        taps.idle(t + Duration::from_millis(199));
        taps.idle(t + Duration::from_millis(200));
        // Another thread writes them.
        let patience = t + Duration::from_secs(60);
        while len() == empty && clock::now() < patience {
            std::thread::yield_now();
        }
        assert!(len() > empty);
        drop(taps);
        assert_eq!(tapping.finish().unwrap().interfaces[0].packets, 1);
    }

    #[test]
    fn both_ends_are_in_one_file_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let destination = Destination::Files { dir: dir.path().to_owned(), rotation: Rotation::default() };
        let keep = Keep { snap_bytes: 64, payload_bytes: Some(30) };
        let (mut taps, tapping) = start(&destination, keep, Notices::new(|_| {})).unwrap();
        let (headers, payload) = ([0x45; 52], [7; 1000]);
        let begun = clock::now();
        for (n, host) in [(0, Host::Near), (5, Host::Far), (9, Host::Far)] {
            let t = Instant::from_nanos(begun.as_nanos() + n);
            taps.record(&Tapped { t, host, headers: &headers, payload: &payload[..n as usize * 111] });
        }
        drop(taps);
        let outcome = tapping.finish().unwrap();
        let counts: Vec<_> = outcome.interfaces.iter().map(|one| (one.packets, one.dropped_queue)).collect();
        assert_eq!((counts, outcome.kept.files.len()), (vec![(1, 0), (2, 0)], 1));
        let file = std::fs::read(&outcome.kept.files[0]).unwrap();
        let (mut decoder, mut at, mut seen) = (Decoder::new(), 0, Vec::new());
        while at < file.len() {
            at += match decoder.decode(&file[at..]).unwrap() {
                Found::More(needed) => panic!("{needed}"),
                Found::Other(len) => len,
                Found::Packet { len, packet } => {
                    seen.push((packet.t_ns, packet.len, packet.bytes.len(), packet.link));
                    len
                }
            };
        }
        let first = seen[0].0;
        assert_eq!(seen, [(first, 52, 52, 101), (first + 5, 607, 82, 101), (first + 9, 1051, 82, 101)]);
    }
}
