#!/usr/bin/env python3
"""kill -9 of the worker, of a measuring child, and of `tune` itself in the middle of a job: it goes on, or resumes, and
no measured result is lost or doubled.

usage: kill_tune_test.py PATH/TO/tune
"""
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import tempfile

from tracker_process import check, TUNE, wait_for

TRIALS = 48


def processes():
    """(pid, parent, state, command line) of each process."""
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            stat = (folder / "stat").read_text()
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        fields = stat[stat.rindex(")") + 2:].split()
        yield int(folder.name), int(fields[1]), fields[0], words


def children(parent, *words):
    return [pid for pid, of, state, line in processes()
            if of == parent and state != "Z" and all(word in line for word in words)]


class Job:
    """What the database says about the one job in it."""

    def __init__(self, path):
        self.path = path

    def rows(self, query):
        if not os.path.exists(self.path):
            return []
        try:
            with sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=10) as database:
                return database.execute(query).fetchall()
        except sqlite3.OperationalError:  # not made yet
            return []

    def measured(self):
        return dict(self.rows("SELECT id, hex(samples) FROM measurement"))

    def uuid(self):
        return self.rows("SELECT uuid FROM job")[0][0]


def main():
    with tempfile.TemporaryDirectory() as folder:
        database = folder + "/tuning.db"
        job = Job(database)
        common = ["--db", database, "--out", folder + "/out"]
        tune = subprocess.Popen([TUNE, "--model", "dqn", "--threads", "1", "--trials", str(TRIALS),
                                 "--max-relative-error", "0.25", *common],
                                stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        wait_for("the first results", lambda: len(job.measured()) >= 6)

        worker = children(tune.pid, "worker")[0]
        os.kill(worker, signal.SIGKILL)
        print(f"killed the worker after {len(job.measured())} results")
        before = job.measured()
        wait_for("results of a new worker", lambda: len(job.measured()) >= len(before) + 4)

        worker = children(tune.pid, "worker")[0]

        def kill_measuring_child():
            for supervisor in children(worker, "internal-sandbox", "run"):
                for child in children(supervisor):
                    try:
                        os.kill(child, signal.SIGKILL)
                    except ProcessLookupError:  # it ended between the two looks
                        continue
                    return True
            return False

        wait_for("a measuring child", kill_measuring_child)
        print(f"killed a measuring child after {len(job.measured())} results")
        before = job.measured()
        wait_for("results after it", lambda: len(job.measured()) >= len(before) + 3)

        os.kill(tune.pid, signal.SIGKILL)
        tune.wait()
        before = job.measured()
        print(f"killed tune, and the tracker in it, after {len(before)} results")
        wait_for("the worker's end", lambda: not [1 for pid, _, state, _ in processes() if pid == worker and state != "Z"])
        check(len(before) < TRIALS, "the job was over before it was killed")

        resumed = subprocess.run([TUNE, "resume", job.uuid(), *common], capture_output=True, text=True)
        check(resumed.returncode == 0, f"tune resume exits with {resumed.returncode}:\n{resumed.stderr}")
        after = job.measured()
        check(all(after.get(key) == samples for key, samples in before.items()), "a recorded result was lost or changed")
        check(job.rows("PRAGMA integrity_check") == [("ok",)], "the database is damaged")
        check(job.rows("SELECT state FROM job") == [("done",)], "the job is not done")
        check(job.rows("SELECT count(*) FROM trial WHERE state IN ('pending', 'leased')") == [(0,)], "trials are open")
        check(job.rows("SELECT count(*) FROM lease WHERE ended_ms IS NULL AND trial IN (SELECT id FROM trial WHERE "
                       "state NOT IN ('pending', 'leased'))")[0][0] <= 2, "leases are open")
        ended = job.rows("SELECT count(*) FROM trial WHERE purpose = 'search'")[0][0]
        done = job.rows("SELECT count(*) FROM trial WHERE purpose = 'search' AND state = 'done'")[0][0]
        check(done == len(after), f"{done} trials were measured, {len(after)} measurements are there")
        check(ended <= TRIALS + 16, f"{ended} trials for a budget of {TRIALS}")
        doubled = job.rows("SELECT candidate FROM trial WHERE purpose = 'search' GROUP BY candidate HAVING count(*) > 1")
        check(not doubled, f"candidates measured twice: {doubled}")
        tolerances = job.rows("SELECT DISTINCT json_extract(settings, '$.tolerance') FROM trial")
        check(tolerances == [(0.25,)], f"accepted errors of the trials: {tolerances}")
        check(os.path.exists(folder + "/out/dqn.lathe"), "there is no module")
        print(f"resumed and done: {ended} trials, {len(after)} measured")


main()
