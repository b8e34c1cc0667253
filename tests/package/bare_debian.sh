#!/usr/bin/env bash
# bare_debian.sh PACKAGES: installs the .debs of that folder in a fresh, minimal Debian 12, uses them there, and removes
# them again. Nothing of it stays. As root, or as a user who may unshare; from the mirror of this machine.
set -euo pipefail
packages=$(realpath "$1")
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
sources=/etc/apt/sources.list.d/debian.sources
[[ -r $sources ]] || sources=

start=$SECONDS
mmdebstrap --quiet --variant=minbase \
  --customize-hook="mkdir \"\$1/check\" && cp '$packages'/*.deb '$here'/inside_bare_debian.sh '$here'/examples_agree.py \"\$1/check\"" \
  --customize-hook='chroot "$1" sh /check/inside_bare_debian.sh' \
  bookworm /dev/null $sources
echo "packages: ok, in $((SECONDS - start)) s"
