//! A `[[background]]` of a plan: traffic that competes with the loads and is not measured.
//!
//! It works like a load, between hosts of its own that share the path, from before the load's beginning until after
//! its end.

use document::Scalar;

use super::load::{Load, MOST_HOSTS};

/// Competing traffic.
#[derive(Clone, PartialEq, Debug)]
pub struct Background {
    /// The load that it runs; its times are ignored.
    pub load: Load,
    /// Loads that it competes with; empty for all.
    pub beside: Vec<String>,
}

/// Keys of a load that configure its measurement.
const NOT_HERE: &[&str] = &["start", "window", "validity", "warmup", "warm_bulk"];

impl Background {
    /// True if it competes with this load.
    pub fn is_beside(&self, load: &Load) -> bool {
        self.beside.is_empty() || self.beside.contains(&load.name)
    }

    /// The keys that can be set.
    pub(in crate::plan) fn keys(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.load.keys().filter(|key| !NOT_HERE.contains(key))
    }

    /// Sets one of [`Background::keys`]. With 0 initiators there is no traffic.
    pub(in crate::plan) fn set(&mut self, key: &str, value: &Scalar) -> Result<(), String> {
        match key {
            "initiators" => self.load.initiators = value.number(0, MOST_HOSTS)?,
            _ => self.load.set(key, value)?,
        }
        Ok(())
    }
}
