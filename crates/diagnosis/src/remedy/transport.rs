//! Settings of TCP and of the device below it.

use super::command::{Remedy, UNMOUNT, remedy};
use super::sysctl;
use super::wanted::Wanted;

/// Smallest and first size of buffers in bytes, the defaults of Linux.
const SEND_BYTES: [u64; 2] = [4096, 16_384];
const RECEIVE_BYTES: [u64; 2] = [4096, 131_072];

pub(super) fn send_buffer(wanted: Wanted) -> Vec<Remedy> {
    let bytes = wanted.buffer_bytes;
    vec![
        remedy(
            "Linux",
            format!(
                "{} net.core.wmem_max={bytes}        # at the sender",
                sysctl::tcp_buffer("tcp_wmem", SEND_BYTES, bytes)
            ),
        ),
        remedy("farlun", "# nothing: buffers are left to the kernel's autotuning, whose limit is above"),
    ]
}

pub(super) fn receive_window(wanted: Wanted) -> Vec<Remedy> {
    let bytes = wanted.buffer_bytes;
    vec![
        remedy(
            "Linux",
            format!(
                "{} net.core.rmem_max={bytes}        # at the receiver",
                sysctl::tcp_buffer("tcp_rmem", RECEIVE_BYTES, bytes)
            ),
        ),
        remedy(
            "open-iscsi",
            format!(
                "{UNMOUNT}\n\
                 # a window that is set switches autotuning off; it is taken when the session is made\n\
                 iscsiadm -m node -T IQN -o update -n 'node.conn[0].tcp.window_size' -v {bytes}\n\
                 iscsiadm -m node -T IQN -u && iscsiadm -m node -T IQN -l"
            ),
        ),
        remedy("Windows", format!("netsh int tcp set global autotuninglevel={}", windows_level(bytes))),
    ]
}

/// Autotuning level of a Windows receiver: `normal` scales windows by 2^8, which ends at 16 MB.
fn windows_level(buffer_bytes: u64) -> &'static str {
    // A Linux buffer advertises half of itself.
    if buffer_bytes / 2 > WINDOWS_NORMAL_BYTES { "experimental" } else { "normal" }
}

const WINDOWS_NORMAL_BYTES: u64 = 16 << 20;

pub(super) fn loss() -> Vec<Remedy> {
    vec![
        remedy(
            "farlun",
            "farlun target --cc bbr …        # at the sender of the data; for writes: farlun bench --cc bbr",
        ),
        remedy(
            "Linux",
            "modprobe tcp_bbr && sysctl -w net.core.default_qdisc=fq net.ipv4.tcp_congestion_control=bbr        # at the sender\n\
             tc -s qdisc show dev DEV; ethtool -S DEV        # where are the losses?",
        ),
        remedy(
            "Windows",
            "rem at the sender; Windows 11 22H2 and later; internet is what connections of more than 10 ms follow\n\
             netsh int tcp set supplemental template=internet congestionprovider=bbr2",
        ),
    ]
}

pub(super) fn path_mtu() -> Vec<Remedy> {
    vec![
        remedy(
            "Linux",
            "ping -M do -s 8972 PEER; ping -M do -s 1472 PEER        # MTU 9000 and 1500: which one gets through?\n\
             ip link set dev DEV mtu 1500        # at both ends; new connections have a smaller MSS\n\
             sysctl -w net.ipv4.tcp_mtu_probing=1        # at the sender, where the MTU has to stay: smaller segments after a stall",
        ),
        remedy(
            "Linux router",
            "# in front of the narrow part of the path: SYNs announce no more than it carries\n\
             nft add rule inet filter forward tcp flags syn tcp option maxseg size set rt mtu\n\
             # a filter that drops these messages keeps senders from learning the MTU\n\
             nft insert rule inet filter forward icmp type destination-unreachable icmp code frag-needed accept\n\
             nft insert rule inet filter forward icmpv6 type packet-too-big accept",
        ),
        remedy(
            "Windows",
            "ping -f -l 8972 PEER\n\
             netsh interface ipv4 set subinterface \"NAME\" mtu=1500 store=persistent",
        ),
        remedy(
            "ESXi",
            "vmkping -d -s 8972 -I vmkN PEER\n\
             esxcli network ip interface set -i vmkN -m 1500",
        ),
    ]
}

pub(super) fn device_queue() -> Vec<Remedy> {
    vec![
        remedy("farlun", "# leave --no-pacing out: a sender that is paced does not overflow its device"),
        remedy(
            "Linux",
            "tc qdisc replace dev DEV root fq        # at the sender: paced, and TCP waits for its turn\n\
             ip link set dev DEV txqueuelen 10000\n\
             ethtool -G DEV tx 4096",
        ),
    ]
}

pub(super) fn congestion_window(wanted: Wanted) -> Vec<Remedy> {
    vec![
        remedy("farlun", "# leave --no-pacing out: a paced start fills a long line in a few round trips"),
        remedy(
            "Linux",
            format!(
                "sysctl -w net.ipv4.tcp_slow_start_after_idle=0        # at the sender\n\
                 ip route change ROUTE initcwnd {0} initrwnd {0}        # only on a path that is yours alone",
                wanted.packets
            ),
        ),
    ]
}

pub(super) fn pacing() -> Vec<Remedy> {
    vec![
        remedy("farlun", "farlun target --no-pacing …        # for writes: farlun bench --no-pacing"),
        remedy("Linux", "tc qdisc replace dev DEV root fq        # at the sender; without maxrate"),
    ]
}
