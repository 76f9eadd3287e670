//! Loop devices and file systems of a test's own, which go when the value does. They need root.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::process::output;
use e2e::skip;

/// A loop device over a file.
pub(crate) struct Loop {
    pub(crate) path: PathBuf,
}

/// A mounted file system. A mount namespace that somebody makes meanwhile, as every emulated path does, has a copy of the
/// mount. It goes with the original only below a shared mount, so there is one.
pub(crate) struct Mount {
    pub(crate) path: PathBuf,
}

/// Whether there can be any.
pub(crate) fn available() -> Result<(), String> {
    skip::root()?;
    ["losetup", "mount", "umount", "mkfs.ext4"].into_iter().try_for_each(skip::program)?;
    let probe = tempfile::NamedTempFile::new().expect("a temporary file");
    probe.as_file().set_len(1 << 20).expect("room");
    let made = Command::new("losetup").args(["--find", "--show"]).arg(probe.path()).output();
    match made {
        Ok(made) if made.status.success() => {
            drop(Loop { path: String::from_utf8_lossy(&made.stdout).trim().into() });
            Ok(())
        }
        _ => Err("no loop devices here".to_owned()),
    }
}

/// A file of zeros.
pub(crate) fn sparse(path: &Path, len_bytes: u64) {
    File::create(path).and_then(|file| file.set_len(len_bytes)).expect("room for a file");
}

impl Loop {
    /// Over `file`, with sectors of `sector_bytes`.
    pub(crate) fn over(file: &Path, sector_bytes: u32) -> Loop {
        let mut command = Command::new("losetup");
        command.args(["--find", "--show", "--sector-size", &sector_bytes.to_string()]).arg(file);
        Loop { path: output(&mut command).trim().into() }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).status();
    }
}

impl Mount {
    /// What is on `device`, at `path`.
    pub(crate) fn device(device: &Path, path: &Path) -> Mount {
        let mount = Mount::shared(path);
        output(Command::new("mount").args([device, path]));
        mount
    }

    /// A file system in memory that holds `len_bytes`.
    pub(crate) fn memory(len_bytes: u64, path: &Path) -> Mount {
        let mount = Mount::shared(path);
        let options = format!("size={len_bytes}");
        output(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "farlun-test"]).arg(path));
        mount
    }

    /// A folder that is a shared mount of itself.
    fn shared(path: &Path) -> Mount {
        std::fs::create_dir_all(path).expect("a folder");
        output(Command::new("mount").arg("--bind").args([path, path]));
        let mount = Mount { path: path.to_owned() };
        output(Command::new("mount").arg("--make-shared").arg(path));
        mount
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // The file system, and the folder below it.
        for _ in 0..2 {
            let _ = Command::new("umount").arg(&self.path).status();
        }
    }
}
