//! The configuration again, on SIGHUP: read with the same flags, and what came of it in words or as JSON.

use serde_json::json;

use iscsi_target::{Config, Reload, Reloaded, log};

use super::args::TargetArgs;
use super::settings::Settings;
use crate::say;

impl Reload for TargetArgs {
    fn read(&self) -> Result<Config, String> {
        let settings = Settings::of(self).map_err(|error| error.to_string())?;
        settings.warnings.iter().for_each(|warning| log(format_args!("{warning}")));
        Ok(settings.config)
    }

    fn tell(&self, outcome: Result<&Reloaded, &str>) {
        match outcome {
            Ok(reloaded) => {
                reloaded.stays.iter().for_each(|stays| log(format_args!("{stays}")));
                say_at_once(&if self.json { document(reloaded) } else { words(reloaded) });
            }
            Err(error) => {
                log(format_args!("nothing is changed: {error}"));
                if self.json {
                    say_at_once(&json!({"reload": true, "ok": false, "error": error}).to_string());
                }
            }
        }
    }
}

/// That it cannot be said is no reason to stop serving.
fn say_at_once(outcome: &str) {
    if let Err(error) = say::line_at_once(format_args!("{outcome}")) {
        log(format_args!("cannot write what came of the reload to standard output: {error}"));
    }
}

fn document(reloaded: &Reloaded) -> String {
    let document = json!({
        "reload": true,
        "ok": true,
        "luns": reloaded.luns,
        "added": reloaded.added,
        "removed": reloaded.removed,
        "addresses": reloaded.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "stays": reloaded.stays,
    });
    document.to_string()
}

fn words(reloaded: &Reloaded) -> String {
    let list = |numbers: &[u16]| match numbers {
        [] => "none".to_owned(),
        numbers => numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    let addresses: Vec<_> = reloaded.addresses.iter().map(ToString::to_string).collect();
    format!(
        "reloaded: LUNs {}; added {}, removed {}; listening on {}",
        list(&reloaded.luns),
        list(&reloaded.added),
        list(&reloaded.removed),
        addresses.join(", ")
    )
}
