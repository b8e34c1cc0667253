#!/bin/sh
# ccache.sh TREE COMPILER ARGUMENT...: compiles by ccache what lies in TREE.
#
# The compiler says what a file includes; to preprocess it for that as well makes a first build a tenth slower. Paths are
# kept from the tree's root on, so that a second clone or worktree finds what the first one compiled. A precompiled
# header hides its macros and times from ccache, which must be told that this is known; and it has up to 240 MB, which
# ccache would read for each file that uses it, so that a sum beside it is looked at instead.
export CCACHE_DEPEND=1 CCACHE_BASEDIR="$1" CCACHE_NOHASHDIR=1 CCACHE_PCH_EXTSUM=1
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
shift
header=
for argument; do
  case $argument in *.gch) header=$argument ;; esac
done
[ -n "$header" ] || exec ccache "$@"
# One that lies there from before would count as included: each build of it would be a new one.
rm -f "$header" "$header.sum"
ccache "$@" && md5sum <"$header" >"$header.sum"
