//! Score of the doctor: right verdicts by measured gains, and confusions.

use std::collections::BTreeMap;

use diagnosis::{Diagnosis, Limiter, Performance};
use serde::Serialize;
use tables::manifest::{Check, Comparison};

use super::setup::Aim;

/// Share of the best gain that a right verdict reaches.
const RELIEF_SHARE: f64 = 0.8;
/// Smallest gain; those below are noise, and nothing is to be gained.
const GAIN_LEAST: f64 = 0.15;
/// Predicted ÷ measured.
const PREDICTED: (f64, f64) = (0.8, 1.25);

/// One case of one limiter.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Single {
    pub(super) name: String,
    /// Injected limiter, and the share of performance that it was to leave.
    pub(super) injected: Limiter,
    pub(super) leaves: f64,
    pub(super) aim: Aim,
    pub(super) measured: Performance,
    /// Performance after the relief of each setting alone.
    pub(super) relieved: BTreeMap<Limiter, Performance>,
    pub(super) diagnosis: Diagnosis,
}

/// Two limiters, fixed one after the other by the verdicts.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Pair {
    pub(super) name: String,
    pub(super) injected: [Limiter; 2],
    pub(super) leaves: [f64; 2],
    pub(super) aim: Aim,
    /// Before anything was fixed, after the first fix, and after the second.
    pub(super) steps: Vec<Diagnosis>,
}

/// A prediction and its ratio to the measured result.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Prediction {
    pub(super) name: String,
    pub(super) limiter: Limiter,
    /// Predicted ÷ measured.
    pub(super) ratio: f64,
}

/// Everything.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(super) struct Score {
    pub(super) singles: Vec<Single>,
    pub(super) pairs: Vec<Pair>,
}

impl Aim {
    /// Value of a performance; more is better.
    fn value(self, performance: Performance) -> f64 {
        match self {
            Aim::Throughput => performance.bytes_per_s,
            Aim::Latency => 1.0 / performance.latency_s.max(1e-9),
        }
    }
}

impl Single {
    /// Relative gain without `limiter`; 0 if it changes nothing or was not tried.
    pub(super) fn gain(&self, limiter: Limiter) -> f64 {
        let before = self.aim.value(self.measured).max(f64::MIN_POSITIVE);
        self.relieved.get(&limiter).map_or(0.0, |after| self.aim.value(*after) / before - 1.0)
    }

    /// The setting with the largest gain.
    pub(super) fn best(&self) -> Option<(Limiter, f64)> {
        let gains = self.relieved.keys().map(|limiter| (*limiter, self.gain(*limiter)));
        gains.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, gain)| *gain >= GAIN_LEAST)
    }

    /// First limiter of the diagnosis.
    pub(super) fn verdict(&self) -> Limiter {
        self.diagnosis.first().map_or(Limiter::RoundTrip, |verdict| verdict.limiter)
    }

    /// True if the verdict is right by the measured gains.
    pub(super) fn is_right(&self) -> bool {
        match self.best() {
            Some((_, best)) => self.gain(self.verdict()) >= RELIEF_SHARE * best,
            None => self.verdict().is_final(),
        }
    }

    fn prediction(&self) -> Option<Prediction> {
        let verdict = self.diagnosis.first()?;
        let after = self.relieved.get(&verdict.limiter).filter(|_| !verdict.limiter.is_final())?;
        let ratio = self.aim.value(verdict.predicted) / self.aim.value(*after);
        Some(Prediction { name: self.name.clone(), limiter: verdict.limiter, ratio })
    }
}

impl Pair {
    /// First verdict, and the one after the fix.
    pub(super) fn verdicts(&self) -> Vec<Limiter> {
        self.steps.iter().filter_map(|step| step.first()).map(|verdict| verdict.limiter).collect()
    }

    /// True if the first verdict was one of the two, and the next one the other.
    pub(super) fn is_right(&self) -> bool {
        let is_one = |verdict: Limiter, limiter: Limiter| verdict == limiter || is_same(verdict, limiter);
        let [a, b] = self.injected;
        match self.verdicts()[..] {
            [first, then, ..] => is_one(first, a) && is_one(then, b) || is_one(first, b) && is_one(then, a),
            _ => false,
        }
    }

    fn predictions(&self) -> Vec<Prediction> {
        let steps = self.steps.windows(2).enumerate();
        let predicted = steps.filter_map(|(n, pair)| {
            let verdict = pair[0].first().filter(|verdict| !verdict.limiter.is_final())?;
            let ratio = self.aim.value(verdict.predicted) / self.aim.value(pair[1].current);
            Some(Prediction {
                name: format!("{}, fix {}", self.name, n + 1),
                limiter: verdict.limiter,
                ratio,
            })
        });
        predicted.collect()
    }
}

/// Two names of one thing: Nagle's algorithm holds back a status that comes by itself, and either cures it.
fn is_same(verdict: Limiter, injected: Limiter) -> bool {
    (verdict, injected) == (Limiter::SeparateStatus, Limiter::Nagle)
}

