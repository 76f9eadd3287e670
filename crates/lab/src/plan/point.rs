//! Points and regions of the matrix, as text.

use serde_json::{Map, Value, json};

/// A point of the matrix, or its part that concerns one load: axes and their values as written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Point(pub Vec<(String, String)>);

/// A region of the matrix: axes and their values in it; other axes are unrestricted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Region(pub Vec<(String, Vec<String>)>);

impl Region {
    /// True if it contains this point, by the axes of the point.
    pub fn has(&self, point: &Point) -> bool {
        self.0.iter().all(|(axis, values)| point.value(axis).is_none_or(|v| values.iter().any(|w| w == v)))
    }
}

impl Point {
    /// The value on an axis.
    pub fn value(&self, axis: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == axis).map(|(_, value)| value.as_str())
    }

    /// True if both have the same value on every common axis.
    pub fn agrees(&self, other: &Point) -> bool {
        self.0.iter().all(|(axis, value)| other.value(axis).is_none_or(|v| v == value))
    }

    /// The point with other values on these axes.
    pub fn moved(&self, to: &[(String, String)]) -> Point {
        let rest = self.0.iter().filter(|(axis, _)| to.iter().all(|(moved, _)| moved != axis));
        Point(rest.chain(to).cloned().collect())
    }

    /// The point reduced to the axes for which `wanted` is true.
    pub fn only(&self, wanted: impl Fn(&str) -> bool) -> Point {
        Point(self.0.iter().filter(|(axis, _)| wanted(axis)).cloned().collect())
    }

    /// In words: `delay 8ms, depth 32`; empty for a matrix of one point.
    pub fn words(&self) -> String {
        self.0.iter().map(|(axis, value)| format!("{axis} {value}")).collect::<Vec<_>>().join(", ")
    }

    /// As an object of texts.
    pub fn to_json(&self) -> Map<String, Value> {
        self.0.iter().map(|(axis, value)| (axis.clone(), json!(value))).collect()
    }
}
