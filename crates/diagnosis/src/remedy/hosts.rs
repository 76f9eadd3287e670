//! Settings of the hosts and of the store.

use super::command::{Remedy, remedy};
use super::wanted::Wanted;

pub(super) fn cpu() -> Vec<Remedy> {
    vec![
        remedy(
            "farlun",
            "farlun bench URL --digest none --block 1MiB        # several targets use several CPUs",
        ),
        remedy(
            "Linux",
            "ip link set dev DEV mtu 9000        # on the whole path\n\
             ethtool -K DEV gro on gso on tso on\n\
             cpupower frequency-set -g performance",
        ),
        remedy(
            "open-iscsi",
            "iscsiadm -m node -T IQN -o update -n 'node.conn[0].iscsi.HeaderDigest' -v None\n\
             iscsiadm -m node -T IQN -o update -n 'node.conn[0].iscsi.DataDigest' -v None",
        ),
        remedy("LIO", "targetcli /iscsi/IQN/tpg1 set parameter HeaderDigest=None DataDigest=None"),
        remedy(
            "Windows",
            "# PowerShell, as administrator; in place of a session with digests\n\
             Enable-NetAdapterRss -Name NIC\n\
             Connect-IscsiTarget -NodeAddress IQN -IsHeaderDigest $false -IsDataDigest $false -IsPersistent $true",
        ),
        remedy("ESXi", "esxcli iscsi adapter param set -A vmhbaN -k DataDigest -v prohibited"),
    ]
}

/// Ways to see the other end, where one end leaves the cause open.
pub(super) fn unseen() -> Vec<Remedy> {
    vec![
        remedy("farlun", "farlun doctor URL        # steps the load, which tells the causes apart"),
        remedy("Linux", "ss -tin        # at the sender: cwnd, rwnd_limited, sndbuf_limited, retrans"),
    ]
}

pub(super) fn target_queue(wanted: Wanted) -> Vec<Remedy> {
    let n = wanted.requests.min(1024);
    vec![
        remedy("tgt", "tgtd --nr_iothreads=32"),
        remedy(
            "Linux",
            format!("echo {n} > /sys/block/DEV/queue/nr_requests        # of the device behind the target"),
        ),
    ]
}

pub(super) fn store_latency(is_write: bool) -> Vec<Remedy> {
    let mut found = vec![
        remedy("farlun", "farlun target --lun file:PATH …        # through the page cache: without direct"),
        remedy("Linux", "# more requests at the same time hide it: see queue-depth"),
    ];
    if is_write {
        found.extend(write_caches());
    }
    found
}

pub(super) fn store_bandwidth(is_write: bool) -> Vec<Remedy> {
    let mut found = vec![
        remedy(
            "Linux",
            "iostat -x 1        # at the target: which device is it? then a faster one, or more of them (RAID 0, 10)",
        ),
        remedy("farlun", "farlun target --lun file:PATH …        # through the page cache: without direct"),
    ];
    if is_write {
        found.extend(write_caches());
    }
    found
}

/// Write caches: writes end sooner, reads are unchanged.
fn write_caches() -> [Remedy; 2] {
    [
        remedy(
            "LIO",
            "targetcli /backstores/fileio create NAME PATH write_back=true        # loses writes with its power",
        ),
        remedy(
            "tgt",
            "# in targets.conf, inside of <target IQN>; loses writes with its power\nwrite-cache on",
        ),
    ]
}
