//! Interleaved rounds: all sides run in each round, in an order that changes from round to round, so that a drift of the
//! machine affects all sides alike.
//!
//! A figure is described once ([`Figure`]), measured with others of the same run ([`Load`]), and printed either beside
//! another program with a bound of its own ([`row`]) or beside another build of farlun (`against`).

mod interval;
mod spread;

use std::array;
use std::io::{IsTerminal, stderr};

use anyhow::{Context, Result, ensure};

pub(super) use interval::{Interval, VALUES_MAX, rank};
pub(super) use spread::Spread;

/// Rounds and duration of each measurement in them.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) rounds: usize,
    pub(super) seconds: u32,
}

/// Direction in which a figure improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sense {
    /// More is better.
    Rate,
    /// Less is better.
    Cost,
    /// Shown for comparison only.
    Neutral,
}

/// A figure's description; the figure itself is a number for each side and round.
#[derive(Clone)]
pub(super) struct Figure {
    name: String,
    digits: usize,
    sense: Sense,
    /// Of the ratio to another program: least for a rate, most for a cost.
    bound: Option<f64>,
}

impl Figure {
    /// A figure of which more is better, printed with so many decimals.
    pub(super) fn rate(name: impl Into<String>, digits: usize) -> Figure {
        Figure { name: name.into(), digits, sense: Sense::Rate, bound: None }
    }

    /// A figure of which less is better.
    pub(super) fn cost(name: impl Into<String>, digits: usize) -> Figure {
        Figure { name: name.into(), digits, sense: Sense::Cost, bound: None }
    }

    /// A figure that is shown and not judged.
    pub(super) fn neutral(name: impl Into<String>, digits: usize) -> Figure {
        Figure { name: name.into(), digits, sense: Sense::Neutral, bound: None }
    }

    /// The same with a bound of the ratio to another program, if any.
    pub(super) fn bound(self, bound: impl Into<Option<f64>>) -> Figure {
        Figure { bound: bound.into(), ..self }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn sense(&self) -> Sense {
        self.sense
    }
}

/// A run on a side `S`; its figures in the order of their descriptions.
type Measure<'a, S> = dyn Fn(&S) -> Result<Vec<f64>> + 'a;

/// A load and the figures that one run of it gives.
pub(super) struct Load<'a, S> {
    figures: Vec<Figure>,
    measure: Box<Measure<'a, S>>,
}

impl<'a, S> Load<'a, S> {
    pub(super) fn new(figures: Vec<Figure>, measure: impl Fn(&S) -> Result<Vec<f64>> + 'a) -> Load<'a, S> {
        Load { figures, measure: Box::new(measure) }
    }
}

/// One of two sides: its name in messages and the start of its processes, which end when `S` is dropped.
pub(super) struct Side<'a, S> {
    name: &'a str,
    start: Box<dyn Fn() -> Result<S> + 'a>,
}

impl<'a, S> Side<'a, S> {
    pub(super) fn new(name: &'a str, start: impl Fn() -> Result<S> + 'a) -> Side<'a, S> {
        Side { name, start: Box::new(start) }
    }
}

/// A figure of both sides in each round.
pub(super) struct Series {
    pub(super) figure: Figure,
    pub(super) rounds: Vec<[f64; 2]>,
}

impl Series {
    /// The first side's figure divided by the second's, round by round.
    pub(super) fn ratios(&self) -> impl Iterator<Item = f64> {
        self.rounds.iter().map(|[ours, theirs]| ours / theirs)
    }

    /// Median and range of one side.
    pub(super) fn side(&self, index: usize) -> Spread {
        Spread::of(self.rounds.iter().map(|pair| pair[index]))
    }

    /// Median of one side, with the figure's decimals.
    pub(super) fn median_text(&self, index: usize) -> String {
        let digits = self.figure.digits;
        format!("{:.digits$}", self.side(index).median)
    }
}

