//! Steps against a queueing model in virtual time: a plan runs on a path with known limiters, and every verdict is held to the
//! model without the limiter that it names.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{StepEnd, StepLoad, StepObservation, StepPlan, StepRole, diagnose};
use crate::facts::{Concurrency, Facts, PathFacts, PerEnd, StageTimes, TcpReceiver};
use crate::limiter::Limiter;
use crate::performance::Performance;
use crate::verdict::{Certainty, Diagnosis, Verdict};

const KIB: u64 = 1024;
/// Requests that a run completes for each one outstanding.
const ROUNDS: usize = 6;

/// A path and a target: reads pass a store, a connection, and a line that all sessions share.
#[derive(Clone, Copy, Debug)]
struct System {
    rtt_s: f64,
    /// Bytes per second of the line.
    line: f64,
    /// Window of each connection, in bytes.
    window_bytes: Option<f64>,
    /// Packets behind gaps: the window of each connection is cut by losses.
    is_lossy: bool,
    /// Time that the store takes for each request, any number at a time.
    store_s: f64,
    /// Bytes per second of a store that serves one request after the other.
    store: Option<f64>,
    /// The sender keeps the queue before the line short: requests wait in its own.
    is_paced: bool,
    /// Commands that a session may have open.
    commands: Option<u32>,
}

const OPEN: System = System {
    rtt_s: 0.02,
    line: 25e6,
    window_bytes: None,
    is_lossy: false,
    store_s: 0.0,
    store: None,
    is_paced: false,
    commands: None,
};

/// Stations of a request; each of the first three serves one at a time.
const STORE: usize = 0;
const CONNECTION: usize = 1;
const LINE: usize = 2;
const DONE: usize = 3;

/// One request on its way, in nanoseconds.
#[derive(Clone, Copy, Default)]
struct Way {
    session: usize,
    called: u64,
    granted: u64,
    first: u64,
    at_line: u64,
    on_line: u64,
}

impl System {
    /// Bytes per second that a connection carries by its window.
    fn connection(&self) -> Option<f64> {
        self.window_bytes.map(|window| window / self.rtt_s)
    }

