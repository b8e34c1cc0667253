#!/usr/bin/env bash
# bare_debian.sh PACKAGES: installs the .debs of that folder in a fresh, minimal Debian 12, uses them there, boots it with
# the services enabled, and removes them again. Nothing of it stays. Root only; from the mirror of this machine.
set -euo pipefail
packages=$(realpath "$1")
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
((EUID == 0)) || exec sudo "$0" "$packages"
root=$(mktemp -d)
trap 'rm -rf --one-file-system "$root" "/run/systemd/nspawn/propagate/${root##*/}"' EXIT
sources=/etc/apt/sources.list.d/debian.sources
[[ -r $sources ]] || sources=
start=$SECONDS

mmdebstrap --quiet --mode=root --variant=minbase \
  --customize-hook="mkdir '$root/check' && cp '$packages'/*.deb '$here'/* '$root/check'" \
  --customize-hook="chroot '$root' sh /check/inside_bare_debian.sh used" \
  bookworm "$root" $sources

# The container's own filter of system calls, which knows no Landlock, stays out: the units' are tried.
echo "--- the services, in a booted system"
cp "$here/lathe-check.service" "$root/etc/systemd/system/"
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -s ../lathe-check.service "$root/etc/systemd/system/multi-user.target.wants/"
status=0
SYSTEMD_SECCOMP=0 timeout 600 systemd-nspawn --quiet --boot --directory="$root" --register=no --keep-unit \
  --private-network --console=read-only > "$root/check/boot.log" 2>&1 < /dev/null || status=$?
cat "$root/check/services.log" || cat "$root/check/boot.log"
((status == 0)) || { echo "error: the services failed" >&2; exit 1; }

unshare --mount --pid --fork --mount-proc="$root/proc" chroot "$root" sh /check/inside_bare_debian.sh removed
echo "packages: ok, in $((SECONDS - start)) s"
