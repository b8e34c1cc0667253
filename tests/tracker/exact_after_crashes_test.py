#!/usr/bin/env python3
"""Three jobs on a deterministic device, undisturbed and then with workers, searchers and the tracker killed in the
midst of them: the same candidates in the same order, the same times, the same bests and counts.

usage: exact_after_crashes_test.py [--kills N] PATH/TO/tune PATH/TO/fake_device

--kills N: so many of each (1), over as many runs of the three jobs as it takes; F2 asks for 200.
"""
import argparse
import collections
import itertools
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request

from tracker_process import check, free_port, wait_for

TRIALS = 72
# Of each kind in one run of the jobs: a job whose searcher has crashed three times has failed.
MOST_KILLS = 6
CRASHES_OF_JOB = 2
# Models whose tasks differ in more than their shapes: jobs that share tasks, or that have tasks of one structure, learn
# from each other, and when is a matter of time.
MODELS = {
    "dense": "def @main(%data: Tensor[(8, 96), float32], %w: Tensor[(48, 96), float32]) -> Tensor[(8, 48), float32] "
             "{ nn.relu(nn.dense(%data, %w)) }\n",
    "conv2d": "def @main(%x: Tensor[(1, 8, 14, 14), float32], %w: Tensor[(16, 8, 3, 3), float32]) "
              "{ nn.relu(nn.conv2d(%x, %w, padding=[1, 1])) }\n",
    "softmax": "def @main(%a: Tensor[(48, 200), float32]) { nn.softmax(%a) }\n",
}


class Service:
    def __init__(self, folder):
        self.folder = folder
        self.database = folder + "/tuning.db"
        self.farm, self.http = f"tcp://127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self.processes = []
        self.log = open(folder + "/log", "w")
        self.start_tracker()
        self.workers = [self.start(DEVICE, self.farm, name) for name in ("w1", "w2")]

    def start(self, *words):
        self.processes.append(subprocess.Popen(words, stdout=self.log, stderr=self.log))
        return self.processes[-1]

    def start_tracker(self):
        self.tracker = self.start(TUNE, "tracker", "--no-config", "--db", self.database, "--listen", self.farm,
                                  "--http", self.http)
        wait_for("the tracker", self.get_status)

    def get_status(self):
        try:
            return self.get("/v1/status")
        except OSError:
            return None

    def get(self, path):
        with urllib.request.urlopen(f"http://{self.http}{path}", timeout=30) as answer:
            return json.load(answer)

    def submit(self, model, seed):
        file = f"{self.folder}/{model}.relay"
        with open(file, "w") as text:
            text.write(MODELS[model])
        done = subprocess.run([TUNE, "submit", "--no-config", "--tracker", f"http://{self.http}", "--model", file,
                               "--trials", str(TRIALS), "--threads", "1", "--seed", str(seed)],
                              capture_output=True, text=True, timeout=120)
        check(done.returncode == 0, done.stderr)
        return done.stdout.strip()

    def searchers(self):
        """Their process ids, by their job."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline") as line, open(f"/proc/{pid}/stat") as stat:
                    fields = stat.read().rpartition(")")[2].split()
                    if "internal-search" in line.read() and int(fields[1]) == self.tracker.pid and fields[0] != "Z":
                        folder = os.path.dirname(os.readlink(f"/proc/{pid}/fd/2"))
                        found[os.path.basename(folder)] = int(pid)
            except OSError:
                continue
        return found

    def rows(self, query, *values):
        with sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=10) as database:
            return database.execute(query, values).fetchall()

    def ended(self):
        return self.rows("SELECT count(*) FROM trial WHERE ended_ms IS NOT NULL")[0][0]

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def outcome(self, job):
        """All that must be equal: the candidates in order and what became of them, confirmations, bests."""
        of_job = "FROM trial JOIN job ON job.id = trial.job JOIN candidate ON candidate.id = trial.candidate " \
                 "LEFT JOIN measurement ON measurement.candidate = candidate.id WHERE job.uuid = ? "
        search = self.rows("SELECT candidate.digest, candidate.trace, trial.state, outcome, measurement.median "
                           f"{of_job} AND purpose = 'search' ORDER BY trial.id", job)
        confirmed = self.rows(f"SELECT candidate.digest, count(*) {of_job} AND purpose = 'confirm' "
                              "GROUP BY candidate.id ORDER BY candidate.digest", job)
        tasks = self.rows("SELECT workload.digest, job_task.trials, best_seconds FROM job_task "
                          "JOIN job ON job.id = job_task.job JOIN workload ON workload.id = job_task.workload "
                          "WHERE uuid = ? ORDER BY position", job)
        best = [(t["after_us"], t["trials"], t["failures"]) for t in self.get(f"/v1/jobs/{job}")["report"]["tasks"]]
        return {"search": search, "confirmed": confirmed, "tasks": tasks, "best": best}


def check_confinement(guard):
    """What workers/search_confinement_test.cpp attacks is where searchers are: a guard's child is one."""
    def child():
        with open(f"/proc/{guard}/task/{guard}/children") as file:
            return file.read().split()

    searcher = wait_for("a guard's searcher", child)[0]

    def confined():
        with open(f"/proc/{searcher}/status") as file:
            status = dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
        return status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"

    # One that has just begun is about to confine itself: it has read nothing of the model yet.
    wait_for("a confined searcher", confined)
    held = {os.path.realpath(f"/proc/{searcher}/fd/{fd}") for fd in os.listdir(f"/proc/{searcher}/fd")}
    check(not any(file.endswith(("tuning.db", "-wal", "-shm")) for file in held), f"it holds the database: {held}")


