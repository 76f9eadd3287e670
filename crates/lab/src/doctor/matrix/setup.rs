//! A load with injected limiters: injection and relief of each.
//!
//! Sizes follow the path, so that an injected limiter leaves the same share at any round trip. Nothing is run here.

use std::time::Duration;

use diagnosis::Limiter;
use event::{BitRate, Op};
use iscsi_target::lun::LunSpec;
use serde::Serialize;

use crate::plan::{Bench, Bursts, Cell, LoadKind, Pacing, Path};

/// Shortest and longest request of a load that moves much.
const BLOCK_BYTES: (f64, f64) = (2048.0, 131_072.0);
/// Requests in a bandwidth-delay product, so that a count of them can be a share of it.
const BLOCKS_PER_PRODUCT: f64 = 12.0;
/// Outstanding data of a load whose depth is no limit, in bandwidth-delay products; and its minimum, in requests.
const PLENTY: f64 = 2.5;
const PLENTY_LEAST: f64 = 16.0;
/// Outstanding data of a load with just enough, in bandwidth-delay products.
const JUST_ENOUGH: f64 = 1.2;
/// Factor by which a relief raises the depth: enough also for requests of several round trips.
const MORE: u32 = 8;
/// Depth of a load whose requests are too short.
const SHORT_DEPTH: u32 = 32;
/// Payload of a packet.
const SEGMENT_BYTES: f64 = 1448.0;
/// Payload of all bytes on the wire, at an MTU of 1500.
const GOODPUT: f64 = 0.9415;
/// Constant of the window under loss, 1.2 / √p packets (Mathis and others, 1997).
const LOSS_CONSTANT: f64 = 1.2;
/// Smallest injected delay of a store, above the programs' own time.
const STORE_DELAY_LEAST: Duration = Duration::from_millis(1);
/// Packets of a short ring.
const RING_PACKETS: f64 = 80.0;

/// One load on one path, with its limiters.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Setup {
    /// The load, its target and its path.
    pub(super) cell: Cell,
    /// Store of the target.
    pub(super) lun: LunSpec,
}

/// Metric that is to improve.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Aim {
    /// Bytes per second.
    Throughput,
    /// Mean time of a request: the caller waits for each one.
    Latency,
}

impl Aim {
    /// Metric that a limiter harms.
    pub(super) fn of(limiter: Limiter) -> Aim {
        match limiter {
            Limiter::Nagle | Limiter::SeparateStatus | Limiter::StoreLatency | Limiter::RoundTrip => {
                Aim::Latency
            }
            _ => Aim::Throughput,
        }
    }
}

impl Setup {
    /// The load of the plan on a path of this round trip, with nothing that limits but the line.
    pub(super) fn healthy(mut cell: Cell, lun: LunSpec, op: Op, rtt: Duration) -> Setup {
        cell.path.delay = rtt / 2;
        let mut setup = Setup { cell, lun };
        let product = setup.product_bytes();
        let bench = setup.bench();
        bench.op = op;
        bench.block_bytes = power_of_two(product / BLOCKS_PER_PRODUCT, BLOCK_BYTES.0, BLOCK_BYTES.1);
        bench.depth = Some(plenty(product, bench.block_bytes));
        setup
    }

    /// The load.
    pub(super) fn bench(&mut self) -> &mut Bench {
        match &mut self.cell.load.kind {
            LoadKind::Bench(bench) => bench,
            LoadKind::Stream { .. } | LoadKind::Command(_) => unreachable!("a plan with cases has a bench"),
        }
    }

    fn path(&mut self) -> &mut Path {
        &mut self.cell.path
    }

    /// Payload per second that the line carries.
    fn line_bytes_per_s(&self) -> f64 {
        self.cell.path.rate.0 as f64 / 8.0 * GOODPUT
    }

    /// Bandwidth-delay product, in payload.
    fn product_bytes(&self) -> f64 {
        self.line_bytes_per_s() * self.cell.path.rtt().as_secs_f64()
    }

