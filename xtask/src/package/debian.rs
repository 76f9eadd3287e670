//! The Debian package: control files beside a tree, and `dpkg-deb`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::files;
use crate::step;
use crate::workspace;

/// Builds the package of the tree `root` into `folder`; its path. Times in it are `epoch`, in seconds since 1970.
pub(super) fn build(root: &Path, folder: &Path, epoch: u64) -> Result<PathBuf> {
    let architecture = architecture(std::env::consts::ARCH)?;
    let version = env!("CARGO_PKG_VERSION");
    let kibibytes = bytes_below(&root.join("usr"))?.div_ceil(1024);
    let control = files::asset("control.in")?
        .replace("@VERSION@", version)
        .replace("@ARCHITECTURE@", architecture)
        .replace("@KIBIBYTES@", &kibibytes.to_string());
    let debian = root.join("DEBIAN");
    files::write(&debian.join("control"), control.as_bytes(), 0o644)?;
    for script in ["prerm", "postrm"] {
        files::write(&debian.join(script), files::asset(script)?.as_bytes(), 0o755)?;
    }
    let package = folder.join(format!("farlun_{version}_{architecture}.deb"));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "--build"]).arg(root).arg(&package);
    step::shown(build.env("SOURCE_DATE_EPOCH", epoch.to_string()))?;
    Ok(package)
}

/// Debian's name of an architecture.
fn architecture(rust: &str) -> Result<&'static str> {
    match rust {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!(
            "no Debian name is known for the architecture {other}: add it in xtask/src/package/debian.rs"
        ),
    }
}

/// The file `copyright` of the package.
pub(super) fn copyright() -> Result<String> {
    let licence =
        fs::read_to_string(workspace::root().join("LICENSE-MIT")).context("cannot read LICENSE-MIT")?;
    let mut text = files::asset("copyright.in")?;
    for line in licence.lines() {
        // An empty line of a field is a dot.
        text.push_str(if line.trim().is_empty() { " ." } else { " " });
        text.push_str(line.trim());
        text.push('\n');
    }
    Ok(text)
}

fn bytes_below(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        let about = entry.metadata()?;
        bytes += if about.is_dir() { bytes_below(&entry.path())? } else { about.len() };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copyright_file_has_the_whole_licence_in_one_field() {
        let text = copyright().unwrap();
        let field = text.split("License: MIT\n").nth(1).unwrap();
        assert!(field.lines().all(|line| line.starts_with(' ') && line.len() > 1), "{field}");
        let words = field.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("WITHOUT WARRANTY OF ANY KIND"), "{field}");
    }

    #[test]
    fn an_architecture_without_a_debian_name_is_refused() {
        assert_eq!(architecture("aarch64").unwrap(), "arm64");
        assert!(architecture("riscv32").unwrap_err().to_string().contains("riscv32"));
    }
}
