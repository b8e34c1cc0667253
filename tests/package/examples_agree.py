#!/usr/bin/env python3
"""Builds docs/examples against an installed Lathe, runs a model by each of them, and compares with `tune run`.

usage: examples_agree.py EXAMPLES TUNE

The C example is built by a plain `cc` with pkg-config and by CMake; the Python one needs nothing. Where Lathe is not
installed in the system, PKG_CONFIG_PATH, CMAKE_PREFIX_PATH and LD_LIBRARY_PATH say where it is. Exit 1 when one of
them differs in a single byte.
"""
import os
import random
import struct
import subprocess
import sys
import tempfile

SHAPE = (1, 4, 84, 84)  # of the input of the zoo's smallest model


def output_of(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def write_inputs(folder):
    """The same numbers as an array of NumPy's, for tune, and bare."""
    count = 1
    for extent in SHAPE:
        count *= extent
    generator = random.Random(1)
    data = struct.pack(f"<{count}f", *(generator.gauss(0, 1) for _ in range(count)))
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {SHAPE}, }}"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    with open(f"{folder}/data.npy", "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)
    with open(f"{folder}/data.bin", "wb") as file:
        file.write(data)


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    return data[10 + struct.unpack("<H", data[8:10])[0]:] if path.endswith(".npy") else data


def build_examples(examples, folder):
    """The programs, by name."""
    flags = output_of("pkg-config", "--cflags", "--libs", "lathe-runtime").split()
    by_hand = f"{folder}/run_module"
    output_of("cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"{examples}/run_module.c", "-o", by_hand,
              *flags)
    output_of("cmake", "-S", examples, "-B", f"{folder}/cmake")
    output_of("cmake", "--build", f"{folder}/cmake")
    return {"cc": [by_hand], "cmake": [f"{folder}/cmake/run_module"],
            "python": [sys.executable, f"{examples}/run_module.py"]}


def main(examples, tune):
    with tempfile.TemporaryDirectory() as folder:
        module = f"{folder}/model.lathe"
        write_inputs(folder)
        output_of(tune, "compile", "--untuned", "--model", "dqn", "--out", module)
        output_of(tune, "run", "--model", module, "--input", f"data={folder}/data.npy", "--out", f"{folder}/tune")
        expected = read(f"{folder}/tune/output_0.npy")
        if not any(expected):
            sys.exit("tune run: all zeros")
        for name, program in build_examples(examples, folder).items():
            out = f"{folder}/{name}"
            os.makedirs(out, exist_ok=True)
            said = output_of(*program, module, out, f"data={folder}/data.bin")
            if read(f"{out}/output_0.bin") != expected:
                sys.exit(f"the example by {name} gives other outputs than tune run")
            print(f"{name}: {said.strip()}, as tune run")
            wrong = subprocess.run([*program, f"{folder}/data.npy", out], capture_output=True, text=True)
            if wrong.returncode == 0 or not wrong.stderr.startswith("error: "):
                sys.exit(f"the example by {name} takes what is no module: {wrong}")


if __name__ == "__main__":
    main(*sys.argv[1:])
