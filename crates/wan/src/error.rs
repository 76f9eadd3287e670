//! Why a path could not be made or a run not be carried out. What the system said of it is the error's source.

use std::io;
use std::path::PathBuf;

use event::Bytes;

/// Why a run ended without a result.
#[derive(Debug, thiserror::Error)]
pub enum WanError {
    /// The path would hold more than there is memory for.
    #[error(
        "packets that {side} sends need up to {} of memory (rate x delay, and the queue), at most {} are reserved for a \
         direction; give a smaller --rate, --delay or --queue",
        Bytes(*needed_bytes), Bytes(*limit_bytes)
    )]
    Memory {
        /// Which end sends them.
        side: &'static str,
        /// What they need.
        needed_bytes: u64,
        /// What they may have.
        limit_bytes: u64,
    },
    /// The machine has not as much memory as the path may need.
    #[error(
        "packets of both directions need up to {} of memory (rate x delay, and the queue), this machine has {} to give; \
         give a smaller --rate, --delay or --queue",
        Bytes(*needed_bytes), Bytes(*available_bytes)
    )]
    Machine {
        /// What they need.
        needed_bytes: u64,
        /// What there is.
        available_bytes: u64,
    },
    /// The kernel refused a namespace.
    #[error(
        "cannot make a namespace: {0}; run it as root, or let users make namespaces \
         (sysctl user.max_user_namespaces, and on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0)"
    )]
    Namespace(io::Error),
    /// The kernel refused a TUN device.
    #[error(
        "cannot make a TUN device from /dev/net/tun: {0}; run it as root or let users open it (mode 0666), load the module (modprobe tun), \
         and in a container pass the device in (--device /dev/net/tun)"
    )]
    Tun(io::Error),
    /// A device could not be set up.
    #[error("cannot set up the {side} end of the path: {what}")]
    SetUp {
        /// Which end.
        side: &'static str,
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// Threads, descriptors or pipes could not be had.
    #[error("cannot {what}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A command could not be started.
    #[error("cannot start the {side} command '{command}'")]
    Start {
        /// Which end.
        side: &'static str,
        /// The command as given.
        command: String,
        /// What the system said.
        source: io::Error,
    },
    /// The far command ended too early.
    #[error("the far command '{command}' ended with exit code {code} before anything in far listened on TCP")]
    FarEnded {
        /// The command as given.
        command: String,
        /// Its exit code; 128 and the signal's number if a signal ended it.
        code: u8,
    },
    /// The far command never listened.
    #[error("after 10 s nothing in far listens on TCP, which the far command '{0}' was expected to do")]
    FarSilent(String),
    /// The emulator ended before the commands did.
    #[error("the path is gone: one of its devices can be read no more; has it been removed?")]
    Stopped(#[source] io::Error),
    /// A signal ended the run.
    #[error("interrupted by a signal")]
    Interrupted,
    /// The table of packets could not be written.
    #[error(transparent)]
    Table(#[from] store::tables::TableError),
    /// The list of running paths could not be read or written.
    #[error("cannot use {path}")]
    Registry {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no path to enter.
    #[error(
        "no farlun wan of this user is running; start one with: farlun wan --delay 8ms --rate 1gbit -- sh"
    )]
    NoneRunning,
}
