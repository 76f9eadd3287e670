//! Our target with a configuration file that a test changes, a state folder, and files for its LUNs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::ours::Target;
use serde_json::Value;

use super::{HOST, IQN, Machine};

/// Longest time of a reload.
const RELOAD: Duration = Duration::from_secs(60);

/// A running target. Its files lie in the folder of the machine.
pub(crate) struct Site {
    pub(crate) target: Target,
    folder: PathBuf,
}

impl Site {
    /// A target at the first address of the host with these tables of LUNs.
    #[track_caller]
    pub(crate) fn start(machine: &Machine, luns: &str) -> Site {
        let folder = machine.folder().to_owned();
        Site { target: target(machine, &folder, luns), folder }
    }

    /// The same after its target has ended or was killed.
    #[track_caller]
    pub(crate) fn start_again(&mut self, machine: &Machine, luns: &str) {
        self.target = target(machine, &self.folder, luns);
    }

    /// Has the target read other tables of LUNs; its answer.
    #[track_caller]
    pub(crate) fn reload(&mut self, luns: &str) -> Value {
        configure(&self.folder, luns);
        self.target.service.signal("HUP");
        serde_json::from_str(&self.target.service.next_line(RELOAD)).expect("a document")
    }
}

/// LUN in the file `name` of the machine's folder.
pub(crate) fn lun(number: u16, name: &str, more: &str) -> String {
    format!("[[lun]]\nnumber = {number}\nspec = \"file:{name}\"\n{more}\n")
}

/// Gives a file another size.
pub(crate) fn set_mib(path: &Path, mib: u64) {
    let file = File::options().write(true).open(path);
    file.and_then(|file| file.set_len(mib << 20)).expect("another size");
}

fn target(machine: &Machine, folder: &Path, luns: &str) -> Target {
    let file = configure(folder, luns);
    let mut command = machine.farlun(["target", "--json", "--config"]);
    Target::start(command.arg(file).current_dir(folder))
}

fn configure(folder: &Path, luns: &str) -> PathBuf {
    let file = folder.join("target.toml");
    let text = format!(
        "iqn = \"{IQN}\"\nlisten = [\"{}:3260\"]\nstate = \"state\"\ninsecure = true\n{luns}",
        HOST[0]
    );
    fs::write(&file, text).expect("a configuration file");
    file
}
