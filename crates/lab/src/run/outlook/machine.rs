//! Programs that keep the processors busy before a plan is run, or when its cells are not valid, and the next step.

use std::thread;
use std::time::Duration;

use net::cpu_time::{Busy, IDLE_ENOUGH, INTERRUPTS_BUSY, Look, OTHERS_BUSY_MAX, Usage, is_disturbed};
use tables::manifest::BusyProgram;

/// Length of the measurement: a hundred ticks of 10 ms, for a resolution of a hundredth of a processor.
const INTERVAL: Duration = Duration::from_secs(1);
/// A process below this is not named: two ticks of the interval.
const NAMED_MIN: f64 = 0.02;
/// Programs that a sentence names.
const NAMED: usize = 5;

/// Use of the machine over an interval in which nothing of the lab ran.
#[derive(Clone, PartialEq, Debug)]
pub struct MachineUse(Usage);

/// Measures the load of the machine for a second; `None` if the kernel does not report it.
pub fn look() -> Option<MachineUse> {
    let then = Look::now().ok()?;
    thread::sleep(INTERVAL);
    Some(MachineUse(then.until(&Look::now().ok()?)))
}

impl MachineUse {
    /// Programs that take a noticeable part of a processor, the busiest first.
    pub fn programs(&self) -> Vec<BusyProgram> {
        let named = self.named().take(NAMED);
        named
            .map(|Busy { pid, name, processors }| BusyProgram {
                name: name.clone(),
                pid: *pid,
                processors: (processors * 100.0).round() / 100.0,
            })
            .collect()
    }

    /// Found, expected and the next step, if figures measured now will hardly be valid.
    pub fn trouble(&self) -> Option<String> {
        let Usage { cpus, idle, .. } = self.0;
        let busy = self.others_busy();
        is_disturbed(busy, idle).then(|| {
            format!(
                "other programs keep {busy:.2} of {cpus} processors busy and {idle:.2} are idle, expected at most \
                 {OTHERS_BUSY_MAX} busy or {IDLE_ENOUGH} idle: {}; {}",
                self.words(),
                self.next_step()
            )
        })
    }

    /// The programs and their shares, in words.
    pub fn words(&self) -> String {
        let share = |busy: &Busy| format!("{} (pid {}) {:.2}", busy.name, busy.pid, busy.processors);
        let mut parts: Vec<String> = self.named().take(NAMED).map(share).collect();
        let rest: Vec<&Busy> = self.named().skip(NAMED).collect();
        if !rest.is_empty() {
            let sum: f64 = rest.iter().map(|busy| busy.processors).sum();
            parts.push(format!("{} more {sum:.2}", rest.len()));
        }
        let unseen = self.0.unseen - INTERRUPTS_BUSY;
        if unseen > NAMED_MIN {
            parts.push(format!("processes outside this container {unseen:.2}"));
        }
        if self.0.stolen > NAMED_MIN {
            parts.push(format!("the hypervisor's other guests {:.2}", self.0.stolen));
        }
        if parts.is_empty() { "no program stands out".to_owned() } else { parts.join(", ") }
    }

    fn next_step(&self) -> &'static str {
        match self.named().next() {
            Some(_) => {
                "end them or wait for them, or give --validity off for figures that are marked as unvalidated"
            }
            None => {
                "use a quieter machine, or give --validity off for figures that are marked as unvalidated"
            }
        }
    }

    fn others_busy(&self) -> f64 {
        let seen: f64 = self.0.busy.iter().map(|busy| busy.processors).sum();
        seen + (self.0.unseen - INTERRUPTS_BUSY).max(0.0) + self.0.stolen
    }

    fn named(&self) -> impl Iterator<Item = &Busy> {
        self.0.busy.iter().filter(|busy| busy.processors >= NAMED_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(idle: f64, busy: &[(&str, f64)]) -> MachineUse {
        let busy = busy.iter().enumerate().map(|(n, (name, processors))| Busy {
            pid: 100 + n as u32,
            name: (*name).to_owned(),
            processors: *processors,
        });
        MachineUse(Usage { cpus: 2, idle, stolen: 0.0, unseen: 0.0, busy: busy.collect() })
    }

    #[test]
    fn a_busy_machine_is_named_program_by_program_with_what_to_do() {
        let text = used(0.1, &[("rustc", 0.98), ("chrome", 0.41), ("idle", 0.001)]).trouble().unwrap();
        assert_eq!(
            text,
            "other programs keep 1.39 of 2 processors busy and 0.10 are idle, expected at most 0.25 busy or 1 idle: \
             rustc (pid 100) 0.98, chrome (pid 101) 0.41; end them or wait for them, or give --validity off for figures \
             that are marked as unvalidated"
        );
        let many =
            used(0.0, &[("a", 0.3), ("b", 0.3), ("c", 0.3), ("d", 0.3), ("e", 0.3), ("f", 0.2), ("g", 0.1)]);
        assert!(many.words().ends_with("e (pid 104) 0.30, 2 more 0.30"), "{}", many.words());
        assert_eq!(many.programs().len(), 5);
    }

    #[test]
    fn an_idle_processor_or_a_quarter_is_no_trouble() {
        assert_eq!(used(1.0, &[("spin", 1.0)]).trouble(), None);
        assert_eq!(used(0.9, &[("top", 0.2)]).trouble(), None);
    }

    #[test]
    fn a_machine_that_somebody_else_keeps_busy_has_nobody_to_end() {
        let guest = MachineUse(Usage { stolen: 0.7, ..used(0.2, &[]).0 });
        let text = guest.trouble().unwrap();
        assert!(text.contains("the hypervisor's other guests 0.70; use a quieter machine"), "{text}");
        let container = MachineUse(Usage { unseen: 1.3, ..used(0.2, &[]).0 });
        assert!(container.words().contains("outside this container 0.80"), "{}", container.words());
        assert_eq!(used(2.0, &[]).words(), "no program stands out");
    }
}
