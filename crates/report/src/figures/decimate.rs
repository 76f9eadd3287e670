//! Thins a series for drawing: of every stretch of it the smallest and the largest value stay.

use analysis::Sample;

/// At most about `most` samples (at least 4) that draw like all of them; first and last stay.
pub(crate) fn decimate(series: &[Sample], most: usize) -> Vec<Sample> {
    let most = most.max(4);
    let (Some(first), Some(last)) = (series.first(), series.last()) else { return Vec::new() };
    if series.len() <= most {
        return series.to_vec();
    }
    let inner = &series[1..series.len() - 1];
    let mut kept = vec![*first];
    for stretch in inner.chunks(inner.len().div_ceil((most - 2) / 2)) {
        let order = |a: &&Sample, b: &&Sample| a.1.total_cmp(&b.1);
        let (Some(low), Some(high)) = (stretch.iter().min_by(order), stretch.iter().max_by(order)) else {
            continue;
        };
        let (earlier, later) = if low.0 <= high.0 { (low, high) } else { (high, low) };
        kept.push(*earlier);
        if later != earlier {
            kept.push(*later);
        }
    }
    kept.push(*last);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_stay() {
        let mut series: Vec<Sample> = (0..10_000).map(|i| (f64::from(i), 1.0)).collect();
        series[5_001].1 = 99.0;
        series[7_777].1 = -99.0;
        let thin = decimate(&series, 200);
        assert!(thin.len() <= 200, "{}", thin.len());
        assert!(thin.contains(&(5_001.0, 99.0)) && thin.contains(&(7_777.0, -99.0)));
        assert_eq!((thin.first(), thin.last()), (series.first(), series.last()));
        assert!(thin.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(decimate(&series[..150], 200), series[..150]);
        assert_eq!(decimate(&[], 200), []);
    }
}
