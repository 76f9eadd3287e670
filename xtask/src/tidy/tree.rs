//! Text that the rules read: every Rust file below the folders of the workspace's members, and the pages about them.
//!
//! The members come from `cargo metadata`, the files from the disk, so that a folder is read whatever its name is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

/// Pages beside those in `docs/`.
const PAGES: &[&str] = &["ARCHITECTURE.md", "README.md"];

/// A member of the workspace. Paths are relative to the workspace and use `/`.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) name: String,
    /// Folder of its `Cargo.toml`.
    pub(super) folder: String,
    /// Root file of each target: library, binaries, tests, examples.
    pub(super) roots: Vec<String>,
}

/// A file and its text.
#[derive(Debug)]
pub(super) struct File {
    /// Path relative to the workspace, with `/`.
    pub(super) path: String,
    pub(super) text: String,
}

/// Everything that the rules read.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) members: Vec<Member>,
    /// Rust files, sorted by path.
    pub(super) sources: Vec<File>,
    /// Markdown pages, sorted by path.
    pub(super) pages: Vec<File>,
}

impl Tree {
    /// Reads the tree below `root`.
    pub(super) fn read(root: &Path, members: Vec<Member>) -> Result<Self> {
        let mut found = Vec::new();
        for folder in top_folders(&members) {
            collect(&root.join(folder), "rs", &mut found)?;
        }
        let sources = read_all(root, found)?;
        let mut found: Vec<PathBuf> = PAGES.iter().map(|page| root.join(page)).collect();
        collect(&root.join("docs"), "md", &mut found)?;
        let pages = read_all(root, found)?;
        Ok(Self { members, sources, pages })
    }

    /// The member that a file belongs to: the one whose folder is the innermost around it.
    pub(super) fn member_of(&self, path: &str) -> Option<&Member> {
        let around = self.members.iter().filter(|member| lies_in(path, &member.folder));
        around.max_by_key(|member| member.folder.len())
    }
}

/// The members that `cargo metadata` lists.
pub(super) fn members(metadata: &Value) -> Result<Vec<Member>> {
    let root = metadata["workspace_root"].as_str().context("`cargo metadata` names no workspace root")?;
    let relative = |path: &Value| -> Result<String> {
        let path = Path::new(path.as_str().context("a path that is no text")?);
        let inside = path.strip_prefix(root).with_context(|| format!("{} is outside", path.display()))?;
        Ok(inside.to_string_lossy().replace('\\', "/"))
    };
    let packages = metadata["packages"].as_array().context("`cargo metadata` lists no packages")?;
    // A workspace member has no source; everything from a registry has one.
    let ours = packages.iter().filter(|package| package["source"].is_null());
    ours.map(|package| {
        let manifest = relative(&package["manifest_path"])?;
        let targets = package["targets"].as_array().context("a package without targets")?;
        Ok(Member {
            name: package["name"].as_str().context("a package without a name")?.to_owned(),
            folder: parent(&manifest).to_owned(),
            roots: targets.iter().map(|target| relative(&target["src_path"])).collect::<Result<_>>()?,
        })
    })
    .collect()
}

/// The folder of a path; empty for a file of the workspace's own folder.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// True if `path` is `folder` or lies below it.
pub(super) fn lies_in(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The outermost folders around the members, so that a source beside a member is read too.
fn top_folders(members: &[Member]) -> BTreeSet<&str> {
    members.iter().filter_map(|member| member.folder.split('/').next()).collect()
}

fn read_all(root: &Path, mut paths: Vec<PathBuf>) -> Result<Vec<File>> {
    paths.sort();
    let read = |path: PathBuf| -> Result<File> {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let inside = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        Ok(File { path: inside, text })
    };
    paths.into_iter().map(read).collect()
}

fn collect(folder: &Path, extension: &str, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            if !is_build_folder(&path) {
                collect(&path, extension, files)?;
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    Ok(())
}

/// Cargo marks its build folder with this file; a source folder may have the name `target` too.
fn is_build_folder(folder: &Path) -> bool {
    folder.join("CACHEDIR.TAG").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_belongs_to_the_innermost_member() {
        let member = |name: &str, folder: &str| Member {
            name: name.to_owned(),
            folder: folder.to_owned(),
            roots: Vec::new(),
        };
        let members = vec![member("outer", "a"), member("inner", "a/b")];
        let tree = Tree { members, sources: Vec::new(), pages: Vec::new() };
        let owner = |path: &str| tree.member_of(path).map(|member| member.name.as_str());
        assert_eq!(owner("a/src/lib.rs"), Some("outer"));
        assert_eq!(owner("a/b/src/lib.rs"), Some("inner"));
        assert_eq!(owner("ab/src/lib.rs"), None);
    }

    #[test]
    fn members_lie_below_the_workspace() {
        let metadata = serde_json::json!({
            "workspace_root": "/w",
            "packages": [
                {"name": "a", "source": null, "manifest_path": "/w/crates/a/Cargo.toml",
                 "targets": [{"src_path": "/w/crates/a/src/lib.rs"}, {"src_path": "/w/crates/a/tests/t.rs"}]},
                {"name": "b", "source": "registry", "manifest_path": "/r/b/Cargo.toml", "targets": []},
            ],
        });
        let members = members(&metadata).expect("well-formed");
        assert_eq!(members.len(), 1, "a package of a registry is no member");
        assert_eq!((members[0].name.as_str(), members[0].folder.as_str()), ("a", "crates/a"));
        assert_eq!(members[0].roots, ["crates/a/src/lib.rs", "crates/a/tests/t.rs"]);
    }
}
