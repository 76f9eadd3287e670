//! The fix loop: measure, take the verdict, relieve it, measure again.

use diagnosis::steps::StepObservation;
use diagnosis::{Certainty, Diagnosis, Limiter, Performance, Verdict};

/// Most fixes: more mean that a verdict is wrong.
const FIXES_MAX: usize = 8;

/// A load that can be measured and changed.
pub trait Patient {
    /// Error of a measurement.
    type Error;

    /// Runs its load as it is now, in steps, and names its limiter.
    fn examine(&mut self) -> Result<Examined, Self::Error>;

    /// Relieves the limiter of the verdict and returns the change in words, or `None` if the load has no setting for
    /// it.
    fn relieve(&mut self, verdict: &Verdict, current: Performance) -> Option<String>;
}

/// Result of a measurement.
#[derive(Clone, PartialEq, Debug)]
pub struct Examined {
    /// Its loads, in order.
    pub loads: Vec<StepObservation>,
    /// Verdicts.
    pub diagnosis: Diagnosis,
}

/// One measurement, and the change after it.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// Its loads, in order.
    pub loads: Vec<StepObservation>,
    /// Verdicts.
    pub diagnosis: Diagnosis,
    /// Change that followed.
    pub change: Option<Change>,
}

/// A fix and its predicted result.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// Relieved limiter.
    pub limiter: Limiter,
    /// The change in words.
    pub what: String,
    /// Prediction of the verdict; `None` if no evidence bounds that.
    pub predicted: Option<Performance>,
}

/// Reason for the end of the loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Fixes were not requested.
    NotAsked,
    /// The path is the limit: nothing is to be gained.
    Path(Limiter),
    /// The load has no setting for the limiter.
    Elsewhere(Limiter),
    /// The same limiter again, although it was relieved.
    Again(Limiter),
    /// The maximum number of fixes.
    Enough,
}

/// Result of the loop.
#[derive(Clone, PartialEq, Debug)]
pub struct Treatment {
    /// Every measurement, in order; at least one.
    pub steps: Vec<Step>,
    /// Reason for its end.
    pub ending: Ending,
}

/// Measures, and with `fixes` relieves limiters until none is left that could be; `on_step` receives each step.
pub fn treat<P: Patient>(
    patient: &mut P,
    fixes: bool,
    on_step: &mut dyn FnMut(&[Step]),
) -> Result<Treatment, P::Error> {
    let mut steps: Vec<Step> = Vec::new();
    let ending = loop {
        let Examined { loads, diagnosis } = patient.examine()?;
        let first = diagnosis.first().cloned();
        let current = diagnosis.current;
        let tried: Vec<Limiter> =
            steps.iter().filter_map(|step| step.change.as_ref().map(|c| c.limiter)).collect();
        steps.push(Step { loads, diagnosis, change: None });
        let ending = match &first {
            _ if !fixes => Some(Ending::NotAsked),
            None => Some(Ending::Path(Limiter::RoundTrip)),
            Some(verdict) if verdict.limiter.is_final() => Some(Ending::Path(verdict.limiter)),
            Some(verdict) if tried.contains(&verdict.limiter) => Some(Ending::Again(verdict.limiter)),
            Some(_) if tried.len() >= FIXES_MAX => Some(Ending::Enough),
            Some(_) => None,
        };
        let ending = ending.or_else(|| {
            let verdict = first.as_ref()?;
            let Some(what) = patient.relieve(verdict, current) else {
                return Some(Ending::Elsewhere(verdict.limiter));
            };
            let predicted = Some(verdict.predicted).filter(|_| verdict.certainty != Certainty::Unknown);
            let change = Change { limiter: verdict.limiter, what, predicted };
            steps.last_mut().expect("one was pushed").change = Some(change);
            None
        });
        on_step(&steps);
        if let Some(ending) = ending {
            break ending;
        }
    };
    Ok(Treatment { steps, ending })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// Limiters in series, with the share that each leaves; some can be relieved.
    struct Pipe {
        limits: Vec<(Limiter, f64, bool)>,
    }

    impl Pipe {
        fn tightest(&self) -> (Limiter, f64, bool) {
            *self.limits.iter().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap()
        }
    }

    fn at(bytes_per_s: f64) -> Performance {
        Performance { bytes_per_s, latency_s: 1.0 / bytes_per_s }
    }

    impl Patient for Pipe {
        type Error = Infallible;

        fn examine(&mut self) -> Result<Examined, Infallible> {
            let (limiter, rate, _) = self.tightest();
            let rest = self.limits.iter().filter(|limit| limit.0 != limiter).map(|limit| limit.1);
            let verdict = Verdict {
                limiter,
                share: 1.0,
                evidence: Vec::new(),
                predicted: at(rest.fold(1e9, f64::min)),
                certainty: Certainty::Figure,
                next: Limiter::LinkRate,
                remedies: Vec::new(),
            };
            let diagnosis = Diagnosis { current: at(rate), verdicts: vec![verdict], cannot_know: Vec::new() };
            Ok(Examined { loads: Vec::new(), diagnosis })
        }

        fn relieve(&mut self, verdict: &Verdict, _current: Performance) -> Option<String> {
            let limit = self.limits.iter_mut().find(|limit| limit.0 == verdict.limiter && limit.2)?;
            limit.1 = 1e9;
            Some("relieved".to_owned())
        }
    }

    fn check(limits: &[(Limiter, f64, bool)], fixes: bool, found: &[Limiter], ending: Ending) {
        let mut pipe = Pipe { limits: limits.to_vec() };
        let mut count = 0;
        let Ok(treatment) = treat(&mut pipe, fixes, &mut |steps| count = steps.len());
        let firsts: Vec<_> = treatment.steps.iter().map(|step| step.diagnosis.verdicts[0].limiter).collect();
        assert_eq!((firsts.as_slice(), treatment.ending, count), (found, ending, found.len()));
    }

    #[test]
    fn one_limit_after_the_other_until_the_path_is_left() {
        let limits = [
            (Limiter::LinkRate, 100.0, false),
            (Limiter::QueueDepth, 10.0, true),
            (Limiter::QueueLimit, 40.0, true),
        ];
        let all = [Limiter::QueueDepth, Limiter::QueueLimit, Limiter::LinkRate];
        check(&limits, true, &all, Ending::Path(Limiter::LinkRate));
        check(&limits, false, &all[..1], Ending::NotAsked);
    }

    #[test]
    fn what_is_elsewhere_ends_it() {
        let limits = [(Limiter::LinkRate, 100.0, false), (Limiter::StoreLatency, 10.0, false)];
        check(&limits, true, &[Limiter::StoreLatency], Ending::Elsewhere(Limiter::StoreLatency));
    }
}