impl Score {
    /// Every prediction that a fix put to the test.
    pub(super) fn predictions(&self) -> Vec<Prediction> {
        let singles = self.singles.iter().filter_map(Single::prediction);
        singles.chain(self.pairs.iter().flat_map(Pair::predictions)).collect()
    }

    /// Confusion table: number of cases by injected and named limiter.
    pub(super) fn confusion(&self) -> BTreeMap<(Limiter, Limiter), u32> {
        let mut table = BTreeMap::new();
        for single in &self.singles {
            *table.entry((single.injected, single.verdict())).or_insert(0) += 1;
        }
        table
    }

    /// Right ones of all: single limiters, pairs, predictions.
    pub(super) fn right(&self) -> [(usize, usize); 3] {
        let predictions = self.predictions();
        let is_near = |p: &&Prediction| (PREDICTED.0..=PREDICTED.1).contains(&p.ratio);
        let right = self.singles.iter().filter(|single| single.is_right()).count();
        let both = self.pairs.iter().filter(|pair| pair.is_right()).count();
        let near = predictions.iter().filter(is_near).count();
        [(right, self.singles.len()), (both, self.pairs.len()), (near, predictions.len())]
    }

    /// As checks; a share of nothing has no value.
    pub(super) fn checks(&self) -> Vec<Check> {
        let [singles, pairs, predictions] = self.right();
        let share = |(right, of): (usize, usize)| (of > 0).then(|| right as f64 / of as f64);
        let check = |name: &str, value, bound| Check::evaluate(name, value, Comparison::AtLeast, bound, "");
        let mut checks = vec![
            check("verdicts that are right, of single limiters", share(singles), 0.95),
            check("fixes that do what was predicted, within 0.8 to 1.25", share(predictions), 0.85),
        ];
        if !self.pairs.is_empty() {
            let name = "pairs of limiters of which one is named first, and the other after its fix";
            checks.insert(1, check(name, share(pairs), 0.85));
        }
        checks
    }
}

#[cfg(test)]
mod tests {
    use diagnosis::{Certainty, Verdict};

    use super::*;

    fn at(bytes_per_s: f64) -> Performance {
        Performance { bytes_per_s, latency_s: 1.0 / bytes_per_s }
    }

    fn said(limiter: Limiter, current: f64, predicted: f64) -> Diagnosis {
        let verdict = Verdict {
            limiter,
            share: 1.0,
            evidence: Vec::new(),
            predicted: at(predicted),
            certainty: Certainty::Figure,
            next: Limiter::LinkRate,
            remedies: Vec::new(),
        };
        Diagnosis { current: at(current), verdicts: vec![verdict], cannot_know: Vec::new() }
    }

    fn single(limiter: Limiter, relieved: &[(Limiter, f64)]) -> Single {
        Single {
            name: "case".to_owned(),
            injected: Limiter::Pacing,
            leaves: 0.1,
            aim: Aim::Throughput,
            measured: at(10.0),
            relieved: relieved.iter().map(|(limiter, rate)| (*limiter, at(*rate))).collect(),
            diagnosis: said(limiter, 10.0, 45.0),
        }
    }

    #[test]
    fn a_verdict_is_right_by_what_its_knob_gains() {
        let relieved = [(Limiter::Pacing, 50.0), (Limiter::Connections, 45.0), (Limiter::QueueDepth, 10.1)];
        for (limiter, right) in [
            (Limiter::Pacing, true),
            (Limiter::Connections, true),
            (Limiter::QueueDepth, false),
            (Limiter::Loss, false),
            (Limiter::RoundTrip, false),
        ] {
            assert_eq!(single(limiter, &relieved).is_right(), right, "{limiter:?}");
        }
        let nothing = [(Limiter::LinkRate, 10.5)];
        assert!(single(Limiter::RoundTrip, &nothing).is_right());
        assert!(!single(Limiter::Pacing, &nothing).is_right());
    }

    #[test]
    fn pairs_are_both_named_in_any_order() {
        let pair = |said: &[Limiter]| Pair {
            name: "pair".to_owned(),
            injected: [Limiter::Nagle, Limiter::StoreLatency],
            leaves: [0.1, 0.3],
            aim: Aim::Latency,
            steps: said.iter().map(|limiter| self::said(*limiter, 10.0, 20.0)).collect(),
        };
        assert!(pair(&[Limiter::StoreLatency, Limiter::SeparateStatus, Limiter::RoundTrip]).is_right());
        assert!(pair(&[Limiter::Nagle, Limiter::StoreLatency]).is_right());
        assert!(!pair(&[Limiter::Nagle, Limiter::Nagle]).is_right());
        assert!(!pair(&[Limiter::Nagle]).is_right());
    }

    #[test]
    fn shares_are_checks() {
        let relieved = [(Limiter::Pacing, 50.0)];
        let singles = vec![single(Limiter::Pacing, &relieved), single(Limiter::Loss, &relieved)];
        let checks = Score { singles, pairs: Vec::new() }.checks();
        let values: Vec<_> = checks.iter().map(|check| (check.value, check.ok)).collect();
        assert_eq!(values, [(Some(0.5), false), (Some(1.0), true)]);
    }
}
