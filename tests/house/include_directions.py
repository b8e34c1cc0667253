#!/usr/bin/env python3
"""Checks that #include lines follow the arrows of docs/architecture.md: a room includes itself and what it may use.

usage: include_directions.py ROOT      exit 1 and one line an offence otherwise
"""
import pathlib
import re
import sys

CORE = {"core/support", "core/arith", "core/tir", "core/relay", "core/codegen", "core/runtime", "core/program", "core/frontends", "core/models"}
# room -> rooms it may include (docs/decisions/001: operators state their meaning as tensor programs, so relay sees tir)
MAY = {
    "core/support": set(),
    "core/arith": {"core/support"},
    "core/tir": {"core/support", "core/arith"},
    "core/relay": {"core/support", "core/arith", "core/tir"},
    "core/codegen": {"core/support", "core/arith", "core/tir", "core/runtime"},
    "core/runtime": {"core/support"},
    "core/program": {"core/support", "core/arith", "core/tir", "core/relay", "core/runtime"},
    "core/frontends": {"core/support", "core/arith", "core/tir", "core/relay"},
    "core/models": {"core/support", "core/arith", "core/tir", "core/relay"},
    "schedules": {"core/support", "core/arith", "core/tir"},
    "db": {"core/support"},
    "tuner": CORE | {"schedules", "db"},
    "tracker/wire": {"core/support"},
    "workers": CORE | {"schedules", "tracker/wire"},
    "gate": {"core/support", "core/runtime", "workers"},
    "tracker": CORE | {"tuner", "db", "schedules", "tracker/wire"},
}
ALL = {"cli", "bench", "tests"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
# What code generation may see of the runtime: how kernels are called, and programs with what runs them.
ONLY = {("core/codegen", "core/runtime"): ("core/runtime/kernel.h", "core/runtime/linked_library.h", "core/runtime/program/")}
# Timers and limits of both ends, and of the tracker alone, in one table.
BOTH_ENDS = "tracker/defaults.h"
# Third-party headers that stop at one room (file name prefix -> folders that may include them).
THIRD_PARTY = {
    "llvm/": ("core/codegen/llvm/",),
    "sqlite3.h": ("db/",),
    "libpq-fe.h": ("db/",),
    "zmq": ("tracker/wire/",),
    "google/protobuf": ("tracker/wire/", "core/frontends/"),
    "boost/asio/": ("tracker/http_server.cpp",),
    "boost/beast/": ("tracker/http_server.cpp",),
    "openssl/": ("core/support/sha256.cpp", "cli/service_client.cpp"),
    "curl/": ("cli/service_client.cpp",),
    "toml++": ("cli/",),
    "xgboost/": ("tuner/",),
    "onnx/": ("core/frontends/",),
}


def room_of(path):
    for room in sorted(MAY, key=len, reverse=True):
        if path.startswith(room + "/"):
            return room
    return path.split("/")[0]


def offences(root):
    for file in sorted(root.rglob("*")):
        path = file.relative_to(root).as_posix()
        if file.suffix not in {".h", ".cpp"} or path.startswith(("build", ".", "tests/house/offending_tree")):
            continue
        room = room_of(path)
        for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
            system = re.match(r"^\s*#\s*include\s+<([^>]+)>", line)
            if system and room not in ALL:
                for prefix, homes in THIRD_PARTY.items():
                    if system[1].startswith(prefix) and not path.startswith(homes):
                        yield f"{path}:{number}: <{system[1]}> stops at {', '.join(homes)}"
            match = INCLUDE.match(line)
            if not match or "/" not in match[1]:
                continue
            if room in ALL:
                continue
            used = "tracker/wire" if match[1] == BOTH_ENDS else room_of(match[1])
            if used == room:
                continue
            only = ONLY.get((room, used))
            if used not in MAY.get(room, set()) or (only and not match[1].startswith(only)):
                yield f"{path}:{number}: {room} may not include {match[1]}"


def main():
    root = pathlib.Path(sys.argv[1])
    found = list(offences(root))
    print("\n".join(found) or "include directions: ok")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