/// Runs every load on both sides, `rounds` times; each round starts both sides anew. An error names its side.
pub(super) fn alternate<S>(
    rounds: usize,
    sides: &[Side<'_, S>; 2],
    loads: &[Load<'_, S>],
) -> Result<Vec<Series>> {
    let figures = loads.iter().flat_map(|load| &load.figures);
    let mut series: Vec<Series> =
        figures.map(|figure| Series { figure: figure.clone(), rounds: Vec::new() }).collect();
    for round in 0..rounds {
        if stderr().is_terminal() {
            eprintln!("round {} of {rounds}", round + 1);
        }
        let started: [S; 2] =
            each(round, |side| (sides[side].start)().with_context(|| sides[side].name.to_owned()))?;
        let mut next = series.iter_mut();
        for (number, load) in loads.iter().enumerate() {
            // The order changes from load to load too: neither side always comes after the same one.
            let [ours, theirs] = each(round + number, |side| {
                let figures = (load.measure)(&started[side]).with_context(|| sides[side].name.to_owned())?;
                let (found, expected) = (figures.len(), load.figures.len());
                ensure!(found == expected, "a load gave {found} figures, expected {expected}");
                Ok(figures)
            })?;
            for pair in ours.into_iter().zip(theirs) {
                next.next().context("more figures than descriptions")?.rounds.push(pair.into());
            }
        }
    }
    Ok(series)
}

/// Runs each of `K` variants once a round, in the order of [`order`]; their results by round and variant.
pub(super) fn interleave<const K: usize, T>(
    rounds: usize,
    mut measure: impl FnMut(usize) -> Result<T>,
) -> Result<Vec<[T; K]>> {
    (0..rounds).map(|round| each(round, &mut measure)).collect()
}

/// Runs each variant once, in the order of a round; their results by variant.
fn each<const K: usize, T>(round: usize, mut measure: impl FnMut(usize) -> Result<T>) -> Result<[T; K]> {
    let mut results: [Option<T>; K] = array::from_fn(|_| None);
    for variant in order::<K>(round) {
        results[variant] = Some(measure(variant)?);
    }
    Ok(results.map(|result| result.expect("the order names every variant")))
}

/// Order of `K` variants in a round. Two rounds together are a palindrome (ABBA), so that a linear drift of the machine
/// cancels out; each pair of rounds begins with the next variant.
fn order<const K: usize>(round: usize) -> [usize; K] {
    let mut order = array::from_fn(|place| (place + round / 2) % K);
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// Prints a section's heading and the head of its table.
pub(super) fn head(title: &str, sides: [&str; 2]) {
    println!(
        "\n== {title}\n\n| figure | {} | {} | ratio | bound |\n|---|---|---|---|---|",
        sides[0], sides[1]
    );
}

/// Prints a row: both sides' figures (medians and ranges), their ratio within each round, and whether its median keeps
/// the bound, which is returned.
pub(super) fn row(series: &Series) -> bool {
    let Figure { name, digits, sense, bound } = &series.figure;
    let ratio = Spread::of(series.ratios());
    let (holds, bound) = match (bound, sense) {
        (Some(least), Sense::Rate) => (ratio.median >= *least, format!("≥ {least}")),
        (Some(most), Sense::Cost) => (ratio.median <= *most, format!("≤ {most}")),
        (_, Sense::Neutral) | (None, _) => (true, "—".to_owned()),
    };
    let verdict = if holds { "" } else { " **missed**" };
    let [ours, theirs] = [0, 1].map(|side| series.side(side).text(*digits));
    println!("| {name} | {ours} | {theirs} | {} | {bound}{verdict} |", ratio.text(2));
    holds
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn two_sides_take_turns_as_abba() {
        let rounds: Vec<[usize; 2]> = (0..4).map(order).collect();
        assert_eq!(rounds, [[0, 1], [1, 0], [1, 0], [0, 1]]);
    }

    #[test]
    fn three_variants_have_every_order_once_in_six_rounds() {
        let mut rounds: Vec<[usize; 3]> = (0..6).map(order).collect();
        assert_eq!(rounds[..2], [[0, 1, 2], [2, 1, 0]]);
        rounds.sort_unstable();
        rounds.dedup();
        assert_eq!(rounds.len(), 6);
    }

    #[test]
    fn results_are_by_variant_and_not_by_time() -> Result<()> {
        let mut runs = 0;
        let rounds: Vec<[(usize, usize); 2]> = interleave(2, |variant| {
            runs += 1;
            Ok((variant, runs))
        })?;
        assert_eq!(rounds, [[(0, 1), (1, 2)], [(0, 4), (1, 3)]]);
        Ok(())
    }

    #[test]
    fn each_round_starts_both_sides_anew_and_alternates_every_load() -> Result<()> {
        let log = RefCell::new(Vec::new());
        let side = |name| {
            let log = &log;
            Side::new(name, move || {
                log.borrow_mut().push(format!("start {name}"));
                Ok(name)
            })
        };
        let load = |number: u32, figures: Vec<Figure>| {
            let (log, count) = (&log, figures.len());
            Load::new(figures, move |name: &&str| {
                log.borrow_mut().push(format!("{name}{number}"));
                let base = if *name == "a" { 10.0 } else { 5.0 };
                Ok((0..count).map(|figure| base * f64::from(number) + figure as f64).collect())
            })
        };
        let loads = [
            load(1, vec![Figure::rate("rate", 0), Figure::cost("cost", 0)]),
            load(2, vec![Figure::neutral("other", 0)]),
        ];
        let series = alternate(2, &[side("a"), side("b")], &loads)?;
        let names: Vec<&str> = series.iter().map(|series| series.figure.name()).collect();
        assert_eq!(names, ["rate", "cost", "other"]);
        assert_eq!(series[1].rounds, [[11.0, 6.0], [11.0, 6.0]]);
        assert_eq!(series[2].ratios().collect::<Vec<_>>(), [2.0, 2.0]);
        let log = log.take();
        assert_eq!(log[..6], ["start a", "start b", "a1", "b1", "b2", "a2"]);
        assert_eq!(log[6..], ["start b", "start a", "b1", "a1", "b2", "a2"]);
        Ok(())
    }

    #[test]
    fn an_error_names_its_side() {
        let sides = [Side::new("this tree", || Ok(1)), Side::new("HEAD~1", || Ok(2))];
        let loads = [Load::new(vec![Figure::rate("rate", 0)], |side: &i32| {
            ensure!(*side == 1, "`farlun bench` ended with 2");
            Ok(vec![1.0])
        })];
        let error = alternate(1, &sides, &loads).err().map(|error| format!("{error:#}"));
        assert_eq!(error.as_deref(), Some("HEAD~1: `farlun bench` ended with 2"));
    }

    #[test]
    fn a_bound_is_a_least_rate_or_a_most_cost() {
        let series = |figure: Figure, ratio: f64| Series { figure, rounds: vec![[ratio, 1.0]] };
        let check = |figure: Figure, ratio: f64, holds: bool| assert_eq!(row(&series(figure, ratio)), holds);
        check(Figure::rate("rate", 0).bound(0.8), 0.79, false);
        check(Figure::rate("rate", 0).bound(0.8), 0.8, true);
        check(Figure::cost("cost", 0).bound(1.2), 1.21, false);
        check(Figure::cost("cost", 0).bound(1.2), 1.2, true);
        check(Figure::cost("cost", 0), 9.0, true);
    }
}
