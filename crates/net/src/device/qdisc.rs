//! Queueing discipline of a device: none, or an emulated ring of a network card.
//!
//! A packet that finds the ring full is dropped synchronously, which TCP handles as local congestion (state CWR). A TUN
//! device without a queueing discipline does so itself; other devices get a short queue, which the kernel's token
//! bucket (tc-tbf(8)) drains at the line rate.

use std::io;

use crate::device::interface::index_of;
use crate::device::rtnetlink::{NLM_F_CREATE, NLM_F_REPLACE, attribute, attributes, dump, request};

// linux/rtnetlink.h, linux/pkt_sched.h
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS: u16 = 3;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const TC_H_ROOT: u32 = 0xffff_ffff;
const TC_LINKLAYER_ETHERNET: u8 = 1;
/// Handles `1:` and `10:`, and the only class of the former.
const BUCKET: u32 = 0x0001_0000;
const BUCKET_CLASS: u32 = 0x0001_0001;
const FIFO: u32 = 0x0010_0000;
/// struct tcmsg: family and padding, index, handle, parent, info
const TCMSG_BYTES: usize = 20;

/// Ring of a network card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CardRing {
    /// Capacity in packets.
    pub packets: u32,
    /// Rate at which the ring drains.
    pub bytes_per_s: u64,
    /// Burst size of the token bucket; at least one packet.
    pub burst_bytes: u32,
    /// Overhead of the wire for each frame, in addition to the 14 bytes of the Ethernet header.
    pub overhead_bytes: u16,
}

/// Removes the queue of the device `name`.
pub fn without_queue(name: &str) -> io::Result<()> {
    place(name, (0, TC_H_ROOT), "noqueue", None)
}

/// Sets a ring as the queue of the device `name`.
pub fn with_ring(name: &str, ring: &CardRing) -> io::Result<()> {
    place(name, (BUCKET, TC_H_ROOT), "tbf", Some(&bucket(ring)))?;
    // struct tc_fifo_qopt
    place(name, (FIFO, BUCKET_CLASS), "pfifo", Some(&ring.packets.to_ne_bytes()))
}

/// Packets dropped by the queue of the device `name`.
pub fn drops(name: &str) -> io::Result<u64> {
    let index = index_of(name)?;
    let mut found = None;
    dump(RTM_GETQDISC, &[0; TCMSG_BYTES], RTM_NEWQDISC, |body| {
        let word =
            |at: usize| body.get(at..at + 4).map(|word| u32::from_ne_bytes([0, 1, 2, 3].map(|b| word[b])));
        if word(4) == Some(index) && word(12) == Some(TC_H_ROOT) {
            let stats = attributes(&body[TCMSG_BYTES..]).find(|(kind, _)| *kind == TCA_STATS);
            // struct tc_stats: bytes in eight bytes, packets, drops
            found = stats.and_then(|(_, stats)| stats.get(12..16)?.first_chunk().copied());
        }
    })?;
    let drops = found.map(u32::from_ne_bytes).map(u64::from);
    drops.ok_or_else(|| io::Error::other(format!("no queue before {name} that counts")))
}

fn place(name: &str, (handle, parent): (u32, u32), kind: &str, options: Option<&[u8]>) -> io::Result<()> {
    let mut body = vec![0; 4];
    for word in [index_of(name)?, handle, parent, 0] {
        body.extend(word.to_ne_bytes());
    }
    attribute(&mut body, TCA_KIND, &[kind.as_bytes(), &[0]].concat());
    if let Some(options) = options {
        attribute(&mut body, TCA_OPTIONS, options);
    }
    request(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, &body)
}

fn bucket(ring: &CardRing) -> Vec<u8> {
    // struct tc_ratespec: cell_log, linklayer, overhead, cell_align, mpu, rate
    let mut rate = vec![0, TC_LINKLAYER_ETHERNET];
    rate.extend(ring.overhead_bytes.to_ne_bytes());
    rate.extend([0; 4]);
    rate.extend(u32::try_from(ring.bytes_per_s).unwrap_or(u32::MAX).to_ne_bytes());
    // struct tc_tbf_qopt: rate, peak rate, limit of the queue that comes with it and is replaced, buffer, mtu
    let mut parms = rate;
    parms.extend([0; 12]);
    parms.extend(ring.burst_bytes.to_ne_bytes());
    parms.extend([0; 8]);
    let mut options = Vec::new();
    attribute(&mut options, TCA_TBF_PARMS, &parms);
    attribute(&mut options, TCA_TBF_RATE64, &ring.bytes_per_s.to_ne_bytes());
    attribute(&mut options, TCA_TBF_BURST, &ring.burst_bytes.to_ne_bytes());
    options
}
