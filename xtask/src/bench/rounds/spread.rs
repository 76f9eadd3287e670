//! Figures of several runs as one line: median and range.

/// Median and range of some figures.
pub(in crate::bench) struct Spread {
    pub(in crate::bench) min: f64,
    pub(in crate::bench) median: f64,
    pub(in crate::bench) max: f64,
}

impl Spread {
    /// Of at least one figure.
    pub(in crate::bench) fn of(figures: impl Iterator<Item = f64>) -> Spread {
        let mut sorted: Vec<f64> = figures.collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len() - 1;
        let median = f64::midpoint(sorted[last / 2], sorted[last.div_ceil(2)]);
        Spread { min: sorted[0], median, max: sorted[last] }
    }

    pub(in crate::bench) fn text(&self, digits: usize) -> String {
        format!("{:.digits$} ({:.digits$}..{:.digits$})", self.median, self.min, self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn medians() {
        let check =
            |figures: &[f64], text: &str| assert_eq!(Spread::of(figures.iter().copied()).text(1), text);
        check(&[3.0], "3.0 (3.0..3.0)");
        check(&[4.0, 1.0, 2.0], "2.0 (1.0..4.0)");
        check(&[4.0, 1.0, 2.0, 3.0], "2.5 (1.0..4.0)");
    }
}
