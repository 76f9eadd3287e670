//! Significance of the difference of two samples: the rank test of Mann and Whitney, with Holm's correction for several
//! tests.
//!
//! Ranks need no distribution: rates have floors and tails. Small samples are tested exactly, by counting all
//! permutations; for larger ones the statistic is normal (with ties corrected, Mann and Whitney 1947; Holm 1979).

/// Ways of dealing that are counted one by one: 10 values of 20 have 184 756.
const COUNTED_MAX: u64 = 200_000;

/// The chance that two samples of one source differ at least as much as these; `None` if one of them is empty.
pub(super) fn rank_test(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let (ranks, ties) = ranks(a, b);
    let sum: f64 = ranks[..a.len()].iter().sum();
    match ways(ranks.len() as u64, a.len() as u64) {
        Some(ways) if ways <= COUNTED_MAX => Some(counted(&ranks, a.len(), sum)),
        _ => Some(normal(a.len() as f64, b.len() as f64, sum, ties)),
    }
}

/// Smallest p-value that the test can give for samples of these sizes; 1 if they are too small.
pub(super) fn least(a: usize, b: usize) -> f64 {
    let ways = ways((a + b) as u64, a as u64).unwrap_or(u64::MAX);
    (2.0 / ways as f64).min(1.0)
}

/// Corrects each value for their number, in place, so that one in twenty runs without any difference shows one.
pub(super) fn holm(values: &mut [f64]) {
    let count = values.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_unstable_by(|x, y| values[*x].total_cmp(&values[*y]));
    let mut least = 0.0_f64;
    for (rank, at) in order.into_iter().enumerate() {
        least = least.max(values[at] * (count - rank) as f64).min(1.0);
        values[at] = least;
    }
}

/// Ranks of all values, those of `a` first; ties get their mean rank. And the sum of t³ − t over ties of t.
fn ranks(a: &[f64], b: &[f64]) -> (Vec<f64>, f64) {
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_unstable_by(|x, y| all[*x].total_cmp(&all[*y]));
    let (mut ranks, mut ties) = (vec![0.0; all.len()], 0.0);
    let mut before = 0;
    for equal in order.chunk_by(|x, y| all[*x] == all[*y]) {
        let count = equal.len() as f64;
        equal.iter().for_each(|at| ranks[*at] = before as f64 + (count + 1.0) / 2.0);
        ties += count.powi(3) - count;
        before += equal.len();
    }
    (ranks, ties)
}

/// Binomial coefficient; `None` on overflow.
fn ways(of: u64, chosen: u64) -> Option<u64> {
    (1..=chosen.min(of - chosen)).try_fold(1_u64, |ways, k| Some(ways.checked_mul(of - k + 1)? / k))
}

fn counted(ranks: &[f64], chosen: usize, sum: f64) -> f64 {
    let middle = ranks.iter().sum::<f64>() * chosen as f64 / ranks.len() as f64;
    // Ranks are multiples of a half: a smaller difference is equality.
    let bound = (sum - middle).abs() - 0.25;
    let (mut all, mut far) = (0_u64, 0_u64);
    deal(ranks, chosen, 0.0, &mut |sum| {
        all += 1;
        far += u64::from((sum - middle).abs() >= bound);
    });
    far as f64 / all as f64
}

/// Every sum of so many of the ranks.
fn deal(ranks: &[f64], chosen: usize, sum: f64, each: &mut dyn FnMut(f64)) {
    if chosen == 0 {
        return each(sum);
    }
    for at in 0..=ranks.len() - chosen {
        deal(&ranks[at + 1..], chosen - 1, sum + ranks[at], each);
    }
}

fn normal(a: f64, b: f64, sum: f64, ties: f64) -> f64 {
    let n = a + b;
    let variance = a * b / 12.0 * (n + 1.0 - ties / (n * (n - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let distance = ((sum - a * (n + 1.0) / 2.0).abs() - 0.5).max(0.0);
    (2.0 * above(distance / variance.sqrt())).min(1.0)
}

/// The share of a normal distribution above `z` ≥ 0 (Abramowitz and Stegun 26.2.17, good to 7.5e-8).
fn above(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let series = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let sum = series.iter().rev().fold(0.0, |sum, factor| (sum + factor) * t);
    sum * (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_samples_are_counted() {
        // The tables of the test: 2 of 20 and 2 of 70 ways.
        assert_eq!(rank_test(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), Some(0.1));
        let p = rank_test(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0]).unwrap();
        assert!((p - 2.0 / 70.0).abs() < 1e-12 && (least(4, 4) - p).abs() < 1e-12);
        assert_eq!(rank_test(&[1.0, 1.0], &[1.0, 1.0]), Some(1.0));
        assert_eq!((rank_test(&[], &[1.0]), least(0, 3)), (None, 1.0));
    }

    #[test]
    fn counted_and_normal_agree() {
        let a: Vec<f64> = (0..9).map(|n| f64::from(n) * 2.0).collect();
        let b: Vec<f64> = (0..9).map(|n| f64::from(n) * 2.0 + 5.1).collect();
        let (ranks, ties) = ranks(&a, &b);
        let sum = ranks[..9].iter().sum();
        let (counted, normal) = (counted(&ranks, 9, sum), normal(9.0, 9.0, sum, ties));
        assert!((counted - normal).abs() < 0.005, "{counted} {normal}");
        let (a, b): (Vec<f64>, Vec<f64>) = (0..200).map(|n| (f64::from(n % 50), f64::from(n % 50))).unzip();
        assert!(rank_test(&a, &b).unwrap() > 0.9);
    }

    #[test]
    fn several_questions_need_better_answers() {
        let mut values = [0.04, 0.01, 0.5];
        holm(&mut values);
        assert!((values[1] - 0.03).abs() < 1e-12 && (values[0] - 0.08).abs() < 1e-12, "{values:?}");
        assert!((values[2] - 0.5).abs() < 1e-12);
    }

    #[test]
    fn the_normal_tail() {
        for (z, share) in [(0.0, 0.5), (1.0, 0.158_655_3), (1.959_964, 0.025), (4.0, 3.167e-5)] {
            assert!((above(z) - share).abs() < 1e-6, "{z}");
        }
    }
}
