#!/usr/bin/env python3
"""A RISC-V board has the runtime alone: modules compiled here for riscv64 run there, under qemu-user, by the example in C,
and their outputs agree with ONNX Runtime's here.

usage: riscv_test.py PATH/TO/tune BUILD-OF-RISCV64      exit 77 where the build, qemu or ONNX Runtime is missing
"""
import array
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parents[1] / "models"))
import onnx_runtime  # noqa: E402

TUNE, BUILD = sys.argv[1], pathlib.Path(sys.argv[2])
EXAMPLE = BUILD / "bin/run_module"
MODEL = "dqn"  # the zoo's smallest; its input is called data
PLAIN, VECTORS = "sifive-u74", "sifive-x280"


def check(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    check(done.returncode == 0, f"{' '.join(map(str, command))} exits with {done.returncode}:\n{done.stdout}{done.stderr}")


def on_board(*arguments):
    return ["qemu-riscv64", "-cpu", "rv64", "-L", "/usr/riscv64-linux-gnu", "-E",
            f"LD_LIBRARY_PATH={BUILD / 'core/runtime'}", EXAMPLE, *arguments]


def agrees(folder, command, tolerance):
    """How far the outputs of a model written by `tune COMMAND` are off."""
    model, module, here = folder / f"{command}.onnx", folder / f"{command}.lathe", folder / command
    run(TUNE, command, "--model", MODEL, "--out", model)
    run(TUNE, "compile", "--untuned", "--model", model, "--target", f"cpu:mcpu={PLAIN}", "--out", module)
    onnx_runtime.run(model, here)
    given = here / "input_0.bin"
    given.write_bytes(onnx_runtime.values((here / "input_0.npy").read_bytes()).tobytes())
    run(*on_board(module, here, f"data={given}"))
    off = onnx_runtime.relative_error(array.array("f", (here / "output_0.bin").read_bytes()),
                                      onnx_runtime.values((here / "output_0.npy").read_bytes()))
    check(off <= tolerance, f"tune {command}: outputs differ by {off:.1e}, and may by {tolerance:.0e}")
    print(f"tune {command}: outputs agree with ONNX Runtime within {off:.1e}")


def refuses(folder):
    """A module that asks for more than the CPU has is refused before any of its code runs."""
    module = folder / "vectors.lathe"
    run(TUNE, "compile", "--untuned", "--model", MODEL, "--target", f"cpu:mcpu={VECTORS}", "--out", module)
    done = subprocess.run(on_board(module, folder), capture_output=True, text=True, timeout=60)
    check(done.returncode == 2 and "lacks" in done.stderr and "zba" in done.stderr and " v" in done.stderr,
          f"code for {VECTORS} exits with {done.returncode}: {done.stderr}")
    print(f"code for {VECTORS} is refused: {done.stderr.strip()}")


def main():
    for reason in (not shutil.which("qemu-riscv64") and "no qemu-riscv64: apt-get install qemu-user (./run test does)",
                   not EXAMPLE.exists() and f"no {EXAMPLE}: ./run build runtime --arch riscv64 (./run test does)",
                   onnx_runtime.missing()):
        if reason:
            print(f"skipped: {reason}")
            sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        agrees(folder, "export", 1e-5)
        agrees(folder, "quantize", 0.01)
        refuses(folder)


main()
