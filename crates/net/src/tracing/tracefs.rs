//! Record layouts of trace events: the `format` files of tracefs.
//!
//! An existing mount is used; otherwise tracefs is mounted privately for this process, without a mount point.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr;

use crate::syscall::check;

// linux/mount.h
const FSOPEN_CLOEXEC: libc::c_uint = 1;
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
const FSMOUNT_CLOEXEC: libc::c_uint = 1;

/// Usual mount points.
const MOUNTED: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// An open tracefs.
#[derive(Debug)]
pub(super) struct Tracefs {
    root: PathBuf,
    _mount: Option<OwnedFd>,
}

/// Record layout of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Format {
    /// Event number at the start of the records.
    pub(super) id: u16,
    fields: Vec<(String, Field)>,
}

/// Position of a field in a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Field {
    offset: usize,
    size: usize,
}

impl Tracefs {
    pub(super) fn open() -> io::Result<Tracefs> {
        let mounted = MOUNTED.into_iter().find(|path| Path::new(path).join("events").is_dir());
        match mounted {
            Some(root) => Ok(Tracefs { root: root.into(), _mount: None }),
            None => {
                let mount = mount()?;
                let root = format!("/proc/self/fd/{}", mount.as_raw_fd()).into();
                Ok(Tracefs { root, _mount: Some(mount) })
            }
        }
    }

    /// Reads the layout of an event such as `tcp/tcp_probe`.
    pub(super) fn format(&self, event: &str) -> io::Result<Format> {
        let path = self.root.join("events").join(event).join("format");
        let text = fs::read_to_string(path)?;
        Format::parse(&text).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("the format of {event} is not understood"))
        })
    }
}

impl Format {
    pub(super) fn parse(text: &str) -> Option<Format> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID: "))?.trim().parse().ok()?;
        let fields = text.lines().filter_map(|line| {
            let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
            // A type of several words, then a name, possibly with a length in brackets.
            let name = parts.next()?.split_whitespace().next_back()?;
            let name = name.split('[').next()?.trim_start_matches('*');
            let mut number = |key| parts.next()?.strip_prefix(key)?.parse().ok();
            Some((name.to_owned(), Field { offset: number("offset:")?, size: number("size:")? }))
        });
        Some(Format { id, fields: fields.collect() })
    }

    /// Position of a field, if this kernel has it.
    pub(super) fn field(&self, name: &str) -> Option<Field> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, field)| *field)
    }
}

impl Field {
    /// Bytes of the field in a record.
    pub(super) fn bytes(self, record: &[u8]) -> Option<&[u8]> {
        record.get(self.offset..self.offset + self.size)
    }

    /// An unsigned number of one to eight bytes.
    pub(super) fn number(self, record: &[u8]) -> Option<u64> {
        let bytes = self.bytes(record)?;
        Some(match bytes.len() {
            1 => u64::from(bytes[0]),
            2 => u64::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
            4 => u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
            8 => u64::from_ne_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }
}

fn mount() -> io::Result<OwnedFd> {
    let owned = |result: libc::c_long| {
        let raw = check(result as libc::c_int)?;
        // SAFETY: the kernel has just returned this descriptor, which has no other owner.
        Ok::<_, io::Error>(unsafe { OwnedFd::from_raw_fd(raw) })
    };
    // SAFETY: the name is a string that ends with a zero byte.
    let context = owned(unsafe { libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), FSOPEN_CLOEXEC) })?;
    let (raw, none) = (context.as_raw_fd(), ptr::null::<libc::c_char>());
    // SAFETY: creating takes no key and no value.
    check(
        unsafe { libc::syscall(libc::SYS_fsconfig, raw, FSCONFIG_CMD_CREATE, none, none, 0) } as libc::c_int
    )?;
    // SAFETY: no pointers are passed.
    owned(unsafe { libc::syscall(libc::SYS_fsmount, raw, FSMOUNT_CLOEXEC, 0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_read() {
        let text = "name: tcp_probe\nID: 2273\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
            \tfield:__u8 saddr[28];\toffset:8;\tsize:28;\tsigned:0;\n\
            \tfield:__u16 sport;\toffset:64;\tsize:2;\tsigned:0;\n\
            \tfield:const void * skaddr;\toffset:128;\tsize:8;\tsigned:0;\n\n\
            print fmt: \"src=%pISpc field:none; offset:1;\", REC->saddr\n";
        let format = Format::parse(text).expect("a format");
        assert_eq!((format.id, format.fields.len()), (2273, 4));
        assert_eq!(format.field("saddr"), Some(Field { offset: 8, size: 28 }));
        assert_eq!(format.field("skaddr"), Some(Field { offset: 128, size: 8 }));
        assert_eq!(format.field("mark"), None);
        let mut record = [0; 66];
        record[64..].copy_from_slice(&3260_u16.to_ne_bytes());
        let port = format.field("sport").expect("a port");
        assert_eq!((port.number(&record), port.number(&record[..65])), (Some(3260), None));
        for text in ["", "format:", "ID: many\n"] {
            assert_eq!(Format::parse(text), None);
        }
    }
}
