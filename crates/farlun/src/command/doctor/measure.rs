//! One measurement of a load on a target: the steps that a plan asks for, one after the other, each with sessions of its own.

use std::time::{Duration, Instant};

use analysis::doctor::steps::StepNote;
use anyhow::Context;
use diagnosis::steps::{StepEnd, StepLoad, StepObservation, StepPlan, StepRole, diagnose};
use event::{Bytes, format_delay};
use initiator::{Cut, Reception};
use lab::Pacing;
use lab::doctor::{Examined, Ran};
use proto::params::Wishes;

use super::live::Live;
use crate::command::bench;
use crate::session::{close, open_many};

impl Live<'_> {
    /// Runs the load as it is now, and the steps that determine its limit.
    pub(super) fn measure(&mut self) -> anyhow::Result<Examined> {
        self.measurements += 1;
        let asked = self.asked();
        let mut plan = StepPlan::new(asked, self.caller.block_most_bytes, self.is_gentle);
        self.announce(&plan);
        let most = self.pace.most(plan.steps_most() - 1);
        let mut spent = Duration::ZERO;
        while let Some(load) = plan.next_load() {
            // Requests that are outstanding at a step's end are waited for.
            let slow = plan.slow_s(load).map(Duration::from_secs_f64);
            if load.role != StepRole::Nominal
                && spent + self.pace.whole(load.role) + slow.unwrap_or_default() > most
            {
                break;
            }
            let began = Instant::now();
            match self.step(load, slow) {
                Ok(observation) => plan.observe(observation),
                Err(error) if load.role == StepRole::Nominal => return Err(error),
                Err(error) => {
                    note!("farlun: the step with {} could not be run: {error:#}", words(load));
                    plan.cannot(load);
                }
            }
            if load.role != StepRole::Nominal {
                spent += began.elapsed();
            }
        }
        let diagnosis = diagnose(plan.seen()).context("the requested load was not measured")?;
        Ok(Examined { loads: plan.seen().to_vec(), diagnosis })
    }

    /// Prints the planned steps and their duration before they begin.
    fn announce(&self, plan: &StepPlan) {
        let asked = self.asked();
        let steps = plan.steps_most() - 1;
        let most = format_delay(Duration::from_secs(self.pace.most(steps).as_secs_f64().ceil() as u64));
        let whole =
            format_delay(Duration::from_secs(self.pace.whole(StepRole::Nominal).as_secs_f64().ceil() as u64));
        let bounds = match self.is_gentle {
            true => "none has more outstanding than that".to_owned(),
            false => format!(
                "those above it end when a request takes {} times as long as one alone or the target has no room; \
                 --gentle leaves them out",
                diagnosis::steps::SLOW
            ),
        };
        note!(
            "farlun: {} for {whole}, and up to {steps} steps of {} each, {most} at most, beginning with one request at a time; {bounds}",
            words(asked),
            format_delay(Duration::from_millis(self.pace.whole(StepRole::More).as_millis() as u64)),
        );
    }

    /// Runs one step in sessions of its own.
    fn step(&mut self, load: StepLoad, patience: Option<Duration>) -> anyhow::Result<StepObservation> {
        self.prepare(load);
        self.options.trace = Some(self.record.next()?);
        let mut disks = open_many(self.url, &self.options, load.sessions as usize)?;
        let shape = self.shape(load, disks[0].len_bytes(), patience);
        let (mut near, cut) = bench::cut_short(&mut disks, shape)?;
        let mut received = Reception::default();
        for disk in disks {
            let Reception { window_bytes, behind_gap_packets } = disk.session().reception();
            received.window_bytes += window_bytes;
            received.behind_gap_packets += behind_gap_packets;
            near.trace = close(disk)?;
        }
        let ns = Duration::from_nanos;
        let counted = near.t_end_ns - near.t_start_ns.saturating_add(near.warmup_ns).min(near.t_end_ns);
        let note = StepNote {
            measurement: self.measurements,
            load,
            end: match cut {
                None => StepEnd::Whole,
                Some(Cut::Slow) => StepEnd::Slow,
                Some(Cut::Refused) => StepEnd::Refused,
            },
            window_bytes: received.window_bytes,
            behind_gap_packets: received.behind_gap_packets,
        };
        let ran = Ran {
            command: self.command(load),
            window: (ns(near.warmup_ns), ns(counted)),
            near: serde_json::to_value(&near)
                .context("internal error: cannot encode the result of the load as JSON; please report it")?,
            note,
        };
        Ok(self.record.ran(ran)?)
    }

    /// Sets the options of its sessions as the caller has them now.
    fn prepare(&mut self, load: StepLoad) {
        let caller = self.caller;
        let options = &mut self.options;
        options.depth = load.depth.map(|depth| depth as usize);
        options.queue_limit = caller.queue_limit.map(|limit| limit as usize);
        options.connections = Some(caller.connections as u16);
        if !caller.has_small_bursts {
            let Wishes { initial_r2t, max_burst_len, first_burst_len, max_outstanding_r2t, .. } =
                Wishes::default();
            options.wishes = Wishes {
                initial_r2t,
                max_burst_len,
                first_burst_len,
                max_outstanding_r2t,
                ..options.wishes.clone()
            };
        }
        options.pacing = match caller.pacing {
            Pacing::Follow => engine::Pacing::Follow,
            Pacing::AtMost(rate) => engine::Pacing::AtMost(rate),
            Pacing::Off => engine::Pacing::Off,
        };
    }
}

/// A load in words.
fn words(load: StepLoad) -> String {
    let block = Bytes(load.request_bytes);
    let requests = match load.depth {
        Some(1) => format!("1 request of {block}"),
        Some(depth) => format!("{depth} requests of {block}"),
        None => format!("as many requests of {block} as the path takes"),
    };
    match load.sessions {
        1 => requests,
        sessions => format!("{requests} in each of {sessions} sessions"),
    }
}
