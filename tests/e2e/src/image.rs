//! A real file system in an image: ext4 with a few hundred files of this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::process;

/// Files in the image, and how much they may hold together.
const FILES_MAX: usize = 400;
const BYTES_MAX: u64 = 40 << 20;
const FILE_BYTES_MAX: u64 = 1 << 20;

/// An ext4 image in a folder of its own, which goes when this is dropped.
pub struct Image {
    folder: TempDir,
    /// Size of the image, equal to the LUNs that it is written to.
    pub bytes: u64,
    /// SHA-256 of the whole image, in hex.
    pub sha256: String,
}

impl Image {
    /// Makes the image: 64 MiB, or 512 MiB when `FARLUN_LONG` is set.
    pub fn ext4() -> Image {
        let mib = if std::env::var_os("FARLUN_LONG").is_some() { 512 } else { 64 };
        let folder = tempfile::Builder::new().prefix("farlun-image-").tempdir().expect("a temporary folder");
        let tree = folder.path().join("tree");
        let count = copy_real_files(&tree);
        assert!(count >= 200, "only {count} files found for the image");
        let path = folder.path().join("image");
        let file = fs::File::create(&path).expect("an image file");
        file.set_len(mib << 20).expect("room for the image");
        process::output(Command::new("mkfs.ext4").args(["-q", "-F", "-d"]).args([&tree, &path]));
        let sha256 = sha256(&path);
        Image { folder, bytes: mib << 20, sha256 }
    }

    /// Where the image is.
    pub fn path(&self) -> PathBuf {
        self.file("image")
    }

    /// A place for another file beside the image.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The image's size as `--lun` takes it.
    pub fn size(&self) -> String {
        format!("{}MiB", self.bytes >> 20)
    }

    /// Panics unless `copy` has the same contents and its file system is clean.
    #[track_caller]
    pub fn expect_copy(&self, copy: &Path) {
        assert_eq!(sha256(copy), self.sha256, "{} differs from the image", copy.display());
        process::output(Command::new("e2fsck").arg("-fn").arg(copy));
    }
}

/// SHA-256 of a file, in hex, by `sha256sum`.
#[track_caller]
pub fn sha256(path: &Path) -> String {
    let line = process::output(Command::new("sha256sum").arg(path));
    line.split_whitespace().next().expect("sha256sum prints a sum").to_owned()
}

/// Whether what makes and checks images is there.
pub fn available() -> Result<(), String> {
    crate::skip::program("mkfs.ext4")?;
    crate::skip::program("e2fsck")
}

/// Copies files of this machine and of the source tree into `tree`; how many.
fn copy_real_files(tree: &Path) -> usize {
    let mut files = Vec::new();
    for folder in
        [concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates"), "/usr/share/doc", "/usr/share", "/usr/include"]
    {
        collect(Path::new(folder), &mut files);
    }
    fs::create_dir_all(tree).expect("a folder for the files");
    let (mut count, mut bytes) = (0, 0);
    for file in files {
        let size = fs::metadata(&file).map_or(u64::MAX, |metadata| metadata.len());
        if count == FILES_MAX || size > FILE_BYTES_MAX || bytes + size > BYTES_MAX {
            continue;
        }
        let name = file.to_string_lossy().trim_start_matches('/').replace('/', "_");
        if fs::copy(&file, tree.join(&name[name.len().saturating_sub(200)..])).is_ok() {
            count += 1;
            bytes += size;
        }
    }
    count
}

/// Regular files below `folder` in a fixed order, not following links; some thousands at most.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    const ENOUGH: usize = 4000;
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        match fs::symlink_metadata(&path) {
            _ if files.len() >= ENOUGH => return,
            Ok(metadata) if metadata.is_dir() => collect(&path, files),
            Ok(metadata) if metadata.is_file() => files.push(path),
            _ => {}
        }
    }
}