class Killer:
    """Kills of each kind as many as are left to kill, over several runs."""

    def __init__(self, kills):
        self.left = {"worker": kills, "searcher": kills, "tracker": kills}

    def disturb(self, service):
        """Returns how many searchers were killed."""
        turns = [kind for _ in range(MOST_KILLS) for kind in self.left]
        crashes = collections.Counter()
        turns = [kind for i, kind in enumerate(turns) if i // len(self.left) < self.left[kind]]
        # So far apart that no candidate loses three workers.
        pause = 3 * TRIALS // (len(turns) + 1)
        for i, kind in enumerate(turns):
            after = service.ended() + pause
            wait_for("more trials", lambda: service.ended() >= min(after, 3 * TRIALS - 1))
            if kind == "worker":
                self.kill_worker(service, i)
            elif kind == "searcher":
                if not self.kill_searcher(service, crashes):
                    continue
            else:
                service.tracker.send_signal(signal.SIGKILL)
                service.tracker.wait()
                service.start_tracker()
            self.left[kind] -= 1
        return sum(crashes.values())

    @staticmethod
    def kill_worker(service, turn):
        which = turn // 3 % len(service.workers)
        service.workers[which].send_signal(signal.SIGKILL)
        service.workers[which].wait()
        service.workers[which] = service.start(DEVICE, service.farm, f"w{which + 1}")

    @staticmethod
    def kill_searcher(service, crashes):
        """False when there is none whose job would survive it."""
        alive = wait_for("a searcher", service.searchers)
        job = min(alive, key=lambda job: crashes[job])
        if crashes[job] == CRASHES_OF_JOB:
            return False
        check_confinement(alive[job])
        crashes[job] += 1
        os.kill(alive[job], signal.SIGKILL)
        # A tracker that is killed before it sees the crash starts a searcher and has none to count.
        wait_for("the crash to be seen", lambda: service.get(f"/v1/jobs/{job}")["crashes"] == crashes[job])
        return True


def run_jobs(disturb):
    with tempfile.TemporaryDirectory() as folder:
        service = Service(folder)
        try:
            jobs = {model: service.submit(model, seed) for seed, model in enumerate(MODELS, 1)}
            killed = disturb(service) if disturb else 0

            def all_over():
                states = {service.get(f"/v1/jobs/{job}")["state"] for job in jobs.values()}
                return states if not states & {"queued", "running"} else None

            states = wait_for("the jobs to end", all_over)
            if states != {"done"}:
                service.log.flush()
                with open(folder + "/log") as log:
                    sys.exit(f"FAILED: jobs are {states}\n{log.read()[-3000:]}")
            crashes = sum(service.get(f"/v1/jobs/{job}")["crashes"] for job in jobs.values())
            check(crashes == killed, f"{crashes} crashes of searchers, and {killed} were killed")
            return {model: service.outcome(job) for model, job in jobs.items()}
        finally:
            service.stop()


def require_equal(expected, found):
    for model in MODELS:
        check(len(expected[model]["search"]) == TRIALS, f"{len(expected[model]['search'])} trials of {model}")
        for what in expected[model]:
            pairs = itertools.zip_longest(expected[model][what], found[model][what])
            for i, (before, after) in enumerate(pairs):
                check(before == after, f"{what} {i} of {model}:\n{before}\nafter crashes:\n{after}")


def main(kills):
    begun = time.monotonic()
    expected = run_jobs(None)
    whole = time.monotonic() - begun
    killer, runs = Killer(kills), 0
    while any(killer.left.values()):
        require_equal(expected, run_jobs(killer.disturb))
        runs += 1
    confirmed = sum(count for model in MODELS for _, count in expected[model]["confirmed"])
    print(f"3 jobs of {TRIALS} trials ({whole:.0f} s undisturbed, {time.monotonic() - begun - whole:.0f} s in {runs} runs "
          f"with {kills} kills of workers, searchers and the tracker each): candidates, times, {confirmed} confirmations "
          "and bests are equal")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=1)
    parser.add_argument("tune")
    parser.add_argument("device")
    arguments = parser.parse_args()
    TUNE, DEVICE = arguments.tune, arguments.device
    main(arguments.kills)
