#!/usr/bin/env python3
"""A job for an aarch64 board, whose runner is emulated by qemu-user: a worker of this machine builds, the board alone
measures, and the module's outputs there agree with those of the untuned model here.

usage: board_test.py PATH/TO/tune PATH/TO/aarch64/lathe-runner      exit 77 where the runner or qemu is missing
"""
import array
import os
import pathlib
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile

TUNE, RUNNER = sys.argv[1:3]
QEMU = shutil.which("qemu-aarch64")
TRIALS = 6
MODEL = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 8, 12, 12), float32], %w: Tensor[(16, 8, 3, 3), float32], %d: Tensor[(10, 16), float32]) {
  let %c = nn.relu(nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=16, kernel_size=[3, 3]));
  nn.dense(mean(%c, axis=[2, 3]), %d)
}
"""


def check(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **more)
    check(done.returncode == 0, f"{' '.join(command)} exits with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def load(path):
    """The values of a float32 .npy file."""
    data = path.read_bytes()
    start = 10 + int.from_bytes(data[8:10], "little")
    check(b"'<f4'" in data[:start], f"{path} is not of float32")
    return array.array("f", data[start:])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def emulated(cpu):
    return [QEMU, "-cpu", cpu, RUNNER]


def tune_on_board(folder, cpu, precision):
    """A job on an emulated board, whose module is left in the folder; returns a line about it."""
    model, database = folder / "m.relay", folder / "tuning.db"
    model.write_text(MODEL)
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    with open(folder / "board.log", "w+") as log:
        board = subprocess.Popen([*emulated(cpu), "--tracker", endpoint, "--name", "board", "--emulator", QEMU],
                                 env={**os.environ, "LATHE_UNCONFINED": "1", "QEMU_CPU": cpu}, stderr=log)
        try:
            run(TUNE, "--model", str(model), "--target", f"cpu:mcpu={cpu}", "--precision", precision, "--threads", "1",
                "--trials", str(TRIALS), "--listen", endpoint, "--db", str(database), "--out", str(folder / "out"))
        finally:
            board.terminate()
            board.wait(30)
        log.seek(0)
        check(board.returncode == 0, f"the runner exits with {board.returncode}:\n{log.read()}")

    with sqlite3.connect(database) as rows:
        measured = rows.execute("SELECT device.architecture, worker.name, count(*) FROM measurement JOIN device ON "
                                "device.id = measurement.device JOIN worker ON worker.id = measurement.worker GROUP BY 1, 2").fetchall()
        results = dict(rows.execute("SELECT worker.name, count(*) FROM lease JOIN worker ON worker.id = worker "
                                    "WHERE ending = 'result' GROUP BY 1").fetchall())
        builds = rows.execute("SELECT count(*) FROM lease JOIN worker ON worker.id = worker WHERE "
                              "worker.name != 'board'").fetchone()[0]
    check([row[:2] for row in measured] == [("aarch64", "board")], f"measured by {measured}")
    check(set(results) == {"board"}, f"results by worker: {results}")
    check(builds > 0, "nobody built")
    return f"{measured[0][2]} measurements, all on the board, of {builds} builds here"


def compare(folder, cpu, precision, tolerance):
    """The module's outputs on the board with those of the untuned model here."""
    run(*emulated(cpu), "run", "--model", str(folder / "out" / "m.lathe"), "--seed", "3", "--out", str(folder / "there"))
    run(TUNE, "run", "--model", str(folder / "m.relay"), "--precision", precision, "--untuned", "--seed", "3",
        "--out", str(folder / "here"))
    there, here = (load(folder / side / "output_0.npy") for side in ("there", "here"))
    off = max(abs(a - b) for a, b in zip(there, here)) / max(map(abs, here))
    check(len(there) == len(here) == 10 and off < tolerance, f"outputs differ by {off:.1e}: {there} {here}")
    return f"outputs agree within {off:.1e}"


def main():
    if not QEMU:
        skip("no qemu-aarch64: apt-get install qemu-user (./run test does)")
    if not os.path.exists(RUNNER):
        skip("no runner: ./run build runner --arch aarch64 (./run test does)")

    # An emulator confines nothing, and that is said.
    environment = {key: value for key, value in os.environ.items() if key != "LATHE_UNCONFINED"}
    refused = subprocess.run([*emulated("cortex-a72"), "--tracker", "tcp://127.0.0.1:1"], capture_output=True,
                             text=True, env=environment, timeout=60)
    check(refused.returncode == 4 and "LATHE_UNCONFINED=1" in refused.stderr,
          f"an unconfined runner exits with {refused.returncode}: {refused.stderr}")

    print(f"the runner has {os.path.getsize(RUNNER)} bytes")
    # With NEON; and with its dot products.
    for cpu, precision, tolerance in (("cortex-a72", "given", 1e-5), ("neoverse-n1", "int8", 1e-2)):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            done = tune_on_board(folder, cpu, precision)
            print(f"{cpu}, precision {precision}: {done}; {compare(folder, cpu, precision, tolerance)}")


main()
