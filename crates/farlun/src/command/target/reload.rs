//! Reload of the configuration on SIGHUP: read with the same flags, and the result in words or as JSON.

use event::Bytes;
use serde_json::{Value, json};

use iscsi_target::{Config, CutOff, Grown, Reload, Reloaded, log};

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

/// Prints the outcome; a failure to print does not stop the target.
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
        "grown": reloaded.grown.iter().map(grown).collect::<Vec<_>>(),
        "cut_off": reloaded.cut_off.iter().map(cut_off).collect::<Vec<_>>(),
        "addresses": reloaded.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "stays": reloaded.stays,
    });
    document.to_string()
}

fn grown(grown: &Grown) -> Value {
    json!({"lun": grown.lun, "before_bytes": grown.before_bytes, "bytes": grown.bytes})
}

fn cut_off(cut_off: &CutOff) -> Value {
    json!({"lun": cut_off.lun, "sessions": cut_off.sessions})
}

fn words(reloaded: &Reloaded) -> String {
    let list = |numbers: &[u16]| match numbers {
        [] => "none".to_owned(),
        numbers => numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    let addresses: Vec<_> = reloaded.addresses.iter().map(ToString::to_string).collect();
    let mut text = format!(
        "reloaded: LUNs {}; added {}, removed {}; ",
        list(&reloaded.luns),
        list(&reloaded.added),
        list(&reloaded.removed)
    );
    for Grown { lun, before_bytes, bytes } in &reloaded.grown {
        text += &format!("LUN {lun} has grown from {} to {}; ", Bytes(*before_bytes), Bytes(*bytes));
    }
    for CutOff { lun, sessions } in &reloaded.cut_off {
        text += &format!("LUN {lun} is closed, until they log out, to {}; ", sessions.join(", "));
    }
    text + &format!("listening on {}", addresses.join(", "))
}
