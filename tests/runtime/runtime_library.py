#!/usr/bin/env python3
"""Checks liblathe-runtime.so from the outside: what it exports, what it is called, what it needs.

usage: runtime_library.py LIBRARY lathe.h      exit 1 and one line an offence otherwise
"""
import re
import subprocess
import sys

# Any of these would bring the compiler, or the service, into programs that only run modules.
FOREIGN = re.compile(r"LLVM|lld|xgboost|zmq|sqlite|protobuf|onnx|boost")


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def offences(library, header):
    with open(header) as file:
        text = file.read()
    abi = re.search(r"^#define LATHE_ABI (\d+)$", text, re.M)[1]
    declared = set(re.findall(r"LATHE_API [^;]*?(lathe_\w+)\(", text))
    if len(declared) < 10:
        yield f"{header}: only {len(declared)} functions found"

    exported = set()
    for line in output_of("nm", "--dynamic", "--defined-only", library).splitlines():
        kind, name = line.split()[1:]
        if kind != "A":  # the version itself
            exported.add(name)
    wanted = {f"{name}@@LATHE_{abi}" for name in declared}
    yield from (f"exported, not declared: {name}" for name in sorted(exported - wanted))
    yield from (f"declared, not exported: {name}" for name in sorted(wanted - exported))

    dynamic = output_of("readelf", "--dynamic", "--wide", library)
    soname = re.search(r"\(SONAME\).*\[(.*)\]", dynamic)[1]
    if soname != f"liblathe-runtime.so.{abi}":
        yield f"soname is {soname}"
    # All libraries that would be loaded, not only those named in the file.
    yield from (f"needs {line.split()[0]}" for line in output_of("ldd", library).splitlines() if FOREIGN.search(line))


def main():
    found = list(offences(*sys.argv[1:]))
    print("\n".join(found) or "runtime library: ok")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
