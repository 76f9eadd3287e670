//! 1 MiB reads and writes of a LUN in memory: beside `farlun stream` that sends from a buffer as large as the LUN, which
//! shows the cost of iSCSI over the bare copy through loopback TCP, or beside another build's.

use std::time::Duration;

use anyhow::{Context, Result};
use e2e::Service;
use e2e::ours::Target;

use crate::bench::length::Length;
use crate::bench::program::{Build, Document, next_line};
use crate::bench::rounds::{Figure, Load, Plan, Series, Side, alternate, head, row};

const SIZE: &str = "1GiB";
const SIZE_BYTES: u64 = 1 << 30;
const BLOCK_BYTES: f64 = 1048576.0;
/// Least ratio to the stream's rate, by operation.
const RATIO_MIN: [(&str, f64); 2] = [("read", 0.8), ("write", 0.7)];
const READY: Duration = Duration::from_secs(20);

/// A far end and the build that loads it.
struct Far {
    near: Build,
    kind: Kind,
}

enum Kind {
    Iscsi(Target),
    Stream { address: String, _service: Service },
}

pub(super) fn run(length: Length) -> Result<bool> {
    let Plan { rounds, seconds } = length.plan(7, 5);
    let build = Build::current();
    let sides = [Side::new("iSCSI", || Far::iscsi(&build)), Side::new("stream", || Far::stream(&build))];
    let series = alternate(rounds, &sides, &loads(seconds))?;
    let title = format!(
        "1 MiB requests at depth 8 beside farlun stream, LUN and buffer of {SIZE}, {rounds} rounds of {seconds} s"
    );
    head(&title, ["iSCSI", "stream"]);
    Ok(series.iter().fold(true, |good, series| row(series) & good))
}

pub(super) fn against(builds: &[Build; 2], plan: Plan) -> Result<Vec<Series>> {
    let sides = builds.each_ref().map(|build| Side::new(build.name(), || Far::iscsi(build)));
    alternate(plan.rounds, &sides, &loads(plan.seconds))
}

/// Loads of `seconds` and their figures.
fn loads<'a>(seconds: u32) -> Vec<Load<'a, Far>> {
    let load = |(op, ratio_min): (&'static str, f64)| {
        let figures = vec![
            Figure::rate(format!("{op}, MB/s"), 0).bound(ratio_min),
            Figure::cost(format!("{op}, CPU of both ends in ns per KiB"), 1),
        ];
        Load::new(figures, move |far: &Far| far.measure(op, seconds))
    };
    RATIO_MIN.map(load).into()
}

impl Far {
    fn iscsi(near: &Build) -> Result<Far> {
        let target = near.target(&[&format!("memory:{SIZE}")])?;
        near.fill(&target.url(0), SIZE_BYTES)?;
        Ok(Far { near: near.clone(), kind: Kind::Iscsi(target) })
    }

    fn stream(near: &Build) -> Result<Far> {
        let mut command = near.command(["stream", "serve", "--json", "--listen", "127.0.0.1:0"]);
        let mut service = Service::start(&mut command);
        let ready = Document::parse(&command, &next_line(&mut service, &command, READY)?)?;
        let address = ready.value()["addresses"][0].as_str();
        let address = address.context("`farlun stream serve` names no address")?.to_owned();
        Ok(Far { near: near.clone(), kind: Kind::Stream { address, _service: service } })
    }

    /// MB/s, and CPU time of both ends in ns per KiB.
    fn measure(&self, op: &'static str, seconds: u32) -> Result<Vec<f64>> {
        let time = format!("{seconds}s");
        match &self.kind {
            Kind::Iscsi(target) => {
                let url = target.url(0);
                let args = ["bench", &url, "--json", "--block", "1MiB", "--depth", "8", "--time", &time];
                let document = self.near.document(&[&args[..], &self.near.op(op)].concat(), seconds)?;
                let ns_per_io =
                    document.number("/cpu/near_ns_per_io")? + document.number("/cpu/far_ns_per_io")?;
                Ok(vec![document.number("/bytes_per_s")? / 1e6, ns_per_io / BLOCK_BYTES * 1024.0])
            }
            Kind::Stream { address, .. } => {
                let args = ["stream", address, "--json", "--buffer", SIZE, "--time", &time];
                let document = self.near.document(&args, seconds)?;
                let cpu_ns = document.number("/cpu/near_ns")? + document.number("/cpu/far_ns")?;
                let bytes = document.number("/bytes")?;
                Ok(vec![document.number("/bytes_per_s")? / 1e6, cpu_ns / bytes * 1024.0])
            }
        }
    }
}
