#!/usr/bin/env python3
"""The last race of a job that a tracker owns: served_race_test.py TUNE

On a worker that builds and measures; on a runner, which gets the modules from the tracker as a board would; through the
death of the worker in its midst; and without any worker left.
"""

import subprocess
import tempfile
import time

from tracker_process import TUNE, Tracker, check, run, wait_for

# A run of it takes long enough that its race, ten turns of four runs at least, can be interrupted.
SLOW = """def @main(%x: Tensor[(512, 2048), float32], %w: Tensor[(2048, 2048), float32]) -> Tensor[(512, 2048), float32] {
  nn.dense(nn.dense(%x, %w), %w)
}
"""


class Farm:
    """A tracker with its workers, which are killed at the end."""

    def __init__(self, tracker):
        self.tracker, self.workers = tracker, {}

    def start_worker(self, name, *words):
        self.workers[name] = subprocess.Popen(
            [TUNE, "worker", "--tracker", "ipc://" + self.tracker.path("socket"), "--name", name, "--builders", "1",
             *words], stdout=self.tracker.log, stderr=self.tracker.log)

    def kill_worker(self, name):
        self.workers[name].kill()
        self.workers[name].wait()

    def submit(self, model, trials):
        return run("submit", "--model", model, "--trials", str(trials), "--threads", "1", "--tracker",
                   f"http://127.0.0.1:{self.tracker.port}")

    def job(self, job):
        return self.tracker.call("GET", "/v1/jobs/" + job)[1]

    def finished(self, job):
        state = wait_for("a job to end", lambda: (lambda j: j if j["state"] not in ("queued", "running") else None)(
            self.job(job)), 240)
        check(state["state"] == "done", f"the job is {state['state']}: {state['message']}")
        return state["report"]

    def text(self, job):
        return self.tracker.call("GET", f"/v1/jobs/{job}/report")[1]

    def module(self, job, folder):
        return run("fetch", job, "--out", folder, "--tracker", f"http://127.0.0.1:{self.tracker.port}")

    def trials(self, job):
        return self.tracker.call("GET", f"/v1/jobs/{job}/trials?limit=10000")[1]["trials"]

    def races(self, job):
        """Whether a worker holds a lease that is of no candidate: those that were there have ended, and none has come."""
        before = self.trials(job)
        held = sum(w["leases"] for w in self.tracker.call("GET", "/v1/workers")[1]["workers"])
        return held > 0 and len(before) > 0 and all(t["outcome"] for t in before) and len(self.trials(job)) == len(before)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def check_race(farm, job, report, model):
    race = report["race"]
    check(race is not None, f"no race: {report.get('not_raced')}")
    check(race["pairs"] >= 10 and race["untuned_ms"] > 0 and race["tuned_ms"] > 0, f"a strange race: {race}")
    if race["verdict"] == "tuned is faster":
        check(race["shipped"] == "tuned" and race["low"] > 1, f"the slower is shipped: {race}")
    if race["verdict"] == "untuned is faster":
        check(race["shipped"] == "untuned" and race["high"] < 1, f"the slower is shipped: {race}")
    check(report["after_ms"] == race[race["shipped"] + "_ms"], "after_ms is not of what is shipped")
    check(f"shipped: the {race['shipped']} build" in farm.text(job) or "the two builds are the same" in farm.text(job),
          farm.text(job))
    # What is shipped is, byte by byte, the build that the report names.
    folder = farm.tracker.path("out-" + job)
    shipped = farm.module(job, folder)
    untuned = f"{folder}/untuned.lathe"
    run("compile", "--model", model, "--untuned", "--threads", "1", "--out", untuned)
    same = read(shipped) == read(untuned)
    check(same == (race["shipped"] == "untuned") or "the two builds are the same" in farm.text(job),
          f"what is shipped is {'' if same else 'not '}the untuned build: {race}")
    return f"{race['verdict']}, {race['ratio']:.3f} ({race['low']:.3f} .. {race['high']:.3f}), {race['pairs']} turns"


def races_on_a_worker(farm):
    farm.start_worker("w1")
    job = farm.submit("dqn", 40)
    report = farm.finished(job)
    print("on a worker:", check_race(farm, job, report, "dqn"))
    check({t["purpose"] for t in farm.trials(job)} <= {"search", "confirm"}, "a race is among the trials")


def survives_its_worker(farm):
    with open(farm.tracker.path("slow.relay"), "w") as file:
        file.write(SLOW)
    job = farm.submit(farm.tracker.path("slow.relay"), 6)
    wait_for("its race", lambda: farm.races(job), 240)
    farm.kill_worker("w1")
    check(farm.job(job)["state"] == "running", "the race was over too soon to be interrupted")
    farm.start_worker("w1")
    report = farm.finished(job)
    check(report["race"] is not None, f"no race: {report.get('not_raced')}")
    check(farm.job(job)["crashes"] == 0, "the searcher crashed")
    print("through the death of its worker:", report["race"]["verdict"], report["race"]["pairs"], "turns")


def does_without(farm):
    job = farm.submit(farm.tracker.path("slow.relay"), 6)
    wait_for("its race", lambda: farm.races(job), 240)
    farm.kill_worker("w1")
    begun = time.monotonic()
    report = farm.finished(job)
    check(report["race"] is None and "races builds" in report["not_raced"], f"a race without a worker: {report['race']}")
    check("not raced: no worker is" in farm.text(job) and "for which the kernels' times speak" in farm.text(job),
          farm.text(job))
    print(f"without a worker, after {time.monotonic() - begun:.0f} s: {report['not_raced']}")


def races_on_a_runner(farm):
    farm.start_worker("builder", "--role", "build")
    farm.start_worker("runner", "--role", "run")
    job = farm.submit("dqn", 12)
    report = farm.finished(job)
    print("on a runner:", check_race(farm, job, report, "dqn"))


def main():
    with tempfile.TemporaryDirectory() as folder, Tracker(folder) as tracker:
        farm = Farm(tracker)
        try:
            races_on_a_worker(farm)
            survives_its_worker(farm)
            does_without(farm)
            races_on_a_runner(farm)
        finally:  # what fails leaves nothing running
            for worker in farm.workers.values():
                worker.kill()


if __name__ == "__main__":
    main()
