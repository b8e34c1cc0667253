#!/usr/bin/env python3
"""A job for an aarch64 board, whose runner is emulated by qemu-user: a worker of this machine builds, the board alone
measures and races what is shipped, and the module's outputs there agree with ONNX Runtime's here.

usage: board_test.py PATH/TO/tune PATH/TO/aarch64/lathe-runner      exit 77 where the runner, qemu or ONNX Runtime is missing
"""
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parents[1] / "models"))
import onnx_runtime  # noqa: E402

from tracker_process import check, free_port

TUNE, RUNNER = sys.argv[1:3]
QEMU = shutil.which("qemu-aarch64")
MODEL = "dqn"  # the zoo's smallest
TRIALS = 6


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **more)
    check(done.returncode == 0, f"{' '.join(command)} exits with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def emulated(cpu):
    return [QEMU, "-cpu", cpu, RUNNER]


def tune_on_board(folder, cpu, model):
    """A job on an emulated board, whose module is left in the folder; returns a line about it."""
    database = folder / "tuning.db"
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    with open(folder / "board.log", "w+") as log:
        board = subprocess.Popen([*emulated(cpu), "--tracker", endpoint, "--name", "board", "--emulator", QEMU],
                                 env={**os.environ, "LATHE_UNCONFINED": "1", "QEMU_CPU": cpu}, stderr=log)
        try:
            said = run(TUNE, "--model", str(model), "--target", f"cpu:mcpu={cpu}", "--threads", "1", "--trials",
                       str(TRIALS), "--listen", endpoint, "--db", str(database), "--out", str(folder / "out"), "--json")
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
    report = json.loads(said.splitlines()[-1])
    race = report["race"]
    check(race and race["pairs"] >= 10, f"no race: {report.get('not_raced')}")
    with sqlite3.connect(database) as rows:
        (latency,), = rows.execute("SELECT seconds FROM model_latency").fetchall()
    check(latency > 0, f"a run of what is shipped takes {latency} s")
    return (f"{measured[0][2]} measurements, all on the board, of {builds} builds here; raced there, {race['verdict']}, "
            f"{race['pairs']} turns")


def compare(folder, cpu, model, tolerance):
    """The module's outputs on the board with ONNX Runtime's here, of the same file on the same inputs."""
    here, there = folder / "here", folder / "there"
    onnx_runtime.run(model, here)
    run(*emulated(cpu), "run", "--model", str(folder / "out" / f"{model.stem}.lathe"),
        "--input", f"data={here / 'input_0.npy'}", "--out", str(there))
    off = onnx_runtime.relative_error(*(onnx_runtime.values((side / "output_0.npy").read_bytes()) for side in (there, here)))
    check(off <= tolerance, f"outputs differ by {off:.1e}, and may by {tolerance:.0e}")
    return f"outputs agree with ONNX Runtime within {off:.1e}"


def main():
    if not QEMU:
        skip("no qemu-aarch64: apt-get install qemu-user (./run test does)")
    if not os.path.exists(RUNNER):
        skip("no runner: ./run build runner --arch aarch64 (./run test does)")
    if onnx_runtime.missing():
        skip(onnx_runtime.missing())

    # An emulator confines nothing, and that is said.
    environment = {key: value for key, value in os.environ.items() if key != "LATHE_UNCONFINED"}
    refused = subprocess.run([*emulated("cortex-a72"), "--tracker", "tcp://127.0.0.1:1"], capture_output=True,
                             text=True, env=environment, timeout=60)
    check(refused.returncode == 4 and "LATHE_UNCONFINED=1" in refused.stderr,
          f"an unconfined runner exits with {refused.returncode}: {refused.stderr}")

    print(f"the runner has {os.path.getsize(RUNNER)} bytes")
    # With NEON in float32; with its dot products in 8 bits, where an output may round to the next step, 1/127 of the largest.
    for cpu, command, tolerance in (("cortex-a72", "export", 1e-5), ("neoverse-n1", "quantize", 0.01)):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            model = folder / "model.onnx"
            run(TUNE, command, "--model", MODEL, "--out", str(model))
            done = tune_on_board(folder, cpu, model)
            print(f"{cpu}, tune {command}: {done}; {compare(folder, cpu, model, tolerance)}")


main()
