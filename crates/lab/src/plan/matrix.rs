//! The `[matrix]` of a plan: what varies, and what of the plan each of it concerns.

use document::Scalar;

use super::load::Load;
use super::path::{PATH_KEYS, Path};

/// One thing that varies, with its values in the order of the plan.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    /// `delay`, `depth`, or for one load alone `read.depth`.
    pub name: String,
    /// At least one, no two alike.
    pub(super) values: Vec<Scalar>,
}

/// A place in the matrix, or the part of it that concerns one load: axes and their values as written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Point(pub Vec<(String, String)>);

impl Axis {
    /// Its values as written in the plan.
    pub fn labels(&self) -> impl Iterator<Item = String> + '_ {
        self.values.iter().map(Scalar::label)
    }

    /// Whether it changes the path, and so concerns every load and `line`.
    pub fn is_path(&self) -> bool {
        PATH_KEYS.contains(&self.name.as_str())
    }

    /// Whether it changes anything for this load.
    pub fn concerns(&self, load: &Load) -> bool {
        self.is_path() || self.load_key(load).is_some()
    }

    /// Puts one of its values into a path and load.
    pub(super) fn apply(&self, value: &Scalar, path: &mut Path, load: &mut Load) -> Result<(), String> {
        if self.is_path() {
            return path.set(&self.name, value);
        }
        match self.load_key(load) {
            Some(key) => load.set(key, value),
            None => Ok(()),
        }
    }

    fn load_key<'a>(&'a self, load: &Load) -> Option<&'a str> {
        let key = match self.name.split_once('.') {
            Some((name, key)) if name == load.name => key,
            Some(_) => return None,
            None => &self.name,
        };
        load.takes(key).then_some(key)
    }
}

impl Point {
    /// The value on an axis.
    pub fn value(&self, axis: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == axis).map(|(_, value)| value.as_str())
    }

    /// Whether both agree on every axis that both have.
    pub fn agrees(&self, other: &Point) -> bool {
        self.0.iter().all(|(axis, value)| other.value(axis).is_none_or(|v| v == value))
    }

    /// Only the axes that are wanted.
    pub fn only(&self, wanted: impl Fn(&str) -> bool) -> Point {
        Point(self.0.iter().filter(|(axis, _)| wanted(axis)).cloned().collect())
    }

    /// In words: `delay 8ms, depth 32`; empty for a matrix of one point.
    pub fn words(&self) -> String {
        self.0.iter().map(|(axis, value)| format!("{axis} {value}")).collect::<Vec<_>>().join(", ")
    }
}

/// Every point of a matrix; the last axis varies fastest.
pub(super) fn points(axes: &[Axis]) -> Vec<Vec<(&Axis, &Scalar)>> {
    axes.iter().fold(vec![Vec::new()], |points, axis| {
        let with = |point: &Vec<_>, value| {
            let mut longer = point.clone();
            longer.push((axis, value));
            longer
        };
        points.iter().flat_map(|point| axis.values.iter().map(move |value| with(point, value))).collect()
    })
}
