//! Marks of an open store, by which an identity that is kept under its path is known to be that of another store.
//!
//! Each mark lasts as long as the store: over restarts of the host, and over changes of its device number. A label has
//! the best one. A store whose system gives none has no marks, and is not checked.

use std::fs::{self, File, Metadata};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::UNIX_EPOCH;

/// Names of devices: kind of the mark, and its file in the device's folder of sysfs, the best one first.
const DEVICE_NAMES: [(&str, &str); 5] = [
    ("wwid", "wwid"),
    ("wwid", "device/wwid"),
    ("serial", "serial"),
    ("uuid", "dm/uuid"),
    ("loop", "loop/backing_file"),
];

/// Marks of an open store, the best one first.
pub(crate) fn marks(store: BorrowedFd<'_>) -> Vec<String> {
    let found = store.try_clone_to_owned().map(File::from).and_then(|file| file.metadata());
    match found {
        Ok(found) if found.file_type().is_block_device() => {
            of_device(&Path::new("/sys/dev/block").join(net::fs::device_name(found.rdev())))
        }
        Ok(found) => of_file(&found, net::fs::has_lasting_inodes(store)),
        Err(_) => Vec::new(),
    }
}

/// The number of an inode may be given to another file later, and files that are made together have one time of
/// creation.
fn of_file(found: &Metadata, has_lasting_inodes: bool) -> Vec<String> {
    let birth = found.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let birth = birth.map(|at| format!("birth:{}.{:09}", at.as_secs(), at.subsec_nanos()));
    let inode = has_lasting_inodes.then(|| format!("ino:{}", found.ino()));
    let both = birth.as_ref().zip(inode.as_ref()).map(|(birth, inode)| format!("{birth} {inode}"));
    [both.or(birth), inode].into_iter().flatten().collect()
}

/// Marks of the device with this folder in sysfs. A partition has those of its disk, with its number.
fn of_device(folder: &Path) -> Vec<String> {
    // The folder is a link; that of a partition is in that of its disk.
    let Ok(folder) = folder.canonicalize() else { return Vec::new() };
    let (disk, suffix) = match (text(&folder.join("partition")), folder.parent()) {
        (Some(number), Some(disk)) => (disk, format!(" partition {number}")),
        _ => (&*folder, String::new()),
    };
    let mark = |(kind, name): (&str, &str)| Some(format!("{kind}:{}{suffix}", text(&disk.join(name))?));
    DEVICE_NAMES.into_iter().filter_map(mark).collect()
}

/// Text of a file of sysfs in one line, unless it is empty.
fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().replace(char::is_control, "_")).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn marks_of_a_file_are_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let [path, other, moved] = ["disk", "other", "moved"].map(|name| dir.path().join(name));
        let of = |path: &Path| marks(File::open(path).unwrap().as_fd());
        fs::write(&path, [0; 4096]).unwrap();
        fs::write(&other, [0; 4096]).unwrap();
        let first = of(&path);
        assert!(!first.is_empty());
        assert!(of(&other).iter().all(|mark| !first.contains(mark)), "{first:?}");
        fs::rename(&path, &moved).unwrap();
        fs::write(&moved, [1; 8192]).unwrap();
        assert_eq!(of(&moved), first);
        let found = moved.metadata().unwrap();
        assert_eq!(of_file(&found, true).last(), Some(&format!("ino:{}", found.ino())));
        assert!(of_file(&found, false).iter().all(|mark| !mark.contains("ino:")));
    }

    #[test]
    fn marks_of_a_device_are_the_names_that_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().join("devices/sda");
        fs::create_dir_all(disk.join("device")).unwrap();
        fs::create_dir_all(disk.join("loop")).unwrap();
        fs::create_dir_all(disk.join("sda3")).unwrap();
        let [whole, part] = ["8:0", "8:3"].map(|name| dir.path().join(name));
        symlink(&disk, &whole).unwrap();
        symlink(disk.join("sda3"), &part).unwrap();
        assert_eq!(of_device(&whole), [""; 0]);
        assert_eq!(of_device(&dir.path().join("9:0")), [""; 0]);
        for (name, text) in [
            ("device/wwid", "naa.5000c500a1b2c3d4\n"),
            ("serial", "\n"),
            ("loop/backing_file", "/srv/a disk\n"),
            ("sda3/partition", "3\n"),
        ] {
            fs::write(disk.join(name), text).unwrap();
        }
        assert_eq!(of_device(&whole), ["wwid:naa.5000c500a1b2c3d4", "loop:/srv/a disk"]);
        let expected = ["wwid:naa.5000c500a1b2c3d4 partition 3", "loop:/srv/a disk partition 3"];
        assert_eq!(of_device(&part), expected);
    }
}
