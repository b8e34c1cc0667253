#!/usr/bin/env python3
"""A farm from nothing, as docs/jobs.md says it, by people who share no file.

fresh_farm_test.py [--build DIR [DIR]] [--simulated N]

Two fresh clones of this repository are built, one for the service and one for its users; or, with --build, they use these
trees, or both that one. Of a clone no more is built than its people need; the second finds what the first has compiled in
ccache. The tracker, two workers and the users each live in a network namespace of their own, joined by a bridge. Three keys
(the tracker's and the workers'), two users; three jobs are handed in at once; the users look at the page and the API, fetch
the modules and run them. With --simulated the workers are N that measure nothing (lathe-simulated-workers) instead of two.

Exit code 77, and why, where network namespaces cannot be made.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
ADDRESSES = {"farm": "10.77.91.1", "w1": "10.77.91.2", "w2": "10.77.91.3", "users": "10.77.91.4"}
TRACKER, URL = f"tcp://{ADDRESSES['farm']}:9190", f"http://{ADDRESSES['farm']}:9191"
JOBS = {"dqn": ("alice", 24), "net.relay": ("bob", 8), "mlp.relay": ("bob", 8)}  # a model's user and trials
MODELS = {
    "net.relay": "def @main(%x: Tensor[(8, 64), float32]) -> Tensor[(8, 64), float32] { nn.relu(%x) }\n",
    "mlp.relay": "def @main(%x: Tensor[(16, 64), float32], %w: Tensor[(32, 64), float32]) { nn.dense(%x, %w) }\n",
}
# What a user's browser does.
GET = """import sys, urllib.request
headers = {"Authorization": "Bearer " + open(sys.argv[2]).read().strip()} if len(sys.argv) > 2 else {}
try:
    print(urllib.request.urlopen(urllib.request.Request(sys.argv[1], headers=headers), timeout=30).read().decode())
except urllib.error.HTTPError as error:
    print(error.code)
"""


def check(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def wait_for(what, condition, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.2)
    sys.exit(f"FAILED: waited {seconds} s for {what}")


class Network:
    """Namespaces named after their process's id, with one switch."""

    def __init__(self):
        self.made = []

    def name(self, host):
        return f"lathe-{os.getpid()}-{host}"

    def ip(self, *words):
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)

    def make(self):
        for host in ADDRESSES:
            self.ip("netns", "add", self.name(host))
            self.made.append(host)
            self.ip("-n", self.name(host), "link", "set", "lo", "up")
        farm = ["-n", self.name("farm"), "link"]
        self.ip(*farm, "add", "switch", "type", "bridge")
        self.ip(*farm, "set", "switch", "up")
        self.ip("-n", self.name("farm"), "address", "add", ADDRESSES["farm"] + "/24", "dev", "switch")
        for host in list(ADDRESSES)[1:]:
            self.ip(*farm, "add", host, "type", "veth", "peer", "name", "eth", "netns", self.name(host))
            self.ip(*farm, "set", host, "master", "switch", "up")
            self.ip("-n", self.name(host), "link", "set", "eth", "up")
            self.ip("-n", self.name(host), "address", "add", ADDRESSES[host] + "/24", "dev", "eth")

    def remove(self):
        for host in self.made:
            subprocess.run(["ip", "netns", "delete", self.name(host)], check=False)