    /// Injects a limiter that leaves about this share of the path's performance; `None` if it cannot be injected.
    pub(super) fn inject(&mut self, limiter: Limiter, leaves: f64) -> Option<()> {
        let product = self.product_bytes();
        let rtt_s = self.cell.path.rtt().as_secs_f64();
        let line = self.cell.path.rate;
        let rate = BitRate((line.0 as f64 * leaves) as u64);
        let count = |block: u64| ((product * leaves / block as f64).round() as u32).max(2);
        let buffer = |share: f64| format!("{}B", (product * leaves * share).max(8192.0) as u64);
        let bench = self.bench();
        let block = bench.block_bytes;
        match limiter {
            Limiter::QueueDepth => bench.depth = Some(count(block)),
            Limiter::QueueLimit => bench.queue_limit = Some(count(block)),
            Limiter::CommandWindow => self.cell.target.window = Some(count(block)),
            Limiter::R2t => {
                // Just enough outstanding, so that the round trips that writes wait are not hidden by other writes.
                let rounds = (JUST_ENOUGH / leaves - 1.0).round().clamp(2.0, 8.0);
                bench.block_bytes = power_of_two(product / 4.0, 4096.0, 1_048_576.0);
                bench.depth = Some((JUST_ENOUGH * product / bench.block_bytes as f64).ceil() as u32);
                let burst = (bench.block_bytes as f64 / rounds / 512.0).ceil() as u64 * 512;
                bench.bursts = Bursts {
                    first_bytes: Some(512),
                    max_bytes: Some(burst),
                    r2ts: Some(1),
                    initial_r2t: true,
                };
            }
            Limiter::BlockSize => {
                bench.depth = Some(SHORT_DEPTH);
                bench.block_bytes =
                    power_of_two(product * leaves / f64::from(SHORT_DEPTH), 512.0, BLOCK_BYTES.1);
            }
            Limiter::Nagle => {
                (bench.depth, bench.block_bytes) = (Some(1), one_of(leaves, &[1024, 2048, 4096, 8192]));
                self.cell.target.compat = "nagle,separate-status".parse().ok()?;
            }
            Limiter::StoreLatency => {
                (bench.depth, bench.block_bytes) = (Some(1), one_of(leaves, &[2048, 4096, 8192]));
                let delay = Duration::from_secs_f64(rtt_s * (1.0 / leaves - 1.0)).max(STORE_DELAY_LEAST);
                self.lun.options.delays = delays(delay)?;
            }
            Limiter::RoundTrip => {
                (bench.depth, bench.block_bytes) = (Some(1), one_of(leaves, &[512, 2048, 4096]));
            }
            Limiter::SendBuffer => {
                self.path().faults.insert("sndbuf", buffer(1.5));
            }
            Limiter::ReceiveWindow => {
                self.path().faults.insert("rcvbuf", buffer(2.0));
            }
            Limiter::Loss => {
                let packets = product * leaves / SEGMENT_BYTES;
                let share = (LOSS_CONSTANT / packets).powi(2).clamp(1e-5, 0.05);
                self.path().faults.insert("loss", format!("{:.4}%", share * 100.0));
            }
            Limiter::DeviceQueue => {
                let packets = (RING_PACKETS * (1.0 + leaves)) as u32;
                self.path().faults.insert("ring", packets.to_string());
                self.cell.load.pacing = Pacing::Off;
            }
            Limiter::CongestionWindow => self.cell.load.start = crate::plan::PathTime::default(),
            Limiter::Pacing => self.cell.load.pacing = Pacing::AtMost(rate),
            Limiter::LinkRate => self.path().rate = rate,
            Limiter::StoreBandwidth => self.lun.options.rate = Some(rate),
            // A plan cannot name them: see `plan/keys/case.rs`.
            Limiter::Connections
            | Limiter::SeparateStatus
            | Limiter::PathMtu
            | Limiter::SenderCpu
            | Limiter::ReceiverCpu
            | Limiter::TargetQueue
            | Limiter::Idle
            | Limiter::Receiving
            | Limiter::AppLimited
            | Limiter::TcpMemory
            | Limiter::WindowScale
            | Limiter::Path
            | Limiter::SenderHost
            | Limiter::ReceiverApplication => return None,
        }
        Some(())
    }

