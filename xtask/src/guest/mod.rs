//! Image of the guest: Debian's kernel and packages, made by `recipe.sh` once and kept outside the clone.
//!
//! The folder of an image is named after a hash of the recipe, so that another recipe makes another image. Nothing here boots
//! it: `tests/e2e/tests/guest` does.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::packages;
use crate::step::{self, Outcome};
use crate::workspace;

/// Files that an image is made of, in the folder of this module.
const RECIPE: &[&str] = &["recipe.sh", "init.sh", "agent.sh"];

/// Packages and image, for `cargo xtask guest --image`: prints the folder.
pub(crate) fn print_image() -> Result<bool> {
    packages::ensure(packages::GUEST)?;
    let mut found = None;
    let outcome = ensure_image(&mut found)?;
    match (outcome, found) {
        (Outcome::Skipped(reason), _) => println!("skipped: guest image: {reason}"),
        (Outcome::Passed, Some(image)) => println!("{}", image.display()),
        (Outcome::Passed, None) => {}
    }
    Ok(true)
}

/// Makes the image unless it is cached, and writes its folder to `found`. Skipped where its parts cannot be had.
pub(crate) fn ensure_image(found: &mut Option<PathBuf>) -> Result<Outcome> {
    if let Err(reason) = can_make() {
        return Ok(Outcome::Skipped(reason));
    }
    let folder = workspace::root().join("xtask/src/guest");
    let cache = cache()?;
    let image = cache.join(format!("{:016x}", hash(&folder)?));
    if !image.exists() {
        fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
        let partial = tempfile::Builder::new().prefix("partial-").tempdir_in(&cache)?;
        let recipe = |part: &str| {
            let mut command = Command::new("sh");
            command.arg(folder.join("recipe.sh")).arg(part).arg(partial.path());
            command
        };
        if let Err(error) = fetch(&recipe) {
            return Ok(Outcome::Skipped(format!("the guest's packages cannot be had: {error:#}")));
        }
        step::captured(&mut recipe("build"))?;
        // Another run may have made the same image meanwhile.
        let made = fs::rename(partial.path(), &image);
        if !image.exists() {
            made.with_context(|| format!("cannot name the image {}", image.display()))?;
        }
    }
    let packages = fs::read_to_string(image.join("packages")).context("the image has no list of packages")?;
    for package in
        packages.lines().filter(|line| line.starts_with("linux-image") || line.starts_with("open-iscsi"))
    {
        println!("{package}");
    }
    println!("{}", image.display());
    *found = Some(image);
    Ok(Outcome::Passed)
}

/// Downloads the packages; with lists that are out of date, after reading newer ones.
fn fetch(recipe: &impl Fn(&str) -> Command) -> Result<()> {
    if step::captured(&mut recipe("fetch")).is_ok() {
        return Ok(());
    }
    step::captured(Command::new("apt-get").args(["-qq", "update"]))?;
    step::captured(&mut recipe("fetch")).map(drop)
}

/// Checks that the machine has all programs of the recipe and QEMU; the reason if not.
fn can_make() -> Result<(), String> {
    let programs =
        ["qemu-system-x86_64", "apt-get", "apt-cache", "dpkg-deb", "cpio", "xz", "mkfs.ext4", "chroot"];
    if let Some(missing) = programs.iter().find(|program| !step::have(program)) {
        return Err(format!("`{missing}` is not installed"));
    }
    if !Path::new("/dev/net/tun").exists() {
        return Err("there is no /dev/net/tun".to_owned());
    }
    match step::captured(Command::new("id").arg("-u")) {
        Ok(id) if id.trim() == "0" => Ok(()),
        _ => Err("needs root".to_owned()),
    }
}

/// `$XDG_CACHE_HOME/farlun/guest`, or the same below `~/.cache`.
fn cache() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    Ok(base.context("neither XDG_CACHE_HOME nor HOME is set")?.join("farlun/guest"))
}

/// A hash of the recipe. A toolchain with another hash makes the image again, which does no harm.
fn hash(folder: &Path) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    for name in RECIPE {
        let path = folder.join(name);
        fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?.hash(&mut hasher);
    }
    Ok(hasher.finish())
}
