//! Release build of another revision, in a worktree and with a build folder of its own.
//!
//! Both stay between calls, so that a second build of the same revision is a look and one of its neighbour a few crates.
//! The worktree may be gone or unknown to git in the meantime: then it is made anew.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{step, workspace};

/// The folder with worktree and builds, used exclusively while this value exists.
pub(super) struct Folder<'a> {
    root: &'a Path,
    path: PathBuf,
    _lock: File,
}

/// A build of a revision.
pub(super) struct Built {
    /// The revision as given on the command line, and its commit.
    pub(super) name: String,
    pub(super) binary: PathBuf,
}

impl<'a> Folder<'a> {
    /// Opens the folder at `path` for revisions of the repository at `root`.
    pub(super) fn open(root: &'a Path, path: PathBuf) -> Result<Folder<'a>> {
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let lock =
            File::create(path.join("lock")).with_context(|| format!("cannot lock {}", path.display()))?;
        match lock.try_lock() {
            Ok(()) => Ok(Folder { root, path, _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                bail!(
                    "another `bench --against` uses {}: two at once would measure each other",
                    path.display()
                )
            }
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock {}", path.display()))
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Builds a revision.
    pub(super) fn build(&self, revision: &str) -> Result<Built> {
        let commit = resolve(self.root, revision)?;
        let short = commit.get(..12).unwrap_or(&commit);
        let name =
            if commit.starts_with(revision) { short.to_owned() } else { format!("{revision} ({short})") };
        let tree = self.path.join("tree");
        check_out(self.root, &tree, &commit).with_context(|| format!("{name} cannot be checked out"))?;
        let binary = workspace::release_binary_of(&tree, &self.path.join("build"), Some(&commit))
            .with_context(|| format!("{name} does not build"))?;
        Ok(Built { name, binary })
    }
}

/// The commit of a revision.
fn resolve(root: &Path, revision: &str) -> Result<String> {
    let peeled = format!("{revision}^{{commit}}");
    let commit = git(root, &["rev-parse", "--verify", "--quiet", "--end-of-options", &peeled]);
    commit.ok().with_context(|| format!("{revision} is no commit of this repository"))
}

/// Brings the worktree `tree` of the repository at `root` to `commit`, whatever became of it since it was made.
fn check_out(root: &Path, tree: &Path, commit: &str) -> Result<()> {
    if is_worktree(root, tree) {
        // Unchanged files keep their times, so cargo rebuilds only the difference.
        git(tree, &["checkout", "--quiet", "--force", "--detach", commit])?;
        return Ok(());
    }
    if tree.exists() {
        fs::remove_dir_all(tree).with_context(|| format!("cannot remove {}", tree.display()))?;
    }
    let path = tree.to_str().with_context(|| format!("{} is no text", tree.display()))?;
    // By force: git may remember a worktree at this place whose folder is gone.
    git(root, &["worktree", "add", "--quiet", "--force", "--detach", path, commit])?;
    Ok(())
}

/// Returns true if `tree` is the top of a worktree of the repository at `root`. An ordinary folder lies in the worktree
/// around it, and a checkout there would overwrite the user's files.
fn is_worktree(root: &Path, tree: &Path) -> bool {
    let ask = |folder: &Path, flag: &str| {
        let answer = git(folder, &["rev-parse", "--path-format=absolute", flag]).ok()?;
        fs::canonicalize(answer).ok()
    };
    let top = fs::canonicalize(tree).ok();
    top.is_some()
        && ask(tree, "--show-toplevel") == top
        && ask(tree, "--git-common-dir").is_some_and(|common| ask(root, "--git-common-dir") == Some(common))
}

/// Runs git in `folder` and returns its output without the line's end.
fn git(folder: &Path, args: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    // No hooks: they are written for the user's own checkouts. Variables set by a hook name another repository.
    command.args(["-c", "core.hooksPath=/dev/null"]).args(args).current_dir(folder);
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"] {
        command.env_remove(variable);
    }
    Ok(step::captured(&mut command)?.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use e2e::{need, skip};

    use super::*;

    /// A repository of two commits of the file `file`, with a change that is not committed.
    struct Repository {
        folder: tempfile::TempDir,
        commits: [String; 2],
    }

    impl Repository {
        fn new() -> Result<Repository> {
            let folder = tempfile::tempdir()?;
            let root = folder.path();
            git(root, &["init", "--quiet"])?;
            fs::write(root.join(".gitignore"), "/target\n")?;
            let commit = |text: &str| -> Result<String> {
                fs::write(root.join("file"), text)?;
                git(root, &["add", "."])?;
                let author = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
                git(root, &[&author[..], &["commit", "--quiet", "--no-gpg-sign", "-m", text]].concat())?;
                git(root, &["rev-parse", "HEAD"])
            };
            let commits = [commit("first")?, commit("second")?];
            fs::write(root.join("file"), "not committed")?;
            Ok(Repository { folder, commits })
        }

        fn root(&self) -> &Path {
            self.folder.path()
        }

        fn tree(&self) -> PathBuf {
            self.root().join("target/against/tree")
        }

        /// Checks out both commits and looks at the file in the worktree and at the user's own.
        fn check(&self) -> Result<()> {
            for (commit, text) in self.commits.iter().zip(["first", "second"]) {
                check_out(self.root(), &self.tree(), commit)?;
                assert_eq!(fs::read_to_string(self.tree().join("file"))?, text);
                assert_eq!(fs::read_to_string(self.root().join("file"))?, "not committed");
            }
            Ok(())
        }
    }

    #[test]
    fn a_worktree_is_kept_and_made_anew() {
        need!(skip::program("git"));
        every_state_of_the_folder().expect("git answers");
    }

    fn every_state_of_the_folder() -> Result<()> {
        let repository = Repository::new()?;
        let (root, tree) = (repository.root(), repository.tree());
        repository.check()?;
        // Changed by hand.
        fs::write(tree.join("file"), "changed")?;
        repository.check()?;
        // The folder is gone and git remembers the worktree.
        fs::remove_dir_all(&tree)?;
        repository.check()?;
        // The folder removed and pruned by git.
        fs::remove_dir_all(&tree)?;
        git(root, &["worktree", "prune"])?;
        repository.check()?;
        // Git has forgotten it and its folder is there.
        fs::remove_dir_all(root.join(".git/worktrees"))?;
        repository.check()?;
        // An ordinary folder, which belongs to the user's own checkout.
        git(root, &["worktree", "remove", "--force", tree.to_str().context("a path that is text")?])?;
        fs::create_dir_all(&tree)?;
        repository.check()?;
        // A worktree of another repository.
        fs::remove_dir_all(&tree)?;
        let other = Repository::new()?;
        check_out(other.root(), &tree, &other.commits[0])?;
        repository.check()
    }
}