    /// Runs a load until it has completed as many requests as make a mean.
    fn run(&self, load: StepLoad) -> StepObservation {
        let depth = load.depth.unwrap_or(1) as usize;
        let (sessions, bytes) = (load.sessions as usize, load.request_bytes as f64);
        let all = depth * sessions;
        let open = self.commands.map_or(depth, |most| (most as usize).min(depth));
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        let half = ns(self.rtt_s / 2.0);
        let time = [
            self.store.map_or(0, |rate| ns(bytes / rate)),
            self.connection().map_or(0, |rate| ns(bytes / rate)),
            ns(bytes / self.line),
        ];
        let mut free = vec![[0u64; 3]; sessions];
        let mut ways = vec![Way::default(); all];
        let mut events = BinaryHeap::new();
        let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); sessions];
        for (number, way) in ways.iter_mut().enumerate() {
            way.session = number % sessions;
            if number / sessions < open {
                events.push(Reverse((half, STORE, number)));
            } else {
                waiting[way.session].push(number);
            }
        }
        let (mut done, wanted) = (0, (all * ROUNDS).max(200));
        let (mut latency, mut granted, mut spread, mut first, mut queue) = (0.0, 0.0, 0.0, 0.0, 0.0);
        let (mut begun, mut counted) = (0, 0.0);
        while let Some(Reverse((now, station, number))) = events.pop() {
            if station == DONE {
                done += 1;
                let way = ways[number];
                if done == wanted / 2 {
                    begun = now;
                } else if done > wanted / 2 {
                    counted += 1.0;
                    latency += (now - way.called) as f64;
                    granted += (now - way.granted) as f64;
                    first += (way.first + half - way.granted) as f64;
                    spread += (now - half - way.first) as f64;
                    queue += (way.on_line - way.at_line) as f64;
                }
                if done == wanted {
                    return self.observation(
                        load,
                        [latency, granted, first, spread, queue].map(|sum| sum / counted / 1e9),
                        counted * bytes / ((now - begun) as f64 / 1e9),
                    );
                }
                // A request of the same session that waits for the command window goes first.
                let next =
                    if waiting[way.session].is_empty() { number } else { waiting[way.session].remove(0) };
                if next != number {
                    waiting[way.session].push(number);
                    ways[number].called = now;
                } else {
                    ways[number].called = now;
                }
                ways[next].granted = now;
                events.push(Reverse((now + half, STORE, next)));
                continue;
            }
            let way = &mut ways[number];
            // The store and the line are everybody's, a connection is its session's.
            let owner = if station == CONNECTION { way.session } else { 0 };
            // A window lets go as many bytes at once, and again when they are acknowledged, a round trip later.
            let at_once = if station == CONNECTION { ns(self.rtt_s) } else { 0 };
            let before = free[owner][station];
            let begins = now.max(before.saturating_sub(at_once));
            free[owner][station] = now.max(before) + time[station];
            let ends = now.max(free[owner][station].saturating_sub(at_once));
            match station {
                STORE => events.push(Reverse((ends + ns(self.store_s), CONNECTION, number))),
                CONNECTION => {
                    way.first = begins;
                    events.push(Reverse((ends, LINE, number)));
                }
                _ => {
                    (way.at_line, way.on_line) = (now, begins);
                    if time[CONNECTION] == 0 {
                        way.first = begins;
                    }
                    events.push(Reverse((ends + half, DONE, number)));
                }
            }
        }
        unreachable!("a closed system never runs empty")
    }

    fn observation(&self, load: StepLoad, means: [f64; 5], rate: f64) -> StepObservation {
        let [latency_s, granted_s, first_s, spread_s, queue_s] = means;
        let requests = rate / load.request_bytes as f64;
        let queue_s = if self.is_paced { 0.0 } else { queue_s };
        let facts = Facts {
            requests: 1000,
            request_bytes: load.request_bytes as f64,
            current: Performance { bytes_per_s: rate, latency_s },
            path: PathFacts {
                rtt_s: Some(self.rtt_s),
                loaded_rtt_s: Some(self.rtt_s + queue_s),
                line_bytes_per_s: Some(rate),
                ..PathFacts::default()
            },
            sessions: load.sessions.into(),
            connections: load.sessions.into(),
            outstanding: Concurrency {
                called: requests * latency_s,
                queued: requests * latency_s,
                granted: requests * granted_s,
                ..Concurrency::default()
            },
            stages: StageTimes {
                first_data: Some(first_s),
                data_spread: Some(spread_s),
                ..StageTimes::default()
            },
            receiver: TcpReceiver {
                window_bytes: self.window_bytes.filter(|_| !self.is_lossy).or(Some(1e9)),
                behind_gap_packets: Some(if self.is_lossy { 500.0 } else { 0.0 }),
                ..TcpReceiver::default()
            },
            loops: crate::facts::LoopFacts {
                idle: PerEnd { near: Some(0.8), far: None },
                cpu: PerEnd::default(),
            },
            ..Facts::default()
        };
        StepObservation { load, facts, end: StepEnd::Whole, counted_s: 1.0 }
    }

    /// The same without a limiter; `None` where that names none of it.
    fn without(self, limiter: Limiter) -> System {
        match limiter {
            Limiter::ReceiveWindow | Limiter::SendBuffer | Limiter::Loss => {
                System { window_bytes: None, is_lossy: false, ..self }
            }
            // A store that serves one request after the other is slow for one alone, too.
            Limiter::StoreLatency | Limiter::StoreBandwidth | Limiter::TargetQueue => {
                System { store_s: 0.0, store: None, ..self }
            }
            Limiter::CommandWindow => System { commands: None, ..self },
            _ => self,
        }
    }
}

/// Asks a system with a plan, as an instrument does: a step that is slow ends.
fn ask(system: System, depth: u32, request_bytes: u64, is_gentle: bool) -> StepPlan {
    let asked = StepLoad { role: StepRole::Nominal, sessions: 1, depth: Some(depth), request_bytes };
    let mut plan = StepPlan::new(asked, 1 << 20, is_gentle);
    for _ in 0..=plan.steps_most() {
        let Some(load) = plan.next_load() else { return plan };
        let slow_s = plan.slow_s(load);
        let mut observation = system.run(load);
        if slow_s.is_some_and(|slow_s| observation.latency_s() > slow_s) {
            // A gap closes at its first packet: the packets held behind it are counted within a short time.
            observation.end = StepEnd::Slow;
            observation.counted_s = 2.0 * observation.latency_s();
            observation.facts.current.bytes_per_s *= 1.3;
        }
        plan.observe(observation);
    }
    panic!("more steps than the plan says: {:?}", plan.seen().iter().map(|s| s.load).collect::<Vec<_>>())
}

fn judged(plan: &StepPlan) -> Diagnosis {
    diagnose(plan.seen()).expect("the load that was asked for was run")
}

