//! `farlun top`: activity of the iSCSI connections of this host, of any program. `net::diag` observes them,
//! `analysis::live` interprets the observations.

mod screen;
mod watch;

use std::io::{IsTerminal, stdout};
use std::time::Duration;

use analysis::live::Row;
use event::{Instant, format_delay, parse_delay};
use net::{EndSignals, Events, Interest, Poll, clock};
use report::terminal::{self, Colour};
use serde_json::json;

use crate::exit::{self, Exit};
use screen::{Screen, Wish};
use watch::Watch;

/// Bounds of the refresh interval.
const INTERVALS: std::ops::RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(3600);

const SIGNALS: u64 = 0;
const KEYS: u64 = 1;

/// Watch the iSCSI connections of this host, of any program: windows, round trips, what limits each.
///
/// Connections of tgt, LIO, open-iscsi, farlun and any other, in every network namespace that you may
/// enter; up to a hundred looks a second at each whose window is in use, fewer where there are many.
/// Needs no privilege; without it the processes and namespaces of others are closed. docs/reference/top.md says how
/// to read it. Keys: q quits, s sorts by the next column, p pauses.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  farlun top\n  farlun top --once --json --interval 5s\n  farlun top --port 3260 \
                        --port 3261 --netns /run/netns/storage"
)]
pub(crate) struct TopArgs {
    /// Port that iSCSI targets listen on; may be given several times
    #[arg(long = "port", value_name = "PORT", default_value = "3260",
          value_parser = clap::value_parser!(u16).range(1..))]
    ports: Vec<u16>,
    /// Only the network namespace of this process, or that this file keeps [default: all]
    #[arg(long, value_name = "PID|PATH")]
    netns: Option<String>,
    /// Time between two pictures, and what rates and shares are taken over
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Show what one interval brings, and end
    #[arg(long)]
    once: bool,
    /// Print a JSON document for every interval, one a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: TopArgs) -> anyhow::Result<u8> {
    let TopArgs { mut ports, netns, interval, once, json } = args;
    ports.sort_unstable();
    ports.dedup();
    if ports.len() > watch::PORTS_MAX {
        return Err(Exit::usage(format!("{} ports, expected {} at most", ports.len(), watch::PORTS_MAX)));
    }
    let is_drawn = !once && !json;
    if is_drawn && !stdout().is_terminal() {
        return Err(Exit::usage(
            "standard output is no terminal to draw on: say --once for one picture, --json for a document a line",
        ));
    }
    let signals = EndSignals::take_over()?;
    let poll = Poll::new()?;
    poll.add(std::os::fd::AsFd::as_fd(&signals), SIGNALS, Interest::READ)?;
    let mut watch = Watch::open(ports, netns.as_deref())?;
    let mut screen = if is_drawn { Some(Screen::take(&poll, KEYS)?) } else { None };
    let mut events = Events::new();
    let mut now = clock::now();
    watch.search(now)?;
    let began = now;
    let mut next_show = now + interval;
    loop {
        if let Some(screen) = &mut screen {
            screen.draw(&mut watch)?;
        }
        while now < next_show {
            let until = next_show.min(watch.next_look()).min(watch.next_search());
            poll.wait(&mut events, Some(until.since(now)))?;
            now = clock::now();
            for ready in events.iter() {
                match (ready.token, &mut screen) {
                    (KEYS, Some(screen)) => match screen.keys()? {
                        Wish::None => {}
                        Wish::Redraw => screen.draw(&mut watch)?,
                        Wish::Quit => return Ok(exit::DONE),
                    },
                    _ => return Ok(exit::DONE),
                }
            }
            if now >= watch.next_look() {
                watch.look(now, false)?;
            }
            if now >= watch.next_search() {
                watch.search(now)?;
            }
        }
        watch.look(now, true)?;
        watch.take();
        next_show = Instant::max(next_show + interval, now);
        if screen.is_none() {
            print(&mut watch, now.since(began), json)?;
        }
        if once || !crate::say::is_read() {
            return Ok(exit::DONE);
        }
    }
}

