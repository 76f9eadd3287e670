#!/bin/sh
# Installs, runs and removes the packages below an empty folder: trial.sh FOLDER DEB ARCHIVE VERSION.
#
# It runs in mount, network and process namespaces of its own, as root of them. The folder becomes a root of its own, with a
# shell for the package's scripts and nothing else, so that a program which is not static does not start. dpkg keeps
# its database there. After the removal the root has the files that it had before.
set -eu
folder=$1 deb=$2 archive=$3 version=$4
root=$folder/root
name=iqn.2026-11.org.example:trial
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive PATH="$PATH:/usr/sbin:/sbin"

fail() {
    echo "package: $*" >&2
    exit 1
}

# The program of this root.
run() {
    chroot "$root" "$program" "$@"
}

# dpkg on this root; pages and documents are wanted also where the host leaves them out.
package() {
    dpkg --root="$root" --log="$folder/dpkg.log" --path-include='/usr/share/*' "$@"
}

# Every file of the root, the processes' and the database's aside.
files() {
    (cd "$root" && find . -path ./proc -prune -o -path ./var/lib/dpkg -prune -o -path ./dev -prune -o -print | sort)
}

mkdir "$root"
mount -t tmpfs -o size=256m,mode=755 farlun-trial "$root"
mkdir -p "$root/bin" "$root/dev" "$root/proc" "$root/tmp"
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/triggers"
: >"$root/var/lib/dpkg/status"
mount -t proc proc "$root/proc"
for device in null urandom; do
    : >"$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
cp -L /bin/sh "$root/bin/sh"
for library in $(ldd /bin/sh | grep -o '/[^ ]*'); do
    mkdir -p "$root${library%/*}"
    cp -L "$library" "$root$library"
done
ip link set lo up
files >"$folder/before"

echo "== install"
package --install "$deb"
program=/usr/bin/farlun
[ "$(run --version)" = "farlun $version" ] || fail "--version says '$(run --version)', expected 'farlun $version'"
run --help | grep -q '^  target ' || fail "--help does not list the command target"

echo "== manual"
count=0
for page in "$root"/usr/share/man/man1/*.gz; do
    MANWIDTH=100 man --warnings -l "$page" >"$folder/page" 2>"$folder/warnings" || fail "man cannot show $page"
    [ ! -s "$folder/warnings" ] || fail "$page: $(head -3 "$folder/warnings")"
    grep -q '^SYNOPSIS' "$folder/page" || fail "$page has no synopsis"
    count=$((count + 1))
done
for command in $(run --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | grep -vx help); do
    [ -e "$root/usr/share/man/man1/farlun-$command.1.gz" ] || fail "the command $command has no page"
done
echo "$count pages"

echo "== completion"
completed=$(bash -c '. "$1"; COMP_WORDS=(farlun targ) COMP_CWORD=1; _farlun farlun targ farlun; echo "${COMPREPLY[@]}"' \
    bash "$root/usr/share/bash-completion/completions/farlun")
[ "$completed" = target ] || fail "bash completes 'farlun targ' to '$completed', expected 'target'"

echo "== a target on loopback"
run target --config /usr/share/doc/farlun/examples/target.toml --check
# Not by `run`: the number has to be that of the program.
chroot "$root" "$program" target --lun memory:64MiB --listen 127.0.0.1:3260 --iqn "$name" --json >"$folder/target" &
target=$!
tries=0
until [ -s "$folder/target" ]; do
    kill -0 "$target" || fail "the target ended before it listened"
    tries=$((tries + 1))
    [ "$tries" -lt 200 ] || fail "the target does not listen after 20 s"
    sleep 0.1
done
run bench "iscsi://127.0.0.1/$name/0" --op read --time 1s
kill "$target"
wait "$target" || fail "the target ended with $?"

echo "== removal"
package --purge farlun
files >"$folder/after"
diff "$folder/before" "$folder/after" || fail "the removal left other files than there were before"
left=$(find "$root/var/lib/dpkg/info" -name 'farlun*')
[ -z "$left" ] || fail "dpkg's database still has $left"

echo "== archive"
mkdir "$root/opt"
tar -C "$root/opt" --strip-components=1 -xzf "$archive"
program=/opt/bin/farlun
[ "$(run --version)" = "farlun $version" ] || fail "the archive's program says '$(run --version)'"
for file in share/man/man1/farlun.1.gz share/bash-completion/completions/farlun share/doc/farlun/LICENSE-MIT; do
    [ -s "$root/opt/$file" ] || fail "the archive has no $file"
done
echo "installed, run and removed: $(basename "$deb"), $(basename "$archive")"