/// Rate of the nominal load without a limiter.
fn relieved(system: System, limiter: Limiter, depth: u32, request_bytes: u64) -> f64 {
    let load = |depth| StepLoad { role: StepRole::Nominal, sessions: 1, depth: Some(depth), request_bytes };
    match limiter {
        Limiter::QueueDepth => {
            let most = (1024.0_f64).min((128 << 20) as f64 / request_bytes as f64) as u32;
            system.run(load(most.max(depth))).rate()
        }
        limiter => system.without(limiter).run(load(depth)).rate(),
    }
}

/// The first verdict by intervention: its removal gains, or nothing does and the line is named; the prediction is the rate that follows.
/// `None` if all of that holds.
fn wrong(system: System, depth: u32, request_bytes: u64) -> Option<String> {
    let plan = ask(system, depth, request_bytes, false);
    let diagnosis = judged(&plan);
    let first = diagnosis.first().expect("a verdict");
    let now = diagnosis.current.bytes_per_s;
    let gain = relieved(system, first.limiter, depth, request_bytes) / now;
    let all = [
        Limiter::QueueDepth,
        Limiter::ReceiveWindow,
        Limiter::StoreLatency,
        Limiter::StoreBandwidth,
        Limiter::CommandWindow,
    ];
    let most = all.map(|l| relieved(system, l, depth, request_bytes) / now).into_iter().fold(1.0, f64::max);
    let predicted = first.gain(diagnosis.current);
    let best = plan.seen().iter().map(StepObservation::rate).fold(0.0, f64::max);
    let is_beyond = |verdict: &Verdict| {
        let is_line_seen = matches!(verdict.limiter, Limiter::StoreBandwidth | Limiter::TargetQueue);
        verdict.certainty != Certainty::Unknown
            && !is_line_seen
            && verdict.predicted.bytes_per_s > 1.01 * best
    };
    let problem = match first.certainty {
        _ if diagnosis.verdicts.iter().any(is_beyond) => "beyond all evidence",
        // A store that takes a quarter of a round trip is no longer than wake-ups of the hosts.
        _ if first.limiter.is_final() && most >= 1.35 => "not the line",
        _ if !first.limiter.is_final() && gain < 1.1 => "nothing gained",
        Certainty::Figure if gain >= 1.25 && !(0.8..=1.25).contains(&(predicted / gain)) => "another figure",
        Certainty::AtLeast if predicted > 1.25 * gain => "more than followed",
        _ => return None,
    };
    let steps: String = plan
        .seen()
        .iter()
        .map(|s| {
            let load = s.load;
            format!(
                "\n  {} {}×{:.0} {}: {:.3} MB/s {:.2} ms {}",
                load.role.name(),
                load.sessions,
                s.outstanding(),
                load.request_bytes,
                s.rate() / 1e6,
                s.latency_s() * 1e3,
                s.end.name()
            )
        })
        .collect();
    let verdicts: String = diagnosis
        .verdicts
        .iter()
        .map(|v| {
            format!("\n  → {} {:?} {:.3} MB/s", v.limiter.name(), v.certainty, v.predicted.bytes_per_s / 1e6)
        })
        .collect();
    Some(format!(
        "{problem}: {system:?} depth {depth} × {request_bytes}: said ×{predicted:.2}, gains ×{gain:.2} of ×{most:.2}{steps}{verdicts}\n"
    ))
}

#[test]
fn first_verdicts_are_right_by_intervention() {
    let (mut all, mut wrongs) = (0, Vec::new());
    for rate in [6.25e6, 25e6, 125e6, 625e6] {
        for rtt_s in [0.0002, 0.002, 0.02, 0.2] {
            let bare = System { rtt_s, line: rate, ..OPEN };
            let window_bytes = Some((rate * rtt_s / 6.0).max(3000.0));
            let systems = [
                bare,
                System { is_paced: true, ..bare },
                System { window_bytes, ..bare },
                System { window_bytes, is_lossy: true, ..bare },
                System { store_s: 0.03, ..bare },
                System { store: Some(rate / 5.0), ..bare },
            ];
            for depth in [1, 4, 16, 128] {
                for request_bytes in [4 * KIB, 64 * KIB, 1024 * KIB] {
                    let found = systems.iter().map(|system| wrong(*system, depth, request_bytes));
                    all += systems.len();
                    wrongs.extend(found.flatten());
                }
            }
        }
    }
    assert!(wrongs.is_empty(), "{} of {all} are wrong\n{}", wrongs.len(), wrongs.concat());
}

