//! Settings of the number of requests outstanding, and of connections.

use super::command::{Remedy, UNMOUNT, remedy};
use super::wanted::Wanted;

/// Upper limits of the stacks: LIO (`TA_DEFAULT_CMDSN_DEPTH_MAX`), open-iscsi per LUN and per session, tgt, ESXi.
const LIO_MOST: u64 = 512;
const OPEN_ISCSI_LUN_MOST: u64 = 1024;
const OPEN_ISCSI_SESSION_MOST: u64 = 2048;
const TGT_MOST: u64 = 512;
const ESXI_MOST: u64 = 255;

pub(super) fn caller(wanted: Wanted) -> Vec<Remedy> {
    let n = wanted.requests;
    vec![
        remedy(
            "farlun",
            format!("farlun bench URL --depth {n}        # or without --depth, which follows the path"),
        ),
        remedy(
            "Linux",
            format!(
                "fio --ioengine=io_uring --iodepth={n} …\n# buffered reads: blockdev --setra 16384 /dev/DEV"
            ),
        ),
        remedy("Windows", format!("diskspd -o{n} …")),
        remedy("ESXi", format!("esxcli storage core device set -d naa.ID -O {}", n.min(256))),
    ]
}

pub(super) fn queue(wanted: Wanted) -> Vec<Remedy> {
    let n = wanted.requests;
    let (lun, session) = (n.min(OPEN_ISCSI_LUN_MOST), n.min(OPEN_ISCSI_SESSION_MOST));
    vec![
        remedy("farlun", "# leave --queue-limit out: all requests are given to iSCSI"),
        remedy(
            "open-iscsi",
            format!(
                "{UNMOUNT}\n\
                 iscsiadm -m node -T IQN -o update -n node.session.queue_depth -v {lun}\n\
                 iscsiadm -m node -T IQN -o update -n node.session.cmds_max -v {session}\n\
                 iscsiadm -m node -T IQN -u && iscsiadm -m node -T IQN -l\n\
                 echo {lun} > /sys/block/DEV/device/queue_depth        # while it runs"
            ),
        ),
        windows(&[("MaxPendingRequests", n.min(4096))]),
        remedy(
            "ESXi",
            format!(
                "esxcli system module parameters set -a -m iscsi_vmk -p iscsivmk_LunQDepth={}        # then reboot",
                n.min(ESXI_MOST)
            ),
        ),
    ]
}

pub(super) fn window(wanted: Wanted) -> Vec<Remedy> {
    let n = wanted.window;
    vec![
        remedy(
            "farlun",
            format!("farlun target --window {n} …        # or without --window, which follows the path"),
        ),
        remedy(
            "LIO",
            format!(
                "{UNMOUNT}\n\
                 targetcli /iscsi/IQN/tpg1 set attribute default_cmdsn_depth={0}\n\
                 echo {0} > /sys/kernel/config/target/iscsi/IQN/tpgt_1/acls/INITIATOR/cmdsn_depth\n\
                 # then log in again",
                n.min(LIO_MOST)
            ),
        ),
        remedy(
            "tgt",
            format!(
                "{UNMOUNT}\n\
                 tgtadm --lld iscsi --mode target --op update --tid TID --name MaxQueueCmd --value {}\n\
                 # then log in again",
                n.min(TGT_MOST)
            ),
        ),
    ]
}

/// A target that refuses commands: as many as it takes, or a longer queue there. It refused one of `refused_at`
/// outstanding; a session whose window has no more places never sends that one.
pub(super) fn refused(wanted: Wanted, refused_at: f64) -> Vec<Remedy> {
    let n = ((refused_at - 1.0).max(1.0) as u64).min(OPEN_ISCSI_LUN_MOST);
    let more = wanted.requests.min(OPEN_ISCSI_LUN_MOST);
    vec![
        remedy(
            "open-iscsi",
            format!(
                "{UNMOUNT}\n\
                 iscsiadm -m node -T IQN -o update -n node.session.queue_depth -v {n}\n\
                 iscsiadm -m node -T IQN -u && iscsiadm -m node -T IQN -l\n\
                 echo {n} > /sys/block/DEV/device/queue_depth        # while it runs"
            ),
        ),
        remedy(
            "LIO",
            format!(
                "targetcli /backstores/block/NAME set attribute queue_depth={more}        # a longer queue of the LUN\n\
                 {UNMOUNT}\n\
                 # or a window with as many places as the LUN takes commands\n\
                 echo {n} > /sys/kernel/config/target/iscsi/IQN/tpgt_1/acls/INITIATOR/cmdsn_depth\n\
                 # then log in again"
            ),
        ),
        remedy(
            "tgt",
            format!(
                "tgtd --nr_iothreads=32\n\
                 # or a window with as many places as the LUN takes commands; for sessions that begin then\n\
                 tgtadm --lld iscsi --mode target --op update --tid TID --name MaxQueueCmd --value {n}"
            ),
        ),
        remedy("farlun", format!("farlun bench URL --queue-limit {n}")),
        remedy(
            "Linux",
            format!(
                "echo {more} > /sys/block/DEV/queue/nr_requests        # of the device behind the target"
            ),
        ),
        windows(&[("MaxPendingRequests", n)]),
        remedy("ESXi", format!("esxcli storage core device set -d naa.ID -O {}", n.min(ESXI_MOST))),
    ]
}

pub(super) fn connections(wanted: Wanted) -> Vec<Remedy> {
    let n = wanted.connections;
    vec![
        remedy("farlun", format!("farlun bench URL --connections {n}")),
        remedy("LIO", format!("targetcli /iscsi/IQN/tpg1 set parameter MaxConnections={n}")),
        remedy(
            "open-iscsi",
            format!(
                "{UNMOUNT}\n\
                 iscsiadm -m node -T IQN -o update -n node.session.nr_sessions -v {n}        # of one connection each\n\
                 iscsiadm -m node -T IQN -u && iscsiadm -m node -T IQN -l\n\
                 systemctl enable --now multipathd        # joined by dm-multipath; on RHEL first mpathconf --enable"
            ),
        ),
        remedy(
            "Windows",
            "# PowerShell, as administrator; the third line once for each further session, joined by MPIO\n\
             Install-WindowsFeature Multipath-IO        # then restart\n\
             Enable-MSDSMAutomaticClaim -BusType iSCSI; Set-MSDSMGlobalDefaultLoadBalancePolicy -Policy RR\n\
             Connect-IscsiTarget -NodeAddress IQN -IsMultipathEnabled $true -IsPersistent $true",
        ),
        remedy(
            "ESXi",
            "esxcli iscsi networkportal add -A vmhbaN -n vmk2        # one vmkernel port for each connection\n\
             esxcli storage nmp device set -d naa.ID -P VMW_PSP_RR",
        ),
    ]
}

/// Registry values of the Windows initiator's driver; it reads them at system start.
pub(super) fn windows(parameters: &[(&str, u64)]) -> Remedy {
    let line = |(name, value): &(&str, u64)| {
        format!(
            "\nreg add \"HKLM\\SYSTEM\\CurrentControlSet\\Control\\Class\\{{4D36E97B-E325-11CE-BFC1-08002BE10318}}\\\
             000N\\Parameters\" /v {name} /t REG_DWORD /d {value} /f"
        )
    };
    remedy("Windows", WINDOWS.to_owned() + &parameters.iter().map(line).collect::<String>())
}

const WINDOWS: &str =
    "rem cmd, as administrator; 000N is the key whose DriverDesc is Microsoft iSCSI Initiator; then restart";
