//! Values for the placeholders of a plan's own commands: address of the peer, directory, run time.
//!
//! The reader of plans checks the names of placeholders.

use std::time::Duration;

use super::words::quote;

pub(super) const ISCSI_PORT: u16 = 3260;
pub(super) const IQN: &str = "iqn.2026-11.io.farlun:lab";

/// Values for one host.
pub(super) struct Placeholders {
    /// Address of the host that serves, in brackets if it is of IPv6.
    pub(super) far: String,
    /// Directory for tables and other files of the command.
    pub(super) dir: String,
    /// LUN, counted from 0.
    pub(super) lun: u32,
    /// Run time of a load.
    pub(super) time: Duration,
    /// Time for which some of its hosts run before that.
    pub(super) before: Duration,
    /// This program.
    pub(super) program: String,
    /// Number among the hosts of the load, from 1.
    pub(super) number: u32,
}

impl Placeholders {
    /// Value of `{place}`, quoted for a shell.
    pub(super) fn value(&self, place: &str) -> String {
        match place {
            // To a shell brackets are a pattern.
            "host" => quote(&self.far),
            "port" => ISCSI_PORT.to_string(),
            "iqn" => IQN.to_owned(),
            "lun" => self.lun.to_string(),
            // Programs of others count whole seconds.
            "seconds" => self.time.as_secs_f64().ceil().to_string(),
            "before" => self.before.as_secs_f64().ceil().to_string(),
            "dir" => quote(&self.dir),
            "farlun" => quote(&self.program),
            "number" => self.number.to_string(),
            _ => unreachable!("'{place}' was checked when the plan was read"),
        }
    }
}
