//! The tree of installed files below a prefix.

use std::path::Path;

use anyhow::{Context, Result};

use super::debian;
use super::files::{asset, compress, copy, list, write};
use crate::workspace;

/// Differences between the packages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Layout {
    /// For any prefix, such as `/usr/local`.
    Plain,
    /// For `/usr` of a Debian system.
    Debian,
}

/// Contents of a package.
pub(super) struct Tree<'a> {
    pub(super) layout: Layout,
    pub(super) binary: &'a Path,
    /// Folder with `man/` and `completions/`.
    pub(super) pages: &'a Path,
    /// Licences of the libraries in the binary.
    pub(super) notices: &'a str,
}

impl Tree<'_> {
    /// Writes the files below `prefix`.
    pub(super) fn write(&self, prefix: &Path) -> Result<()> {
        let root = workspace::root();
        copy(self.binary, &prefix.join("bin/farlun"), 0o755)?;
        for page in list(&self.pages.join("man"))? {
            let to = prefix.join("share/man/man1").join(page.file_name().context("a page without a name")?);
            copy(&page, &to, 0o644)?;
            compress(&to)?;
        }
        let zsh = match self.layout {
            Layout::Plain => "share/zsh/site-functions/_farlun",
            Layout::Debian => "share/zsh/vendor-completions/_farlun",
        };
        for (from, to) in [
            ("farlun.bash", "share/bash-completion/completions/farlun"),
            ("_farlun", zsh),
            ("farlun.fish", "share/fish/vendor_completions.d/farlun.fish"),
        ] {
            copy(&self.pages.join("completions").join(from), &prefix.join(to), 0o644)?;
        }
        let unit = "farlun-target.service";
        write(&prefix.join("lib/systemd/system").join(unit), asset(unit)?.as_bytes(), 0o644)?;

        let doc = prefix.join("share/doc/farlun");
        copy(&root.join(SAMPLE), &doc.join("examples/target.toml"), 0o644)?;
        write(&doc.join("THIRD-PARTY.txt"), self.notices.as_bytes(), 0o644)?;
        match self.layout {
            Layout::Plain => {
                for name in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
                    copy(&root.join(name), &doc.join(name), 0o644)?;
                }
                Ok(())
            }
            Layout::Debian => {
                write(&doc.join("copyright"), debian::copyright()?.as_bytes(), 0o644)?;
                copy(&root.join("CHANGELOG.md"), &doc.join("changelog"), 0o644)?;
                compress(&doc.join("changelog"))?;
                compress(&doc.join("THIRD-PARTY.txt"))
            }
        }
    }
}

/// Sample of a target's configuration.
const SAMPLE: &str = "docs/target.toml";
