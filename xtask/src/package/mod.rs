//! `cargo xtask package`: a static binary with manual pages, completions and a systemd unit, as tar archive and Debian package.
//!
//! The files lie in `packaging/`. One commit makes the same archives every time: their times are those of the commit.

mod debian;
mod files;
mod notices;
mod tree;

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::packages;
use crate::step::{self, Outcome};
use crate::workspace::{self, ALL_FEATURES, cargo};
use tree::{Layout, Tree};

/// Script that installs, runs and removes the packages.
const TRIAL: &str = "xtask/src/package/trial.sh";

/// Packages as files.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    /// `farlun_VERSION_ARCH.deb`; `None` where `dpkg-deb` is missing.
    pub(crate) debian: Option<PathBuf>,
    /// `farlun-VERSION-TARGET.tar.gz`.
    pub(crate) archive: PathBuf,
}

/// Target of a static build for this machine.
pub(crate) fn static_target() -> String {
    format!("{ARCH}-unknown-linux-musl")
}

/// Makes the packages in `target/package` and prints their paths.
pub(crate) fn run() -> Result<bool> {
    if let Some(Outcome::Skipped(reason)) = workspace::without(&static_target())? {
        bail!("{reason}");
    }
    let made = make()?;
    for file in made.debian.iter().chain([&made.archive]) {
        println!("{}: {:.1} MB", file.display(), fs::metadata(file)?.len() as f64 / 1e6);
    }
    if made.debian.is_none() {
        println!("no Debian package: dpkg-deb is not installed");
    }
    Ok(true)
}

/// Makes the packages.
pub(crate) fn make() -> Result<Made> {
    let folder = workspace::target_dir()?.join("package");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let pages = folder.join("pages");
    write_pages(&pages)?;
    let target = static_target();
    let binary = workspace::release_binary_for(&target)?;
    let notices = notices::text(&target)?;
    let tree = |layout| Tree { layout, binary: &binary, pages: &pages, notices: &notices };

    let name = format!("farlun-{}-{target}", env!("CARGO_PKG_VERSION"));
    tree(Layout::Plain).write(&folder.join(&name))?;
    let archive = pack(&folder, &name)?;

    let debian = if step::have("dpkg-deb") {
        let root = folder.join("debian");
        tree(Layout::Debian).write(&root.join("usr"))?;
        Some(debian::build(&root, &folder, source_epoch()?)?)
    } else {
        None
    };
    Ok(Made { debian, archive })
}

/// Writes the manual pages and completions, by a build that has the feature for it.
fn write_pages(folder: &Path) -> Result<()> {
    let mut build = cargo(&["build", "--workspace", "--bin", "farlun"]);
    step::shown(build.args(ALL_FEATURES))?;
    let binary = workspace::target_dir()?.join("debug/farlun");
    step::shown(Command::new(binary).arg("pages").arg(folder))
}

/// Packs the folder `name` as an archive beside it.
fn pack(folder: &Path, name: &str) -> Result<PathBuf> {
    let archive = folder.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.current_dir(folder).args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{}", source_epoch()?));
    step::shown(tar.arg("--use-compress-program=gzip -9n").arg("-cf").arg(&archive).arg(name))?;
    Ok(archive)
}

/// Time of the commit in seconds since 1970, which becomes the time of every file; 0 outside a checkout.
fn source_epoch() -> Result<u64> {
    let mut log = Command::new("git");
    log.args(["log", "-1", "--format=%ct"]).current_dir(workspace::root());
    match step::captured(&mut log) {
        Ok(text) => text.trim().parse().with_context(|| format!("git says {text:?} of the commit's time")),
        Err(_) => Ok(0),
    }
}

/// Installs, runs and removes the packages in namespaces of their own.
pub(crate) fn trial(made: &Made) -> Result<Outcome> {
    let Some(debian) = &made.debian else {
        return Ok(Outcome::Skipped("no Debian package was made: dpkg-deb is not installed".to_owned()));
    };
    packages::ensure(packages::PACKAGE)?;
    for program in ["dpkg", "unshare", "man"] {
        if !step::have(program) {
            return Ok(Outcome::Skipped(format!("{program} is not installed")));
        }
    }
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--net", "--pid", "--fork", "--kill-child"]);
    if step::captured(Command::new("id").arg("-u"))?.trim() != "0" {
        unshare.args(["--user", "--map-root-user"]);
    }
    unshare.arg("sh").arg(workspace::root().join(TRIAL)).arg(folder.path()).arg(debian).arg(&made.archive);
    step::shown(unshare.arg(env!("CARGO_PKG_VERSION")))?;
    Ok(Outcome::Passed)
}