#[test]
fn limiters_have_their_names() {
    let name = |system, depth, bytes| judged(&ask(system, depth, bytes, false)).verdicts[0].limiter;
    let full = OPEN;
    // 25 MB/s × 20 ms are eight requests of 64 KiB.
    assert_eq!(name(full, 64, 64 * KIB), Limiter::LinkRate);
    assert_eq!(name(System { is_paced: true, ..full }, 64, 64 * KIB), Limiter::LinkRate);
    assert_eq!(name(full, 2, 64 * KIB), Limiter::QueueDepth);
    assert_eq!(name(full, 1, 4 * KIB), Limiter::QueueDepth);
    let window_bytes = Some(100e3);
    assert_eq!(name(System { window_bytes, ..full }, 64, 64 * KIB), Limiter::ReceiveWindow);
    assert_eq!(name(System { window_bytes, is_lossy: true, ..full }, 64, 64 * KIB), Limiter::Loss);
    assert_eq!(name(System { store_s: 0.05, ..full }, 4, 64 * KIB), Limiter::StoreLatency);
    assert_eq!(name(System { store: Some(5e6), ..full }, 64, 64 * KIB), Limiter::StoreBandwidth);
    assert_eq!(name(System { commands: Some(2), ..full }, 64, 64 * KIB), Limiter::CommandWindow);
}

#[test]
fn a_gentle_plan_never_passes_what_was_asked_for() {
    for (depth, bytes) in [(1, 4 * KIB), (8, 64 * KIB), (64, 64 * KIB), (256, 4 * KIB)] {
        for system in
            [OPEN, System { window_bytes: Some(100e3), ..OPEN }, System { store: Some(5e6), ..OPEN }]
        {
            let plan = ask(system, depth, bytes, true);
            for step in plan.seen() {
                let outstanding = step.outstanding() * step.load.request_bytes as f64;
                assert!(outstanding <= f64::from(depth) * bytes as f64, "{:?}", step.load);
            }
            assert!(!judged(&plan).verdicts.is_empty());
        }
    }
    // Nothing bounds the rate of more requests.
    let few = judged(&ask(OPEN, 2, 64 * KIB, true));
    assert_eq!(
        (few.verdicts[0].limiter, few.verdicts[0].certainty),
        (Limiter::QueueDepth, Certainty::Unknown)
    );
    let full = judged(&ask(OPEN, 64, 64 * KIB, true));
    assert_eq!(full.verdicts[0].limiter, Limiter::LinkRate);
}

#[test]
fn a_plan_begins_low_and_ends_where_requests_are_slow_or_refused() {
    let mut plan = ask(OPEN, 4, 64 * KIB, false);
    assert_eq!(plan.seen()[0].load.depth, Some(1));
    for step in plan.seen().iter().filter(|step| step.load.role == StepRole::More) {
        assert!(step.latency_s() <= 5.0 * plan.seen()[0].latency_s(), "{step:?}");
    }
    // A target without room ends the way up.
    let asked = StepLoad { role: StepRole::Nominal, sessions: 1, depth: Some(2), request_bytes: 4096 };
    plan = StepPlan::new(asked, 1 << 20, false);
    while let Some(load) = plan.next_load() {
        let mut step = OPEN.run(load);
        if load.role == StepRole::More {
            step.end = StepEnd::Refused;
        }
        plan.observe(step);
    }
    assert_eq!(plan.seen().iter().filter(|step| step.load.role == StepRole::More).count(), 1);
}

#[test]
fn longer_requests_are_slow_by_the_bytes_outstanding() {
    let line = System { rtt_s: 0.0002, line: 5.9e6, is_paced: true, ..OPEN };
    let plan = ask(line, 256, 4 * KIB, false);
    let asked = plan.seen().iter().find(|step| step.load.role == StepRole::Nominal).expect("the load");
    let longer = plan.seen().iter().find(|step| step.load.role == StepRole::Longer).expect("longer requests");
    let slow_s = plan.slow_s(longer.load).expect("a bound");
    assert!(slow_s <= 4.1 * asked.latency_s(), "{slow_s} s for requests of {} s", asked.latency_s());
    assert_eq!(longer.end, StepEnd::Whole);
}

#[test]
fn a_step_that_cannot_be_run_is_left_out() {
    let asked = StepLoad { role: StepRole::Nominal, sessions: 1, depth: Some(64), request_bytes: 64 * KIB };
    let mut plan = StepPlan::new(asked, 1 << 20, false);
    let system = System { window_bytes: Some(100e3), ..OPEN };
    while let Some(load) = plan.next_load() {
        match load.role {
            StepRole::Spread => plan.cannot(load),
            _ => plan.observe(system.run(load)),
        }
    }
    assert!(plan.seen().iter().all(|step| step.load.role != StepRole::Spread));
    assert!(!judged(&plan).verdicts.is_empty());
}
