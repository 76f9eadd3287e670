//! The `[matrix]` of a plan: its axes, and the loads that each concerns.

use document::Scalar;

use super::cell::Cell;
use super::keys::background::Background;
use super::keys::load::Load;
use super::keys::path::{CONGESTION, PATH_KEYS};
use super::keys::target::TARGET_KEYS;

/// A key that varies, with its values in the order of the plan.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    /// `delay`, `depth`, or for one load alone `read.depth`.
    pub name: String,
    /// At least one, no two alike.
    pub(super) values: Vec<Scalar>,
}

impl Axis {
    /// Its values as written in the plan.
    pub fn labels(&self) -> impl Iterator<Item = String> + '_ {
        self.values.iter().map(Scalar::label)
    }

    /// True if it changes the path, and so concerns every load and `line`.
    pub fn is_path(&self) -> bool {
        self.name != CONGESTION && PATH_KEYS.contains(&self.name.as_str())
    }

    /// True if it changes this load or its path.
    pub fn concerns(&self, load: &Load, backgrounds: &[Background]) -> bool {
        let mut beside = backgrounds.iter().filter(|background| background.is_beside(load));
        (self.is_path() && !load.has_own(&self.name))
            || load_key(&self.name, load).is_some()
            || (target_key(&self.name).is_some() && load.has_our_target())
            || beside.any(|background| background_key(&self.name, background).is_some())
    }

    /// Applies one of its values to a cell.
    pub(super) fn apply(&self, value: &Scalar, cell: &mut Cell) -> Result<(), String> {
        if self.is_path() {
            return match cell.load.has_own(&self.name) {
                true => Ok(()),
                false => cell.path.set(&self.name, value),
            };
        }
        if let Some(key) = target_key(&self.name) {
            return cell.target.set(key, value);
        }
        for background in &mut cell.backgrounds {
            if let Some(key) = background_key(&self.name, background) {
                background.set(key, value)?;
            }
        }
        match load_key(&self.name, &cell.load) {
            Some(key) => cell.load.set(key, value),
            None => Ok(()),
        }
    }
}

/// The key of a load that an axis varies, if it does: `depth` that of every load, `read.depth` that of one.
fn load_key<'a>(axis: &'a str, load: &Load) -> Option<&'a str> {
    let key = match axis.split_once('.') {
        Some((name, key)) if name == load.name => key,
        Some(_) => return None,
        None => axis,
    };
    load.takes(key).then_some(key)
}

/// Backgrounds are only varied by their names.
fn background_key<'a>(axis: &'a str, background: &Background) -> Option<&'a str> {
    let (name, key) = axis.split_once('.')?;
    (name == background.load.name && background.keys().any(|known| known == key)).then_some(key)
}

fn target_key(axis: &str) -> Option<&str> {
    axis.strip_prefix("target.").filter(|key| TARGET_KEYS.contains(key))
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
