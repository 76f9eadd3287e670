//! Values of one metric in the repeats of a cell.

use std::collections::BTreeMap;

use serde::Serialize;

/// Median and range over the valid repeats of a cell.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Spread {
    /// Median; the mean of the two middle ones for an even number.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Number of repeats.
    pub repeats: usize,
}

impl Spread {
    /// Spread of the finite values; `None` without any.
    pub(crate) fn of(values: &[f64]) -> Option<Spread> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Spread { median: f64::midpoint(low, high), min, max, repeats: sorted.len() })
    }
}

/// Spreads of every metric that some repeat has.
pub(crate) fn spreads<'a>(
    repeats: impl Iterator<Item = &'a BTreeMap<&'static str, f64>>,
) -> BTreeMap<&'static str, Spread> {
    let mut lists: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for values in repeats {
        values.iter().for_each(|(name, value)| lists.entry(name).or_default().push(*value));
    }
    lists.into_iter().filter_map(|(name, values)| Some((name, Spread::of(&values)?))).collect()
}

/// Adds a value; an absent or non-finite one is left out.
pub(crate) fn put(values: &mut BTreeMap<&'static str, f64>, name: &'static str, value: Option<f64>) {
    if let Some(value) = value.filter(|v| v.is_finite()) {
        values.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(
            Spread::of(&[3.0, 1.0, 2.0]),
            Some(Spread { median: 2.0, min: 1.0, max: 3.0, repeats: 3 })
        );
        assert_eq!(Spread::of(&[4.0, 1.0]).unwrap().median, 2.5);
        assert_eq!(Spread::of(&[f64::NAN]), None);
    }
}
