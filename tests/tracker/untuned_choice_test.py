#!/usr/bin/env python3
"""A job that a tracker owns, whose race the untuned build wins: later builds of the model follow that, as they do after
`tune` alone; and the next job races anew.

usage: untuned_choice_test.py PATH/TO/tune PATH/TO/fake_device      on that device the untuned build always wins
"""
import sqlite3
import subprocess
import sys
import tempfile

from tracker_process import TUNE, Tracker, check, run, wait_for

DEVICE = sys.argv[2]
MODEL = "def @main(%data: Tensor[(8, 96), float32], %w: Tensor[(48, 96), float32]) -> Tensor[(8, 48), float32] " \
        "{ nn.relu(nn.dense(%data, %w)) }\n"


def finish_job(tracker, seed):
    job = run("submit", "--tracker", f"http://127.0.0.1:{tracker.port}", "--model", tracker.path("net.relay"),
              "--trials", "40", "--threads", "1", "--seed", str(seed))
    state = wait_for("the job to end", lambda: (lambda j: j if j["state"] not in ("queued", "running") else None)(
        tracker.call("GET", "/v1/jobs/" + job)[1]))
    check(state["state"] == "done", f"the job is {state['state']}: {state['message']}")
    race = state["report"]["race"]
    check(race and race["verdict"] == "untuned is faster" and race["shipped"] == "untuned", f"it ships {race}")
    said = tracker.call("GET", f"/v1/jobs/{job}/report")[1]
    check("the two builds are the same" not in said, "the tuned build of this job is the untuned one")


def rows(tracker, query):
    with sqlite3.connect(f"file:{tracker.path('tuning.db')}?mode=ro", uri=True, timeout=10) as database:
        return database.execute(query).fetchall()


def build(tracker, name, *words):
    (target,), = rows(tracker, "SELECT name FROM target")
    run("compile", "--model", tracker.path("net.relay"), "--target", target, "--threads", "1", "--out",
        tracker.path(name), *words)
    with open(tracker.path(name), "rb") as module:
        return module.read()


def main():
    with tempfile.TemporaryDirectory() as folder, Tracker(folder) as tracker:
        with open(tracker.path("net.relay"), "w") as file:
            file.write(MODEL)
        device = subprocess.Popen([DEVICE, "ipc://" + tracker.path("socket"), "w"], stdout=tracker.log, stderr=tracker.log)
        try:
            for seed in 1, 2:
                finish_job(tracker, seed)
                check(rows(tracker, "SELECT * FROM choice_task"), "nothing is chosen")
                later = build(tracker, "later", "--db", tracker.path("tuning.db"))
                check(later == build(tracker, "untuned", "--untuned"), "later builds do not follow")
        finally:
            device.kill()
            device.wait()
        latencies = rows(tracker, "SELECT seconds FROM model_latency")
        check([round(seconds, 6) for seconds, in latencies] == [1e-3, 1e-3], f"the model takes {latencies} s")
    print("2 jobs: the untuned build won, and later builds follow")


if __name__ == "__main__":
    main()
