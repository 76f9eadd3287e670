//! Lower bound of a ratio from repeats of one pair of measurements: the lower end of a 95 % interval.
//!
//! Ratios are multiplied, so their logarithms are approximately normal: the interval is Student's, of the logarithms,
//! and two-sided: in one run of forty the true ratio is below the lower end.

/// Least number of pairs for a bound.
pub const PAIRS_MIN: usize = 15;

/// Degrees of freedom, and the 97.5 % quantile of Student's distribution; between two of them that of the fewer, which
/// is the larger.
const QUANTILES: [(usize, f64); 19] = [
    (14, 2.145),
    (15, 2.131),
    (16, 2.120),
    (17, 2.110),
    (18, 2.101),
    (19, 2.093),
    (20, 2.086),
    (21, 2.080),
    (22, 2.074),
    (23, 2.069),
    (24, 2.064),
    (25, 2.060),
    (26, 2.056),
    (27, 2.052),
    (28, 2.048),
    (29, 2.045),
    (30, 2.042),
    (40, 2.021),
    (60, 2.000),
];

/// Lower bound of these ratios, one of each pair; `None` if there are too few, or one is not above 0.
pub fn lower_95(ratios: &[f64]) -> Option<f64> {
    if ratios.len() < PAIRS_MIN || !ratios.iter().all(|ratio| ratio.is_finite() && *ratio > 0.0) {
        return None;
    }
    let count = ratios.len() as f64;
    let logarithms = || ratios.iter().map(|ratio| ratio.ln());
    let mean = logarithms().sum::<f64>() / count;
    let variance = logarithms().map(|logarithm| (logarithm - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let (_, quantile) = QUANTILES.iter().rfind(|(freedom, _)| *freedom < ratios.len())?;
    Some((mean - quantile * (variance / count).sqrt()).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // Logarithms of 0.1, -0.1 and once 0 around that of the middle: a variance of 14 × 0.01 / 14, so a tenth, divided
        // by the root of 15: 0.025820. Times 2.145 that is 0.055384, and exp(-0.055384) is 0.946122.
        for (middle, expected) in [(1.0, 0.946_122), (1.02, 0.965_044)] {
            let spread = |n: i32| middle * (f64::from(n.signum()) / 10.0).exp();
            let ratios: Vec<f64> = (-7..=7).map(spread).collect();
            let found = lower_95(&ratios).unwrap();
            assert!((found - expected).abs() < 2e-6, "{found}");
        }
        // 61 of them: 0.1 × 2.000 / 7.810250 = 0.025607, and exp(-0.025607) is 0.974718.
        let ratios: Vec<f64> = (-30..=30_i32).map(|n| (f64::from(n.signum()) / 10.0).exp()).collect();
        assert!((lower_95(&ratios).unwrap() - 0.974_718).abs() < 2e-6, "{:?}", lower_95(&ratios));
        let same = lower_95(&[0.97; 15]).unwrap();
        assert!((same - 0.97).abs() < 1e-12, "{same}");
    }

    #[test]
    fn too_few_or_no_ratios() {
        assert_eq!(lower_95(&[1.0; 14]), None);
        let mut ratios = [1.0; 15];
        for odd in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            ratios[3] = odd;
            assert_eq!(lower_95(&ratios), None, "{odd}");
        }
    }
}