    /// The same load with a limiter relieved; `None` if there is nothing to relieve.
    pub(super) fn without(&self, limiter: Limiter, healthy: &Setup) -> Option<Setup> {
        let mut setup = self.clone();
        let product = healthy.product_bytes();
        let bench = setup.bench();
        match limiter {
            Limiter::QueueDepth => {
                let enough = plenty(product, bench.block_bytes);
                let depth = bench.depth.filter(|depth| *depth < enough)?;
                bench.depth = Some(enough.max(depth * MORE));
            }
            Limiter::QueueLimit => drop(bench.queue_limit.take()?),
            Limiter::CommandWindow => drop(setup.cell.target.window.take()?),
            Limiter::R2t => {
                if bench.bursts == Bursts::default() {
                    return None;
                }
                bench.bursts = Bursts::default();
            }
            Limiter::BlockSize => {
                let least = (PLENTY * product / f64::from(bench.depth?)).max(bench.block_bytes as f64);
                let wanted = power_of_two(least * 2.0, 512.0, 1_048_576.0);
                if wanted <= bench.block_bytes {
                    return None;
                }
                bench.block_bytes = wanted;
            }
            Limiter::Connections => bench.connections = bench.connections.map(|count| count * 4),
            Limiter::Nagle => {
                if !setup.cell.target.compat.nagle {
                    return None;
                }
                setup.cell.target.compat.nagle = false;
            }
            Limiter::SeparateStatus => {
                if !setup.cell.target.compat.separate_status {
                    return None;
                }
                setup.cell.target.compat.separate_status = false;
            }
            Limiter::StoreLatency => {
                if setup.lun.options.delays.is_none() {
                    return None;
                }
                setup.lun.options.delays = healthy.lun.options.delays;
            }
            Limiter::StoreBandwidth => drop(setup.lun.options.rate.take()?),
            Limiter::SendBuffer => drop(setup.path().faults.remove("sndbuf")?),
            Limiter::ReceiveWindow => drop(setup.path().faults.remove("rcvbuf")?),
            Limiter::Loss => drop(setup.path().faults.remove("loss")?),
            // As long a ring as cards have.
            Limiter::DeviceQueue => {
                setup.path().faults.get("ring")?;
                setup.path().faults.insert("ring", "4096".to_owned());
            }
            Limiter::CongestionWindow => {
                if setup.cell.load.start == healthy.cell.load.start {
                    return None;
                }
                setup.cell.load.start = healthy.cell.load.start;
            }
            Limiter::Pacing => {
                if !matches!(setup.cell.load.pacing, Pacing::AtMost(_)) {
                    return None;
                }
                setup.cell.load.pacing = Pacing::Follow;
            }
            Limiter::LinkRate => {
                let rate = setup.path().rate;
                setup.path().rate = BitRate(rate.0 * 4);
            }
            Limiter::SenderCpu | Limiter::ReceiverCpu | Limiter::TargetQueue | Limiter::RoundTrip => {
                return None;
            }
            // Never in a diagnosis of a run.
            Limiter::PathMtu
            | Limiter::Idle
            | Limiter::Receiving
            | Limiter::AppLimited
            | Limiter::TcpMemory
            | Limiter::WindowScale
            | Limiter::Path
            | Limiter::SenderHost
            | Limiter::ReceiverApplication => return None,
        }
        Some(setup)
    }
}

/// Depth that fills the path with a margin.
fn plenty(product: f64, block_bytes: u64) -> u32 {
    (PLENTY * product / block_bytes as f64).ceil().max(PLENTY_LEAST) as u32
}

/// The largest power of two that is not above `bytes`, within bounds that are powers of two.
fn power_of_two(bytes: f64, least: f64, most: f64) -> u64 {
    bytes.clamp(least, most).log2().floor().exp2() as u64
}

/// One of a few, as the share that was drawn decides.
fn one_of(share: f64, sizes: &[u64]) -> u64 {
    let place = (share * 1000.0) as usize;
    sizes[place % sizes.len()]
}

fn delays(delay: Duration) -> Option<block::Delays> {
    let text = format!("memory:1MiB,delay={}us", delay.as_micros());
    text.parse::<LunSpec>().ok().map(|spec| spec.options.delays)
}
