#!/bin/sh
# Takes farlun's place in tests of the lab: called as `wan --json --trace DIR --delay D …`, it does what the
# test has written into the file `body`, four directories above DIR. That sees $dir, $delay and $n, the
# attempt at this delay, and calls `document OK NEAR_CODE` to print what `farlun wan --json` prints, over $device.
# (It is a file of its own because a program that was written a moment ago may be "busy" when it is started.)
dir=$4
delay=$6
state=$dir/../../../..
n=$(cat "$state/attempts-$delay" 2>/dev/null || echo 0)
n=$((n + 1))
echo "$n" >"$state/attempts-$delay"
document() {
    tr -d '\n' <<END
{"path": {"delay_ns": 8000000, "rate_bits_per_s": 1000000000, "queue_bytes": 1000000, "mtu": 1500, "device": "${device:-tun}"},
"emulator": {"realtime": true},
"validity": {"ok": $1, "reasons": ["packets were late by 3ms (p99)"], "packets": 7,
    "lateness_ns": {"p50": 1000, "p99": 3000000, "max": 4000000}},
"near": {"command": ["bench"], "exit_code": $2, "output": {"kind": "bench", "op": "read",
    "t_start_ns": 0, "t_end_ns": 3000000000, "cpu": {"near_ns_per_io": 15000}}},
"far": {"command": ["target"], "exit_code": 143, "asked_to_end": true, "output": null},
"sysctls": {"net.ipv4.tcp_no_metrics_save": "1"}}
END
}
. "$state/body"
