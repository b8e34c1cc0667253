#!/usr/bin/env bash
# Format, clang-tidy and include directions over the tracked sources. Exit 1 when one of them finds something.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
status=0
mapfile -t sources < <(git ls-files '*.cpp' '*.h' | grep -v tests/house/offending_tree)
clang-format --dry-run -Werror "${sources[@]}" || status=1
python3 tests/house/include_directions.py . || status=1
# What this machine builds: comparisons with a peer only where it is installed.
mapfile -t units < <(git ls-files '*.cpp' | grep -vE '^tests/' |
  while read -r unit; do grep -qF "$PWD/$unit\"" build/release/compile_commands.json && echo "$unit"; done)
printf '%s\n' "${units[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p build/release 2>/dev/null || status=1
((status == 0)) && echo "check: ok"
exit $status
