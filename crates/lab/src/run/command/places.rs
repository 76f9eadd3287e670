//! What is put into the places of a command that a plan spells out: where its peer is, where it may write, how long it
//! runs.
//!
//! Which places a command may have is for the plan to check when it is read.

use std::time::Duration;

use super::words::quote;

pub(super) const ISCSI_PORT: u16 = 3260;
pub(super) const IQN: &str = "iqn.2026-11.io.farlun:lab";

/// The values, for one host.
pub(super) struct Places {
    /// Address of the host that serves, in brackets if it is of IPv6.
    pub(super) far: String,
    /// Where tables and whatever else it writes go.
    pub(super) dir: String,
    /// LUN, counted from 0.
    pub(super) lun: u32,
    /// How long a load runs.
    pub(super) time: Duration,
    /// And some of its hosts before that.
    pub(super) before: Duration,
    /// This program.
    pub(super) program: String,
    /// Which of the hosts that do the same it is, from 1.
    pub(super) number: u32,
}

impl Places {
    /// What stands for `{place}`, for a shell.
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
