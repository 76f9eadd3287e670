//! A level over time, thinned for drawing while it is computed: of every stretch the smallest and the
//! largest level stay, so the picture shows every peak and its size is bounded.

/// Collects changes of a level in order of time.
#[derive(Clone, Debug)]
pub(in crate::layers) struct Outline {
    start_ns: u64,
    stretch_ns: u64,
    /// Points of finished stretches: (time, level from then on).
    kept: Vec<(u64, i64)>,
    /// Number of the current stretch, its lowest and its highest level and its last.
    current: Option<(u64, Extremes)>,
}

#[derive(Clone, Copy, Debug)]
struct Extremes {
    low: (u64, i64),
    high: (u64, i64),
    last: (u64, i64),
}

impl Outline {
    /// For changes from `start_ns` to `end_ns`, of which about `most` are kept.
    pub(in crate::layers) fn new(start_ns: u64, end_ns: u64, most: usize) -> Outline {
        let stretches = (most as u64 / 3).max(1);
        let stretch_ns = (end_ns.saturating_sub(start_ns) / stretches).max(1);
        Outline { start_ns, stretch_ns, kept: Vec::new(), current: None }
    }

    /// From `t_ns` on the level is `level`.
    pub(in crate::layers) fn push(&mut self, t_ns: u64, level: i64) {
        let number = t_ns.saturating_sub(self.start_ns) / self.stretch_ns;
        let here = (t_ns, level);
        match &mut self.current {
            Some((current, extremes)) if *current == number => {
                if level < extremes.low.1 {
                    extremes.low = here;
                }
                if level > extremes.high.1 {
                    extremes.high = here;
                }
                extremes.last = here;
            }
            _ => {
                self.close();
                self.current = Some((number, Extremes { low: here, high: here, last: here }));
            }
        }
    }

    /// All points, in order of time.
    pub(in crate::layers) fn finish(mut self) -> Vec<(u64, i64)> {
        self.close();
        self.kept
    }

    fn close(&mut self) {
        if let Some((_, extremes)) = self.current.take() {
            let mut points = [extremes.low, extremes.high, extremes.last];
            points.sort_unstable();
            for point in points {
                if self.kept.last() != Some(&point) {
                    self.kept.push(point);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_and_the_last_level_of_each_stretch_stay() {
        let mut outline = Outline::new(1_000, 1_000_000, 300);
        for t in 1_000..1_000_000u64 {
            let level = match t {
                400_001 => 99,
                700_002 => -3,
                _ => 10,
            };
            outline.push(t, level);
        }
        let kept = outline.finish();
        assert!(kept.len() <= 303, "{}", kept.len());
        assert!(kept.contains(&(400_001, 99)) && kept.contains(&(700_002, -3)));
        assert!(kept.is_sorted());
        assert_eq!(kept.last(), Some(&(999_999, 10)));
    }

    #[test]
    fn few_changes_all_stay() {
        let mut outline = Outline::new(0, 100, 300);
        let changes = [(0, 1), (10, 2), (20, 1), (90, 0)];
        changes.iter().for_each(|(t, level)| outline.push(*t, *level));
        assert_eq!(outline.finish(), changes);
    }
}
