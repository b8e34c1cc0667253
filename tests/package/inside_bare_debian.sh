#!/bin/sh
# inside_bare_debian.sh used|removed: run by bare_debian.sh in the fresh Debian; /check holds the packages.
set -eu
export DEBIAN_FRONTEND=noninteractive HOME=/root
cd /check

step() { echo "--- $*"; }
failed() {
  echo "error: $*" >&2
  exit 1
}
install() { apt-get install -y -qq --no-install-recommends "$@" > log 2>&1 || { cat log; failed "cannot install $*"; }; }

used() {
  step "what a user of tune installs: no compiler comes with it"
  apt-get update -qq
  install ./lathe_*.deb ./liblathe-runtime0_*.deb
  for compiler in cc gcc c++ clang tcc; do
    if command -v "$compiler"; then failed "there is a $compiler, so this would prove nothing"; fi
  done
  tune --version

  step "a model compiled, run, and tuned: candidates are built and measured in confined children"
  tune compile --untuned --model dqn --out dqn.lathe
  tune run --model dqn.lathe
  tune --model dqn --target cpu --trials 16 --seed 1 --db tuning.db --out job > log 2>&1 || { cat log; failed "tune"; }
  tail -n 1 log

  step "a model compiled for a board, and run by the runner of boards, its CPU emulated"
  dpkg --add-architecture arm64
  apt-get update -qq
  install ./lathe-runner_*_arm64.deb lld-19 qemu-user
  tune compile --untuned --model dqn --target cpu:mcpu=cortex-a72 --out board.lathe
  qemu-aarch64 -cpu cortex-a72 /usr/bin/lathe-runner run --model board.lathe

  step "a program in C against the -dev package, by pkg-config and by CMake; one in Python"
  install ./liblathe-runtime-dev_*.deb gcc libc6-dev make cmake pkgconf python3
  python3 examples_agree.py /usr/share/doc/liblathe-runtime-dev/examples /usr/bin/tune

  step "the units of the services, as systemd reads them"
  install systemd ./lathe-runner_*_amd64.deb
  getent passwd lathe-tracker lathe-worker lathe-runner
  for unit in lathe-tracker lathe-worker lathe-runner; do
    systemd-analyze verify "/lib/systemd/system/$unit.service"
    systemd-analyze security --offline=true --no-pager --threshold=20 "/lib/systemd/system/$unit.service" > log ||
      { cat log; failed "$unit may do too much"; }
    tail -n 1 log
    [ ! -e "/etc/systemd/system/multi-user.target.wants/$unit.service" ] || failed "$unit is enabled"
  done
}

removed() {
  step "all of it removed again"
  apt-get purge -y -qq lathe lathe-runner liblathe-runtime0 liblathe-runtime-dev > log 2>&1 || { cat log; failed "cannot remove it"; }
  for left in /usr/bin/tune /usr/bin/lathe-runner /etc/lathe /etc/default/lathe-worker /usr/include/lathe.h /usr/share/doc/lathe; do
    [ ! -e "$left" ] || failed "purging leaves $left"
  done
  if ldconfig -p | grep lathe; then failed "the loader still knows it"; fi
}

"$1"
