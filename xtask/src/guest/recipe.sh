#!/bin/sh
# Recipe of the guest image. `fetch FOLDER` downloads the Debian packages into FOLDER/debs; `build FOLDER` makes from
# them what QEMU boots: FOLDER/kernel, FOLDER/initramfs (busybox and the modules that reach the disk) and FOLDER/root.img
# (everything else, ext4). Nothing is installed on this machine. The cache is keyed by the text of this folder.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$2

# Dependencies follow, apart from those that only maintainer scripts and unused programs need.
packages="busybox-static coreutils dash kmod iproute2 open-iscsi e2fsprogs fio multipath-tools udev"
left_out='^(adduser|cpio|debconf|dpkg|gcc-.*-base|init-system-helpers|initramfs-tools.*|klibc-utils|libfile-find-rule-perl|libklibc|libnumber-compare-perl|libpam-.*|libperl.*|libpython.*|libtext-glob-perl|linux-base|media-types|passwd|perl.*|python.*|sg3-utils-udev|tar|usrmerge)$'

# Folders of the kernel's modules; modprobe finds what is missing, if anything is.
modules="arch/x86/crypto block crypto drivers/block/virtio_blk drivers/char/virtio_console drivers/md drivers/net/net_failover
    drivers/net/veth drivers/net/virtio_net drivers/scsi drivers/target drivers/virtio fs/configfs fs/ext4 fs/jbd2 fs/mbcache lib
    net/core/failover net/sched/sch_netem"
# Modules that the initramfs loads to reach the disk.
early="virtio_pci virtio_blk ext4 crc32c_generic"

fetch() {
    mkdir -p "$folder/debs"
    : >"$folder/status"
    cd "$folder/debs"
    kernel=$(apt-cache depends linux-image-amd64 | awk '$1 == "Depends:" && $2 ~ /^linux-image-[0-9]/ { print $2; exit }')
    [ -n "$kernel" ] || { echo "apt knows no linux-image-amd64" >&2; exit 1; }
    # With an empty list of installed packages apt names the libraries too.
    uris=$(apt-get install -qq --print-uris --no-install-recommends -o Debug::NoLocking=1 -o Dir::State::status="$folder/status" $packages)
    names=$(echo "$uris" | sed 's/^[^ ]* \([^_ ]*\)_.*/\1/' | grep -vE "$left_out")
    apt-get download -qq -o APT::Sandbox::User=root $kernel $names
    ls | sed 's/%3a/:/' >"$folder/packages"
}

build() {
    tree=$folder/tree
    mkdir -p "$tree/usr/bin" "$tree/usr/sbin" "$tree/usr/lib" "$tree/usr/lib64"
    for name in bin sbin lib lib64; do ln -s "usr/$name" "$tree/$name"; done
    for deb in "$folder"/debs/*.deb; do
        case ${deb##*/} in
        linux-image-*) continue ;;
        esac
        dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$tree" \
            --exclude='./usr/share/doc' --exclude='./usr/share/man' --exclude='./usr/share/locale' --exclude='./usr/lib/x86_64-linux-gnu/gconv'
    done
    for name in $modules; do echo "./lib/modules/*/kernel/$name*"; done >"$folder/patterns"
    dpkg-deb --fsys-tarfile "$folder"/debs/linux-image-*.deb | tar -x --keep-directory-symlink -C "$tree" --wildcards \
        -T "$folder/patterns" './boot/vmlinuz-*' './lib/modules/*/modules.*'
    version=$(ls "$tree/lib/modules")
    chroot "$tree" /sbin/depmod -a "$version"

    # An unpacked kernel boots some seconds sooner under emulation. Where it is packed in another way, QEMU takes it as it is.
    packed=$tree/boot/vmlinuz-$version
    cp "$packed" "$folder/kernel"
    at=$(LC_ALL=C grep -aboP '\xfd7zXZ\x00' "$packed" | head -1 | cut -d: -f1) || true
    if [ -n "$at" ]; then
        # xz complains of the bytes behind its own.
        tail -c "+$((at + 1))" "$packed" | xz -dc >"$folder/unpacked" 2>/dev/null || true
        case $(head -c 4 "$folder/unpacked" | tr -d '\177') in
        ELF) mv "$folder/unpacked" "$folder/kernel" ;;
        esac
    fi
    rm -rf "$tree/boot" "$folder/unpacked"

    initramfs=$folder/initramfs.d
    mkdir -p "$initramfs/modules" "$initramfs/dev" "$initramfs/proc" "$initramfs/sys" "$initramfs/root" "$initramfs/bin"
    cp "$tree/usr/bin/busybox" "$initramfs/bin/"
    install -m 755 "$here/init.sh" "$initramfs/init"
    chroot "$tree" /sbin/modprobe -a -S "$version" -D $early | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r module; do
        name=$(basename "$module")
        case $name in
        *.xz) xz -dc "$tree$module" >"$initramfs/modules/${name%.xz}" ;;
        *) cp "$tree$module" "$initramfs/modules/" ;;
        esac
        echo "${name%.xz}" >>"$initramfs/order"
    done
    (cd "$initramfs" && find . | LC_ALL=C sort | cpio -o -H newc --quiet) >"$folder/initramfs"

    # The shell of busybox would prefer its own programs to those of the packages.
    ln -sf dash "$tree/usr/bin/sh"
    for name in $("$tree/usr/bin/busybox" --list); do
        [ -e "$tree/usr/bin/$name" ] || [ -e "$tree/usr/sbin/$name" ] || ln -s busybox "$tree/usr/bin/$name"
    done
    mkdir -p "$tree/dev" "$tree/proc" "$tree/sys" "$tree/run" "$tree/tmp" "$tree/mnt" "$tree/root" "$tree/var" "$tree/etc/iscsi"
    rm -rf "$tree/var/run" && ln -s /run "$tree/var/run"
    ln -sf /proc/self/mounts "$tree/etc/mtab"
    printf 'root:x:0:0:root:/root:/bin/sh\n' >"$tree/etc/passwd"
    printf 'root:x:0:\ndisk:x:6:\ntty:x:5:\nkmem:x:15:\ninput:x:101:\nsgx:x:102:\nkvm:x:103:\nrender:x:104:\nlp:x:7:\naudio:x:29:\nvideo:x:44:\ncdrom:x:24:\ntape:x:26:\ndialout:x:20:\n' >"$tree/etc/group"
    printf 'hosts: files\n' >"$tree/etc/nsswitch.conf"
    install -m 755 "$here/agent.sh" "$tree/agent"
    kilobytes=$(du -sk --apparent-size "$tree" | cut -f1)
    mkfs.ext4 -q -F -O ^has_journal -m 0 -N 40000 -d "$tree" "$folder/root.img" "$((kilobytes * 5 / 4 + 65536))k"
    rm -rf "$tree" "$initramfs" "$folder/debs" "$folder/status" "$folder/patterns"
}

"$1"