class Host:
    """Somebody's machine: a network, a folder, and nothing of the others'."""

    def __init__(self, network, host, folder, tune):
        self.prefix = ["ip", "netns", "exec", network.name(host)]
        self.folder, self.tune = folder / host, tune
        self.folder.mkdir()
        home = {variable: str(self.folder) for variable in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")}
        self.environment = {"PATH": os.environ["PATH"], **home}

    def start(self, *command):
        with open(self.folder / "log", "a") as log:
            return subprocess.Popen([*self.prefix, *command], cwd=self.folder, env=self.environment, stdout=log, stderr=log)

    def run(self, *command):
        done = subprocess.run([*self.prefix, *command], cwd=self.folder, env=self.environment, capture_output=True, text=True,
                              timeout=300)
        check(done.returncode == 0, f"{' '.join(command)} ends with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout.strip()

    def write(self, name, text, mode=0o600):
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(mode)

    def read(self, name):
        return (self.folder / name).read_text()


def fresh_clone(folder, *targets):
    """A clone of what is committed, in which `./run tune` has built `tune`, and of the rest these alone."""
    begin = time.monotonic()
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    # Else a file is another to ccache in each folder.
    environment = {**os.environ, "CCACHE_BASEDIR": str(folder), "CCACHE_NOHASHDIR": "1"}
    subprocess.run(["./run", "tune", "version"], cwd=folder, check=True, env=environment)
    for target in targets:
        subprocess.run(["cmake", "--build", "build/release", "--target", target], cwd=folder, check=True, env=environment,
                       stdout=subprocess.DEVNULL)
    print(f"{folder.name}: built in {time.monotonic() - begin:.0f} s", flush=True)
    return folder / "build/release"


class People:
    """Who does what, in the order of docs/jobs.md."""

    def __init__(self, network, folder, builds):
        self.builds = builds
        tunes = {owner: str(build / "bin/tune") for owner, build in builds.items()}
        self.farm = Host(network, "farm", folder, tunes["service"])
        self.workers = [Host(network, name, folder, tunes["service"]) for name in ("w1", "w2")]
        self.users = Host(network, "users", folder, tunes["users"])
        self.processes = []

    def set_up_service(self):
        farm = self.farm
        self.tracker_key = farm.run(farm.tune, "keygen", "--out", "tracker.key")
        for user in ("alice", "bob"):
            line = farm.run(farm.tune, "token", "--name", user, "--out", user + ".token")
            with open(farm.folder / "principals", "a") as principals:
                principals.write(line + "\n")
            self.users.write(user + ".token", farm.read(user + ".token"))  # handed over
        keys = [worker.run(worker.tune, "keygen", "--out", "worker.key") for worker in self.workers]
        farm.write("workers", "".join(key + "\n" for key in keys))
        self.processes.append(farm.start(
            farm.tune, "tracker", "--db", "tuning.db", "--listen", "tcp://*:9190", "--key", "tracker.key", "--allow", "workers",
            "--http", "*:9191", "--principals", "principals", "--searches", "3"))
        wait_for("the tracker", lambda: "listening" in farm.read("log"), 30)

    def start_workers(self, simulated):
        for worker in self.workers[:1] if simulated else self.workers:
            keys = ["--tracker", TRACKER, "--key", "worker.key", "--tracker-key", self.tracker_key]
            program = ([str(self.builds["service"] / "bin/lathe-simulated-workers"), "--count", str(simulated)] if simulated else
                       [worker.tune, "worker", "--builders", "1", "--name", worker.folder.name])
            self.processes.append(worker.start(*program, *keys))
        expected = simulated or len(self.workers)
        wait_for("the workers", lambda: len(self.ask("/v1/workers")["workers"]) == expected, 90)

    def get(self, path, *token):
        return self.users.run(sys.executable, "-c", GET, URL + path, *token)

    def ask(self, path):
        return json.loads(self.get(path, "alice.token"))

    def submit(self, target):
        """All at once."""
        running = []
        for model, text in MODELS.items():
            self.users.write(model, text)
        for model, (user, trials) in JOBS.items():
            running.append(subprocess.Popen(
                [*self.users.prefix, self.users.tune, "submit", "--model", model, "--trials", str(trials), "--threads", "1",
                 *target, "--tracker", URL, "--token-file", user + ".token"],
                cwd=self.users.folder, env=self.users.environment, stdout=subprocess.PIPE, text=True))
        self.jobs = dict(zip(JOBS, (process.communicate(timeout=120)[0].strip() for process in running)))
        check(all(process.returncode == 0 for process in running), "a job was refused")

    def look_on(self):
        page = self.get("/")
        check("<html" in page.lower() and "<script" in page, f"the page is {page[:200]!r}")
        check(self.get("/v1/jobs") == "401", "who says nothing of themselves sees the jobs")
        listed = {job["id"]: job for job in self.ask("/v1/jobs")["jobs"]}
        check({job["owner"] for job in listed.values()} == {"alice", "bob"} and len(listed) == len(JOBS),
              f"the list of jobs is {listed}")

    def wait_for_jobs(self):
        for model, job in self.jobs.items():
            state = wait_for(f"{model}'s job", lambda: (lambda j: j["state"] not in ("queued", "running") and j)(
                self.ask("/v1/jobs/" + job)), 400)
            check(state["state"] == "done", f"{model}'s job is {state['state']}: {state['message']}")
            check(state["trials"] == JOBS[model][1], f"{state['trials']} trials of {model}'s job")

    def fetch_and_run(self):
        for model, job in self.jobs.items():
            user = JOBS[model][0]
            module = self.users.run(self.users.tune, "fetch", job, "--out", model + "-out", "--tracker", URL, "--token-file",
                                    user + ".token")
            self.users.run(self.users.tune, "run", "--model", module, "--out", model + "-results")
            results = list((self.users.folder / (model + "-results")).glob("*.npy"))
            check(results, f"{model} gives no results")
            timed = json.loads(self.users.run(self.users.tune, "bench", "--model", module, "--time", "1s", "--json"))
            print(f"{model}: {JOBS[model][1]} trials for {user}; the module takes {timed['median_ms']:.4f} ms")

    def who_measured(self):
        measured = set()
        for job in self.jobs.values():
            for trial in self.ask(f"/v1/jobs/{job}/trials?limit=1000")["trials"]:
                measured.add(self.ask(f"/v1/trials/{trial['id']}")["leases"][-1]["worker"])
        return measured

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            check(process.wait(30) == 0, f"a process ended with {process.returncode}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, nargs="+", metavar="DIR",
                        help="use what is built there instead of two fresh clones: the service's, and the users' or the same")
    parser.add_argument("--simulated", type=int, default=0, metavar="N", help="that many workers that measure nothing")
    options = parser.parse_args()
    network = Network()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="lathe-farm-"))
    people = None
    try:
        try:
            network.make()
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"skipped: cannot make network namespaces (root, iproute2 and Linux's veth and bridge are needed): "
                  f"{getattr(error, 'stderr', None) or error}")
            return 77
        if options.build:
            builds = {"service": options.build[0].resolve(), "users": options.build[-1].resolve()}
        else:
            simulators = ["lathe-simulated-workers"] if options.simulated else []
            builds = {"service": fresh_clone(folder / "service-clone", *simulators), "users": fresh_clone(folder / "users-clone")}
        people = People(network, folder, builds)
        people.set_up_service()
        people.start_workers(options.simulated)
        people.submit(["--target", "cpu:mcpu=x86-64-v3"] if options.simulated else [])
        people.look_on()
        people.wait_for_jobs()
        people.fetch_and_run()
        measured = people.who_measured()
        check(len(measured) > 1, f"only {measured} measured")
        people.stop()
        print(f"three jobs of two users, measured by {len(measured)} workers")
        return 0
    finally:
        for process in people.processes if people else []:
            if process.poll() is None:
                process.kill()
        network.remove()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
