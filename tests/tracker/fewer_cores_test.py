#!/usr/bin/env python3
"""Cores that a job's threads would need and its worker may not use (taskset, a container): nothing is measured as if they were
there, no budget is spent on it, and what was measured is kept.

fewer_cores_test.py TUNE
"""

import os
import sqlite3
import subprocess
import sys
import tempfile

from tracker_process import TUNE, Tracker, check, run, wait_for

CORE = min(os.sched_getaffinity(0))


def with_one_core():
    os.sched_setaffinity(0, {CORE})


def measured(folder):
    """How many measurements the database has, by their threads; none while there is no database."""
    try:
        with sqlite3.connect(f"file:{folder}/tuning.db?mode=ro", uri=True) as database:
            return dict(database.execute("SELECT threads, count(*) FROM measurement GROUP BY threads").fetchall())
    except sqlite3.OperationalError:
        return {}


def a_worker_in_a_container(folder):
    """A job that asks for no number of threads runs on as many as its devices' workers may use, whatever the machine has."""
    with Tracker(folder) as tracker:
        worker = subprocess.Popen([TUNE, "worker", "--tracker", tracker.listen], stderr=subprocess.DEVNULL,
                                  preexec_fn=with_one_core)
        try:
            job = run("submit", "--tracker", f"http://127.0.0.1:{tracker.port}", "--model", "dqn", "--trials", "6")
            ended = lambda: (said := tracker.call("GET", f"/v1/jobs/{job}")[1])["state"] in ("done", "failed") and said
            said = wait_for("the job's end", ended)
            check(said["state"] == "done", f"it ended as {said}")
        finally:
            worker.terminate()
            worker.wait(60)
    check(set(measured(folder)) == {1}, f"measured by threads: {measured(folder)}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        a_worker_in_a_container(folder)
    print("held off")


if __name__ == "__main__":
    main()
