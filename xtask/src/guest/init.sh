#!/bin/busybox sh
# First program of the guest, in its initramfs: loads the modules that reach the disk and goes on from there.
b=/bin/busybox
$b mount -t devtmpfs dev /dev
while read -r module; do $b insmod "/modules/$module"; done </order
tries=0
until [ -b /dev/vda ]; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || { echo "guest: no disk /dev/vda" >/dev/console; exit 1; }
    $b sleep 0.05
done
$b mount -t ext4 -o noatime /dev/vda /root && $b umount /dev && exec $b switch_root /root /agent
echo "guest: the root file system cannot be used" >/dev/console
