#!/usr/bin/env bash
# check.sh [--changed]: format, include directions and clang-tidy over the tracked sources. With --changed clang-tidy
# looks only at what differs from the branch that this one is to join (origin/main; on it, from its last commit;
# LATHE_CHECK_BASE names another). Exit 1 when one of them finds something.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
status=0
mapfile -t sources < <(git ls-files '*.cpp' '*.h' | grep -v tests/house/offending_tree)
clang-format --dry-run -Werror "${sources[@]}" || status=1
python3 tests/house/include_directions.py . || status=1

changed_units() {
  local base=${LATHE_CHECK_BASE:-$(git merge-base HEAD origin/main 2>/dev/null)}
  [[ -n $base && $(git rev-parse "$base") != $(git rev-parse HEAD) ]] || base=HEAD~1
  git diff --name-only --diff-filter=d "$base" -- '*.cpp' 2>/dev/null || git ls-files '*.cpp'
}
if [[ ${1:-} == --changed ]]; then mapfile -t units < <(changed_units); else mapfile -t units < <(git ls-files '*.cpp'); fi
# What this machine builds: comparisons with a peer only where it is installed. Clang 14 cannot read the coroutines of
# Boost 1.74 with g++ 12's library, which the HTTP server is made of.
# A tree may be built under another name than it has here, as in a container.
built=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' build/release/CMakeCache.txt)
mapfile -t units < <(printf '%s\n' "${units[@]}" | grep -vE '^tests/|^tracker/http_server.cpp$' |
  while read -r unit; do grep -qF "$built/$unit\"" build/release/compile_commands.json && echo "$unit"; done)
if ((${#units[@]})); then
  echo "clang-tidy: ${#units[@]} files" >&2
  # Without the precompiled headers: they are g++'s, and what they hold would hide a missing include.
  mkdir -p build/tidy
  sed "s# -Winvalid-pch -include [^ ]*##; s#$built\\b#$PWD#g" build/release/compile_commands.json > build/tidy/compile_commands.json
  printf '%s\n' "${units[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p build/tidy 2>/dev/null || status=1
fi
((status == 0)) && echo "check: ok"
exit $status
