#!/usr/bin/env python3
"""Cores that a job's threads would need and its worker may not use (taskset, a container): nothing is measured as if they were
there, no budget is spent on it, and what was measured is kept.

fewer_cores_test.py TUNE
"""

import contextlib
import glob
import os
import signal
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


def processes_of(pid):
    """It and all that it has started."""
    found = [pid]
    for children in glob.glob(f"/proc/{pid}/task/*/children"):
        with contextlib.suppress(OSError), open(children) as file:  # a thread may end meanwhile
            for child in file.read().split():
                found += processes_of(int(child))
    return found


def take_cores(pid):
    for process in processes_of(pid):
        for thread in glob.glob(f"/proc/{process}/task/*"):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(os.path.basename(thread)), {CORE})


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


def more_threads_than_cores(folder):
    """Nothing begins."""
    done = subprocess.run([TUNE, "--model", "dqn", "--threads", "2", "--trials", "8", "--db", f"{folder}/tuning.db", "--out",
                           f"{folder}/out"], capture_output=True, text=True, timeout=100, preexec_fn=with_one_core)
    said = "error: 2 threads, where this machine's worker may use 1 core\n  hint: with --listen "
    check(done.returncode == 4 and said in done.stderr, f"ended with {done.returncode}: {done.stderr}")
    check(os.listdir(folder) == [], f"left {os.listdir(folder)}")


def cores_that_go(folder):
    """The job ends within a moment, and goes on when they are there again."""
    words = [TUNE, "--model", "dqn", "--threads", "2", "--trials", "100000", "--quiet", "--db", f"{folder}/tuning.db", "--out",
             f"{folder}/out"]
    job = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    wait_for("measurements", lambda: job.poll() is not None or measured(folder).get(2, 0) > 5)
    take_cores(job.pid)
    said = job.communicate(timeout=200)[1]
    check(job.returncode == 4, f"ended with {job.returncode}: {said}")
    check("error: this machine's worker may use 1 of the cores now, and the job's kernels run on 2 threads" in said, said)
    with sqlite3.connect(f"{folder}/tuning.db") as database:
        state = database.execute("SELECT state, uuid FROM job").fetchall()
        failed = database.execute("SELECT count(*) FROM trial WHERE error LIKE '%cores this process%'").fetchone()[0]
    check(failed == 0, f"{failed} candidates are said to fail for want of cores")
    kept = measured(folder)[2]
    again = subprocess.Popen([TUNE, "resume", state[0][1], "--quiet", "--db", f"{folder}/tuning.db", "--out", f"{folder}/out"],
                             stderr=subprocess.PIPE, text=True)
    wait_for("more measurements", lambda: again.poll() is not None or measured(folder)[2] > kept)
    again.send_signal(signal.SIGINT)
    said = again.communicate(timeout=200)[1]
    check(again.returncode == 130, f"resumed, it ended with {again.returncode}: {said}")


def main():
    attempts = [a_worker_in_a_container, more_threads_than_cores]
    if len(os.sched_getaffinity(0)) > 1:
        attempts.append(cores_that_go)
    for attempt in attempts:
        with tempfile.TemporaryDirectory() as folder:
            attempt(folder)
    print(f"{len(attempts)} held off")


if __name__ == "__main__":
    main()