/// One document, or one picture.
fn print(watch: &mut Watch, elapsed: Duration, json: bool) -> anyhow::Result<()> {
    let mut rows = watch.rows().unwrap_or_default().to_vec();
    sort(&mut rows, Sort::Rate);
    if json {
        let document = json!({
            "seconds": elapsed.as_secs_f64(),
            "connections": rows,
            "left_out": watch.left_out(),
            "closed_namespaces": watch.closed_namespaces(),
            "listeners": if rows.is_empty() { watch.listeners()? } else { Vec::new() },
        });
        say!("{document}");
        return Ok(());
    }
    if rows.is_empty() {
        say!("{}", nothing(watch)?);
        return Ok(());
    }
    let width = if stdout().is_terminal() { net::terminal::size().0 } else { usize::MAX / 2 };
    say!("{}", terminal::top(&rows, width, usize::MAX, Colour::on(&stdout())).trim_end());
    Ok(())
}

/// Message for a host without iSCSI connections.
fn nothing(watch: &mut Watch) -> anyhow::Result<String> {
    let ports = watch.ports().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut text = format!("no iSCSI connection: none with port {ports} at either end stands");
    match watch.listeners()?.as_slice() {
        [] => text.push_str("\n  and nothing listens there; other ports: --port"),
        some => text.push_str(&format!("\n  though {} listens", some.join(", "))),
    }
    match watch.closed_namespaces() {
        0 => {}
        closed => text.push_str(&format!("\n  {closed} network namespaces are closed to you: look as root")),
    }
    text.push_str(
        "\n  all connections of this namespace: ss -ti; iSCSI over a Unix socket or RDMA is not seen here",
    );
    Ok(text)
}

/// Sort order of the rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sort {
    Rate,
    RoundTrip,
    Window,
    Cuts,
    Peer,
}

impl Sort {
    const ALL: [Sort; 5] = [Sort::Rate, Sort::RoundTrip, Sort::Window, Sort::Cuts, Sort::Peer];

    const fn name(self) -> &'static str {
        match self {
            Sort::Rate => "rate",
            Sort::RoundTrip => "round trip",
            Sort::Window => "window",
            Sort::Cuts => "cuts",
            Sort::Peer => "peer",
        }
    }

    fn next(self) -> Sort {
        let place = Sort::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Sort::ALL[(place + 1) % Sort::ALL.len()]
    }
}

/// The largest first; peers in order.
fn sort(rows: &mut [Row], by: Sort) {
    let key = |row: &Row| match by {
        Sort::Rate => row.doing.sent_bits_per_s + row.doing.received_bits_per_s,
        Sort::RoundTrip => row.doing.rtt_s,
        Sort::Window => f64::from(row.doing.cwnd_packets) * f64::from(row.doing.mss_bytes),
        Sort::Cuts => row.doing.cuts_total.total() as f64,
        Sort::Peer => 0.0,
    };
    rows.sort_by(|a, b| key(b).total_cmp(&key(a)).then_with(|| (a.peer, a.local).cmp(&(b.peer, b.local))));
}

fn interval(text: &str) -> Result<Duration, String> {
    let time = parse_delay(text).map_err(|error| error.to_string())?;
    match INTERVALS.contains(&time) {
        true => Ok(time),
        false => Err(format!(
            "expected {} to {}",
            format_delay(*INTERVALS.start()),
            format_delay(*INTERVALS.end())
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_has_its_turn() {
        let mut seen = vec![Sort::Rate];
        while seen.len() < 10 {
            seen.push(seen[seen.len() - 1].next());
        }
        assert_eq!(seen[..5], Sort::ALL);
        assert_eq!(seen[5..], Sort::ALL);
    }

    #[test]
    fn an_interval_has_bounds() {
        assert_eq!(interval("2s"), Ok(Duration::from_secs(2)));
        for text in ["1ms", "0", "2h", "soon"] {
            assert!(interval(text).is_err(), "{text}");
        }
    }
}
