//! Settings of the transfer of data and status.

use super::command::{Remedy, UNMOUNT, remedy};
use super::concurrency::windows;
use super::wanted::Wanted;

/// Longest burst, and the default of open-iscsi: the field's maximum in whole blocks of 512 bytes, less one block.
const BURST_BYTES: u64 = 16_776_192;
/// Largest FirstBurstLength of the Windows initiator and of ESXi, in bytes.
const FIRST_BYTES: u64 = 262_144;
/// Defaults of Linux in KiB; smaller values only split requests.
const MAX_SECTORS_KIB: u64 = 1280;
const READ_AHEAD_KIB: u64 = 4096;

pub(super) fn r2t(wanted: Wanted) -> Vec<Remedy> {
    let first = wanted.first_burst_bytes;
    let esxi = [("InitialR2T", "false".to_owned()), ("FirstBurstLength", FIRST_BYTES.to_string())];
    let esxi = esxi
        .into_iter()
        .chain([("MaxBurstLength", BURST_BYTES.to_string()), ("MaxOutstandingR2T", "8".to_owned())]);
    let esxi: Vec<String> = esxi
        .map(|(key, value)| format!("esxcli iscsi adapter param set -A vmhbaN -k {key} -v {value}"))
        .collect();
    let tgt = [
        ("InitialR2T", "No".to_owned()),
        ("ImmediateData", "Yes".to_owned()),
        ("FirstBurstLength", first.to_string()),
        ("MaxBurstLength", BURST_BYTES.to_string()),
        ("MaxOutstandingR2T", "16".to_owned()),
    ];
    let tgt: Vec<String> = tgt
        .iter()
        .map(|(key, value)| {
            format!("tgtadm --lld iscsi --mode target --op update --tid TID --name {key} --value {value}")
        })
        .collect();
    let parameters = [
        ("InitialR2T", 0),
        ("ImmediateData", 1),
        ("FirstBurstLength", first.min(FIRST_BYTES)),
        ("MaxBurstLength", BURST_BYTES),
    ];
    vec![
        remedy("farlun", "# nothing: both ends ask for the longest bursts; the other end has refused them"),
        remedy(
            "LIO",
            format!(
                "targetcli /iscsi/IQN/tpg1 set parameter InitialR2T=No ImmediateData=Yes FirstBurstLength={first} \
                 MaxBurstLength={BURST_BYTES} MaxOutstandingR2T=16"
            ),
        ),
        remedy("tgt", tgt.join("\n")),
        remedy(
            "open-iscsi",
            format!(
                "{UNMOUNT}\n\
                 iscsiadm -m node -T IQN -o update -n node.session.iscsi.InitialR2T -v No\n\
                 iscsiadm -m node -T IQN -o update -n node.session.iscsi.ImmediateData -v Yes\n\
                 iscsiadm -m node -T IQN -o update -n node.session.iscsi.FirstBurstLength -v {first}\n\
                 iscsiadm -m node -T IQN -o update -n node.session.iscsi.MaxBurstLength -v {BURST_BYTES}\n\
                 iscsiadm -m node -T IQN -u && iscsiadm -m node -T IQN -l"
            ),
        ),
        windows(&parameters),
        remedy("ESXi", esxi.join("\n")),
    ]
}

pub(super) fn block(wanted: Wanted) -> Vec<Remedy> {
    let (bytes, kib) = (wanted.block_bytes, wanted.block_bytes / 1024);
    vec![
        remedy("farlun", format!("farlun bench URL --block {kib}KiB")),
        remedy(
            "Linux",
            format!(
                "echo {MAX_SECTORS_KIB} > /sys/block/DEV/queue/max_sectors_kb\n\
                 echo {} > /sys/block/DEV/queue/read_ahead_kb        # buffered reads\n\
                 fio --bs={bytes} …",
                (kib * 4).max(READ_AHEAD_KIB)
            ),
        ),
        windows(&[("MaxTransferLength", bytes.max(FIRST_BYTES))]),
    ]
}

pub(super) fn nagle() -> Vec<Remedy> {
    vec![
        remedy("farlun", "# leave --compat nagle out: farlun sets TCP_NODELAY"),
        remedy("Linux", "ip route change ROUTE quickack 1        # at the receiver: acknowledge at once"),
        remedy(
            "Windows",
            "rem cmd, as administrator, where it receives; GUID is that of the interface of the path; then restart\n\
             reg add \"HKLM\\SYSTEM\\CurrentControlSet\\Services\\Tcpip\\Parameters\\Interfaces\\{GUID}\" \
             /v TcpAckFrequency /t REG_DWORD /d 1 /f",
        ),
        remedy(
            "ESXi",
            "esxcli iscsi adapter param set -A vmhbaN -k DelayedAck -v false        # then reboot",
        ),
    ]
}

pub(super) fn status() -> Vec<Remedy> {
    vec![remedy(
        "farlun",
        "# leave --compat separate-status out: status goes with the last data. Elsewhere, turn Nagle's algorithm or\n\
         # delayed acknowledgements off: no other stack has a switch for this",
    )]
}
