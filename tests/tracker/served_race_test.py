#!/usr/bin/env python3
"""The last race of a job that a tracker owns: served_race_test.py TUNE

On a worker that builds and measures; on a runner, which gets the modules from the tracker as a board would; through the
death of the worker in its midst, a pause, the death of the tracker and the end of the worker's key; to the end of its job,
where that is cancelled; and without any worker left. And of a model with an open dimension, at each of its sizes.
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

OPEN = """def @main(%x: Tensor[(n, 24), float32]) {
  nn.relu(nn.dense(%x, multiply(ones(shape=[32, 24], dtype="float32"), 0.5f)))
}
"""


class Farm:
    """A tracker with its workers, each with a key of its own, which are killed at the end."""

    def __init__(self, folder):
        self.tracker = Tracker(folder, "--key", f"{folder}/tracker.key", "--allow", f"{folder}/allowed")
        self.tracker_key = run("keygen", "--out", self.tracker.path("tracker.key"))
        self.keys, self.workers = {}, {}
        self.list_keys()

    def __enter__(self):
        self.tracker.__enter__()
        return self

    def __exit__(self, *error):
        for worker in self.workers.values():
            worker.kill()
            worker.wait()
        self.tracker.__exit__(*error)

    def list_keys(self):
        with open(self.tracker.path("allowed"), "w") as file:
            file.writelines(key + "\n" for key in self.keys.values())

    def start_worker(self, name, *words):
        key = self.tracker.path(name + ".key")
        if name not in self.keys:
            self.keys[name] = run("keygen", "--out", key)
            self.list_keys()
        self.workers[name] = subprocess.Popen(
            [TUNE, "worker", "--tracker", "ipc://" + self.tracker.path("socket"), "--name", name, "--builders", "1",
             "--key", key, "--tracker-key", self.tracker_key, *words], stdout=self.tracker.log, stderr=self.tracker.log)

    def revoke_key(self, name):
        del self.keys[name]
        self.list_keys()

    def kill_worker(self, name):
        self.workers[name].kill()
        self.workers[name].wait()

    def submit(self, model, trials, *flags):
        return run("submit", "--model", model, "--trials", str(trials), "--threads", "1", *flags, "--tracker",
                   f"http://127.0.0.1:{self.tracker.port}")

    def submit_slow(self):
        with open(self.tracker.path("slow.relay"), "w") as file:
            file.write(SLOW)
        return self.submit(self.tracker.path("slow.relay"), 6)

    def job(self, job):
        return self.tracker.call("GET", "/v1/jobs/" + job)[1]

    def ask(self, job, what):
        status, said = self.tracker.call("POST", f"/v1/jobs/{job}/{what}")
        check(status == 200, f"{what}: {status} {said}")

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

    def holders(self):
        """The names of workers that hold leases."""
        return [w["name"] for w in self.tracker.call("GET", "/v1/workers")[1]["workers"] if w["leases"] > 0]

    def races(self, job):
        """Whether a worker holds a lease that is of no candidate: those that were there have ended, and none has come."""
        before = self.trials(job)
        return self.holders() and len(before) > 0 and all(t["outcome"] for t in before) and len(self.trials(job)) == len(before)


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
    untuned, told = (sum(task["weight"] * task["before_us"] for task in report["tasks"]),
                     farm.job(job)["progress"]["default_model_seconds"] * 1e6)
    check(abs(told - untuned) < 1e-3 * untuned, f"untuned kernels take {untuned} us by the report, {told} us by the page")
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


def races_at_each_size(farm, where):
    """A model with an open dimension: kernels that take it are measured, and its two builds race at each size."""
    path = farm.tracker.path("open.relay")
    with open(path, "w") as file:
        file.write(OPEN)
    job = farm.submit(path, 24, "--open", "n=1..256,1,16:2,256")
    report = farm.finished(job)
    check([s["size"] for s in report["sizes"]] == ["n=1", "n=16", "n=256"], f"strange sizes: {report['sizes']}")
    check(all(s["untuned_ms"] > 0 and s["tuned_ms"] > 0 for s in report["sizes"]), f"strange races: {report['sizes']}")
    check(all(not task["failures"] for task in report["tasks"]), f"candidates failed: {report['tasks']}")
    kernels = report["families"][0]["kernels"]
    check(sum(len(k["measured"]) for k in kernels) == 3, f"a size without a kernel: {kernels}")
    check("kernels for open dimensions" in farm.text(job), farm.text(job))
    module = farm.module(job, farm.tracker.path("out-" + job))
    for rows in (1, 17, 256):
        run("run", "--model", module, "--shape", f"x={rows}x24")
    print(f"at each size, {where}:", ", ".join(f"{s['size']}: {s['ratio']:.2f}" for s in report["sizes"]))


def races_on_a_worker(farm):
    farm.start_worker("w1")
    job = farm.submit("dqn", 40)
    report = farm.finished(job)
    print("on a worker:", check_race(farm, job, report, "dqn"))
    check({t["purpose"] for t in farm.trials(job)} <= {"search", "confirm"}, "a race is among the trials")


def survives_its_worker(farm):
    job = farm.submit_slow()
    wait_for("its race", lambda: farm.races(job), 240)
    farm.kill_worker("w1")
    check(farm.job(job)["state"] == "running", "the race was over too soon to be interrupted")
    farm.start_worker("w1")
    report = farm.finished(job)
    check(report["race"] is not None, f"no race: {report.get('not_raced')}")
    check(farm.job(job)["crashes"] == 0, "the searcher crashed")
    print("through the death of its worker:", report["race"]["verdict"], report["race"]["pairs"], "turns")


def survives_the_rest(farm):
    """In its race a job is paused; in the next its tracker dies; in the third its worker's key is revoked."""
    farm.start_worker("w2")
    job = farm.submit_slow()
    wait_for("its race", lambda: farm.races(job), 240)
    farm.ask(job, "pause")
    wait_for("the worker of a paused race to be free", lambda: not farm.holders(), 10)
    check(farm.job(job)["state"] == "stopped", f"a paused job is {farm.job(job)['state']}")
    farm.ask(job, "resume")
    wait_for("its second race", lambda: farm.races(job), 60)
    farm.tracker.kill()
    farm.tracker.start()
    wait_for("its third race", lambda: farm.races(job), 60)
    (holder,) = farm.holders()
    farm.revoke_key(holder)
    wait_for("another worker to race", lambda: farm.holders() not in ([], [holder]), 20)
    farm.kill_worker(holder)
    report = farm.finished(job)
    check(report["race"] is not None, f"no race: {report.get('not_raced')}")
    print("through a pause, the tracker's death and a revoked key:", report["race"]["verdict"],
          report["race"]["pairs"], "turns")
    return "w1" if holder == "w2" else "w2"


def ends_with_its_job(farm):
    job = farm.submit_slow()
    wait_for("its race", lambda: farm.races(job), 240)
    farm.ask(job, "cancel")
    wait_for("the worker of a cancelled race to be free", lambda: not farm.holders(), 10)
    check(farm.job(job)["state"] == "cancelled", f"a cancelled job is {farm.job(job)['state']}")
    print("with its job: cancelled")


def does_without(farm, worker):
    job = farm.submit_slow()
    wait_for("its race", lambda: farm.races(job), 240)
    farm.kill_worker(worker)
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
    with tempfile.TemporaryDirectory() as folder, Farm(folder) as farm:
        races_on_a_worker(farm)
        races_at_each_size(farm, "on a worker")
        survives_its_worker(farm)
        left = survives_the_rest(farm)
        ends_with_its_job(farm)
        does_without(farm, left)
        races_on_a_runner(farm)
        races_at_each_size(farm, "on a runner")


if __name__ == "__main__":
    main()
