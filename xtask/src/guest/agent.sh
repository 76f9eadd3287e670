#!/bin/sh
# Program 1 of the guest. Runs the scripts that arrive at the virtio port, one after the other, and answers with their output
# and their exit code: see `tests/e2e/tests/guest/machine/mod.rs`, which is the other end.
export PATH=/usr/sbin:/usr/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
mkdir -p /dev/pts /dev/shm /run/lock
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
modprobe -a virtio_console virtio_net
ip link set lo up
# One interface for each TAP device of the host, in their order.
number=0
for device in $(ls /sys/class/net | grep -v '^lo$'); do
    ip address add "10.77.$number.2/24" dev "$device"
    ip link set "$device" up
    number=$((number + 1))
done
tries=0
until [ -c /dev/vport*p1 ]; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || { echo "guest: no virtio port" >/dev/console; exit 1; }
    sleep 0.05
done
port=$(echo /dev/vport*p1)
exec 3<>"$port"
echo "--ready-- $(cut -d' ' -f1 /proc/uptime) $(uname -r)" >&3
: >/run/request
# Until QEMU has said that the host is there, a read finds nothing.
while :; do
    while IFS= read -r line <&3; do
        if [ "$line" != --run-- ]; then
            printf '%s\n' "$line" >>/run/request
            continue
        fi
        sh /run/request </dev/null >/run/answer 2>&1 3>&-
        code=$?
        { cat /run/answer; printf '\n--done-- %s\n' $code; } >&3
        : >/run/request
    done
    sleep 0.1
done
