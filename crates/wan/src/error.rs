//! Errors of a path or a run. The system's own error is their source.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use event::{BitRate, Bytes};

use crate::spec::{HOSTS_MAX, HostName};

/// Reason why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum WanError {
    /// The packets of a direction need more memory than the limit.
    #[error(
        "packets that {side} sends need up to {} of memory (rate x delay, and the queue), at most {} are reserved for a \
         direction; give a smaller --rate, --delay or --queue",
        Bytes(*needed_bytes), Bytes(*limit_bytes)
    )]
    Memory {
        /// Sending end.
        side: &'static str,
        /// Memory needed.
        needed_bytes: u64,
        /// Memory limit of a direction.
        limit_bytes: u64,
    },
    /// The packets need more memory than the machine has available.
    #[error(
        "packets of both directions need up to {} of memory (rate x delay, and the queue), this machine has {} to give; \
         give a smaller --rate, --delay or --queue",
        Bytes(*needed_bytes), Bytes(*available_bytes)
    )]
    Machine {
        /// Memory needed.
        needed_bytes: u64,
        /// Memory available.
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
    /// The kernel refused a veth pair or a packet socket.
    #[error(
        "cannot make a veth pair with a packet socket: {0}; load the module (modprobe veth), or let users open \
         /dev/net/tun (mode 0666)"
    )]
    Veth(io::Error),
    /// It refused both.
    #[error(
        "cannot make a device: /dev/net/tun: {tun}; a veth pair instead: {veth}; run it as root or let users open \
         /dev/net/tun (mode 0666), load a module (modprobe tun, or modprobe veth), and in a container pass the device in \
         (--device /dev/net/tun)"
    )]
    Device {
        /// Why no TUN.
        tun: io::Error,
        /// Why no veth pair.
        veth: io::Error,
    },
    /// The kernel has no queue that could be a ring.
    #[error(
        "cannot put a ring before a veth pair, which takes the queues tbf and pfifo: {0}; load the module \
         (modprobe sch_tbf), or let users open /dev/net/tun (mode 0666), whose rings need no queue"
    )]
    Ring(io::Error),
    /// The ring of a veth pair needs TCP settings, which are not changed on this machine.
    #[error("--ring with --host needs a TUN: open /dev/net/tun to this user, or leave --device veth out")]
    RingHere,
    /// This machine cannot be the far end.
    #[error(
        "{address}/{bits} is an address of this machine already, which --host would give it; end the other \
         farlun wan --host, or take the address away"
    )]
    AddressTaken {
        /// The address.
        address: IpAddr,
        /// The length of its prefix.
        bits: u8,
    },
    /// This machine has a route into the network of the path's hosts.
    #[error(
        "this machine has a route to {destination}/{bits} already, where --host needs 198.18.0.0/24 for itself; take \
         the route away"
    )]
    RouteTaken {
        /// The route's network.
        destination: Ipv4Addr,
        /// The length of its prefix.
        bits: u32,
    },
    /// More hosts than there are names for.
    #[error("{found} {side} hosts, expected 1 to {HOSTS_MAX}")]
    Hosts {
        /// Which end.
        side: &'static str,
        /// Number of hosts given.
        found: u8,
    },
    /// The number of rates differs from the number of near hosts.
    #[error(
        "--near-rates: {rates} given, expected one for each near host, {hosts} in all: that of COMMAND and one for each --near"
    )]
    NearRates {
        /// Number of rates given.
        rates: usize,
        /// Number of near hosts.
        hosts: u8,
    },
    /// Rates of single lines that exceed the rate of the common part.
    #[error(
        "--near-rates come to {together}, expected no more than the --rate of {rate} in all; give a larger --rate"
    )]
    NearRatesTogether {
        /// Sum of the rates.
        together: BitRate,
        /// Rate of the common part.
        rate: BitRate,
    },
    /// The queue before the slowest of the near hosts' lines has no room for a packet.
    #[error(
        "the queue of the slowest of --near-rates, whose part of --queue is as its part of --rate, is {queue_bytes} bytes, expected \
         {packet_bytes} for a packet at least; give a larger --queue"
    )]
    NearQueue {
        /// Capacity of the smallest queue.
        queue_bytes: u64,
        /// Size of the largest packet.
        packet_bytes: u64,
    },
    /// A policer that no full packet would pass.
    #[error(
        "--police has a burst of {burst_bytes} bytes, expected {packet_bytes} for a packet at least; give a larger burst or a \
         smaller --mtu"
    )]
    PolicerBurst {
        /// Length of the burst.
        burst_bytes: u64,
        /// Length of the largest packet on the wire.
        packet_bytes: u64,
    },
    /// A device's ring empties at the rate of one line.
    #[error("--ring with --near-rates: a ring empties at the rate of one line; leave one of the two out")]
    RingOfLines,
    /// The path that runs has no such host.
    #[error("the path that runs has no host {name}; it has {there}")]
    NoSuchHost {
        /// The host that does not exist.
        name: HostName,
        /// The hosts that it has.
        there: String,
    },
    /// A device could not be set up.
    #[error("cannot set up the host {host}: {what}")]
    SetUp {
        /// Which host.
        host: String,
        /// Attempted step.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// The kernel's tracepoints cannot be had.
    #[error("cannot trace the kernel: {0}; leave --trace-kernel out")]
    Tracing(net::tracing::TracingError),
    /// Threads, descriptors or pipes could not be had.
    #[error("cannot {what}")]
    System {
        /// Attempted step.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A command could not be started.
    #[error("cannot start the command '{command}' in {host}")]
    Start {
        /// Which host.
        host: HostName,
        /// The command as given.
        command: String,
        /// The system's error.
        source: io::Error,
    },
    /// The far command ended too early.
    #[error("the command '{command}' ended with exit code {code} before anything in {host} listened on TCP")]
    FarEnded {
        /// Host of the command.
        host: HostName,
        /// The command as given.
        command: String,
        /// Its exit code; 128 and the signal's number if a signal ended it.
        code: u8,
    },
    /// The far command never listened.
    #[error(
        "after 10 s nothing in {host} listens on TCP where other hosts can reach it, which its command '{command}' was expected to do"
    )]
    FarSilent {
        /// Host of the command.
        host: HostName,
        /// The command as given.
        command: String,
    },
    /// The emulator ended before the commands did.
    #[error("the path is gone: one of its devices can be read no more; has it been removed?")]
    Stopped(#[source] io::Error),
    /// A signal ended the run.
    #[error("interrupted by a signal")]
    Interrupted,
    /// The table of packets could not be written.
    #[error(transparent)]
    Table(#[from] tables::TableError),
    /// The list of running paths could not be read or written.
    #[error("cannot use {path}")]
    Registry {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// No path runs that could be entered.
    #[error(
        "no farlun wan of this user is running; start one with: farlun wan --delay 8ms --rate 1gbit -- sh"
    )]
    NoneRunning,
}
