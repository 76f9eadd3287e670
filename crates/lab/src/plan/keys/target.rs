//! The `[target]` of a plan: how the far hosts serve their LUNs.

use document::Scalar;
use iscsi_target::Compat;

/// Options of all targets of a run.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Target {
    /// Command window of a session; `None` follows the path.
    pub window: Option<u32>,
    /// Digests of headers and data; `None` is the target's default.
    pub digest: Option<&'static str>,
    /// Emulated habits of other targets.
    pub compat: Compat,
}

/// Keys of a target.
pub(in crate::plan) const TARGET_KEYS: &[&str] = &["window", "digest", "compat"];

const DIGESTS: &[(&str, &str)] = &[("none", "none"), ("prefer", "prefer"), ("crc32c", "crc32c")];

impl Target {
    /// Sets one of [`TARGET_KEYS`].
    pub(in crate::plan) fn set(&mut self, key: &str, value: &Scalar) -> Result<(), String> {
        match key {
            "window" => self.window = Some(value.number(1, 65_536)?),
            "digest" => self.digest = Some(value.word(DIGESTS)?),
            "compat" => {
                self.compat = match value.text()? {
                    "none" => Compat::default(),
                    list => list.parse().map_err(|error| format!("{error}; or none of them: none"))?,
                };
            }
            _ => unreachable!("'{key}' is in TARGET_KEYS"),
        }
        Ok(())
    }
}
