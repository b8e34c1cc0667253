#!/usr/bin/env python3
"""A tracker with users, keys and jobs, as processes: jobs_over_http_test.py TUNE

What people do (three jobs of two users at once, on two workers), what breaks (the tracker, a searcher, a worker,
each killed in the midst of it) and what strangers try. On a server's database where DATABASE_TEST_SERVER names one
(tests/db/with_postgres.py).
"""

import hashlib
import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time

from tracker_process import ask, check, free_port, run, TUNE, wait_for


class Service:
    """The processes of one farm, in a folder of their own."""

    def __init__(self, folder):
        self.folder = folder
        self.farm, self.http = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.http}"
        self.database = os.environ.get("DATABASE_TEST_SERVER", self.path("tuning.db"))
        self.log = open(folder + "/log", "w")
        self.tokens = {}
        self.processes = []

    def path(self, name):
        return f"{self.folder}/{name}"

    def add_user(self, name, role="submitter", *more):
        file = self.path(name + ".token")
        self.add_line("principals", run("token", "--name", name, "--role", role, "--out", file, *more))
        with open(file) as token:
            self.tokens[name] = token.read().strip()

    def start(self, *words):
        process = subprocess.Popen([TUNE, *words], stdout=self.log, stderr=self.log)
        self.processes.append(process)
        return process

    def start_tracker(self):
        self.tracker = self.start(
            "tracker", "--db", self.database, "--files", self.path("files"), "--listen", f"tcp://127.0.0.1:{self.farm}", "--http",
            f"127.0.0.1:{self.http}", "--key", self.path("tracker.key"), "--allow", self.path("allowed"),
            "--principals", self.path("principals"), "--searches", "3")
        wait_for("the tracker", lambda: self.call("GET", "/v1/status", "alice")[0] == 200)

    def worker_words(self, name, key=None):
        return ["worker", "--tracker", f"tcp://127.0.0.1:{self.farm}", "--name", name, "--builders", "1", "--key",
                self.path((key or name) + ".key"), "--tracker-key", self.tracker_key]

    def start_worker(self, name, key=None):
        return self.start(*self.worker_words(name, key))

    def make_keys(self):
        self.tracker_key = run("keygen", "--out", self.path("tracker.key"))
        with open(self.path("allowed"), "w") as allowed:
            allowed.write(run("keygen", "--out", self.path("w1.key")) + "  # w1\n")
        self.add_line("principals", self.key_line("lab", "worker", "w2.key", "workers=1", "slots=3", "names=w2*"))

    def key_line(self, name, role, file, *caps):
        return " ".join([name, role, "curve:" + run("keygen", "--out", self.path(file)), *caps])

    def add_line(self, file, line):
        with open(self.path(file), "a") as lines:
            lines.write(line + "\n")

    def remove_lines(self, file, beginning):
        with open(self.path(file)) as lines:
            kept = [line for line in lines if not line.startswith(beginning)]
        time.sleep(0.02)  # another time of change
        with open(self.path(file), "w") as lines:
            lines.writelines(kept)

    def said(self):
        """What all processes have printed."""
        with open(self.path("log")) as log:
            return log.read()

    def worker(self, name):
        workers = self.call("GET", "/v1/workers", "root")[1]["workers"]
        return next((worker for worker in workers if worker["name"] == name), None)

    def call(self, method, path, user=None, body=None, headers=None):
        """(status, JSON or text); (0, reason) when there is no answer."""
        token = self.tokens.get(user, user)
        status, answer, self.headers = ask(self.http, method, path, body, token, headers)
        return status, answer

    def as_user(self, name):
        return ["--tracker", self.url, "--token-file", self.path(name + ".token")]

    def job(self, job):
        return self.call("GET", "/v1/jobs/" + job, "alice")[1]

    def stop(self):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                sys.exit("FAILED: a process did not end within 20 s")


def searchers(tracker):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as line, open(f"/proc/{pid}/stat") as stat:
                text = stat.read()
                parent, state = int(text[text.rindex(")") + 2:].split()[1]), text[text.rindex(")") + 2]
                if "internal-search" in line.read() and parent == tracker and state != "Z":
                    found.append(int(pid))
        except OSError:
            continue
    return found


def three_jobs_through_crashes(service):
    """Two users, three jobs at once; a searcher, a worker and the tracker are killed meanwhile."""
    model = service.path("net.relay")
    with open(model, "w") as file:
        file.write("def @main(%data: Tensor[(8, 64), float32]) -> Tensor[(8, 64), float32] { nn.relu(%data) }\n")
    jobs = [run("submit", "--model", "dqn", "--trials", "60", "--threads", "1", *service.as_user("alice")),
            run("submit", "--model", "dqn", "--trials", "40", "--threads", "1", "--seed", "2", "--key", "night",
                *service.as_user("bob")),
            run("submit", "--model", model, "--trials", "8", "--threads", "1", *service.as_user("bob"))]
    again = run("submit", "--model", "dqn", "--trials", "40", "--threads", "1", "--seed", "2", "--key", "night",
                *service.as_user("bob"))
    check(again == jobs[1], "the same key made another job")
    wait_for("first results", lambda: service.job(jobs[0])["trials"] >= 5)
    os.kill(wait_for("a searcher", lambda: searchers(service.tracker.pid))[0], signal.SIGKILL)
    wait_for("a crash to be counted", lambda: sum(service.job(job)["crashes"] for job in jobs) == 1)
    service.workers[0].kill()
    service.workers[0].wait()
    before = service.job(jobs[0])["trials"]
    service.tracker.kill()
    service.tracker.wait()
    service.workers[0] = service.start_worker("w1")
    service.start_tracker()
    for job in jobs:
        state = wait_for("a job to end", lambda: (lambda j: j if j["state"] not in ("queued", "running") else None)(
            service.job(job)), 240)
        check(state["state"] == "done", f"a job is {state['state']}: {state['message']}")
    check(service.job(jobs[0])["trials"] >= before, "results were lost")
    for job, budget in zip(jobs, (60, 40, 8)):
        details = service.job(job)
        check(details["trials"] == budget, f"{details['trials']} trials of {budget}")
        check(details["report"]["trials"] <= budget and len(details["tasks"]["tasks"]) > 0, "a strange report")
        trials = service.call("GET", f"/v1/jobs/{job}/trials?limit=1000", "alice")[1]["trials"]
        search = [t for t in trials if t["purpose"] == "search"]
        check(len(search) == budget and len({t["id"] for t in trials}) == len(trials), "trials lost or doubled")
    out = service.path("out")
    module = run("fetch", jobs[1], "--out", out, *service.as_user("alice"))
    check("dqn" in run("run", "--model", module, "--out", out + "/results") or os.path.exists(out),
          "the module does not run")
    def with_small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    small = subprocess.run([TUNE, "fetch", jobs[1], "--out", out + "/small", *service.as_user("alice")],
                           capture_output=True, text=True, preexec_fn=with_small_files)
    check(small.returncode == 4 and f"cannot write {out}/small/dqn.lathe: File too large" in small.stderr,
          f"a file that cannot be written is {small.returncode}, {small.stderr}")
    listed = json.loads(run("jobs", "--json", *service.as_user("alice")))["jobs"]
    check([j["owner"] for j in listed] == ["bob", "bob", "alice"], "a strange list of jobs")
    check(run("db", "check", "--db", service.database).endswith(": sound"), "the database is damaged")
    best = json.loads(run("query", "best", "--model", "dqn", "--json", "--db", service.database))
    check(len(best) > 0 and all(row["measured"] for row in best), f"nothing is best: {best}")
    print(f"three jobs through three kills: {[service.job(job)['trials'] for job in jobs]} trials")
    return jobs


def pause_and_cancel(service):
    job = run("submit", "--model", "resnet18", "--trials", "5000", "--threads", "1", *service.as_user("alice"))
    wait_for("results", lambda: service.job(job)["trials"] >= 3)
    run("pause", job, *service.as_user("alice"))
    check(service.job(job)["state"] == "stopped", "a paused job is not stopped")
    wait_for("its searcher to end", lambda: not searchers(service.tracker.pid), 30)
    time.sleep(1)
    check(service.job(job)["state"] == "stopped" and not searchers(service.tracker.pid), "a paused job goes on")
    check(service.call("POST", f"/v1/jobs/{job}/resume", "alice")[0] == 200, "a paused job cannot go on")
    before = service.job(job)["trials"]
    wait_for("more results", lambda: service.job(job)["trials"] > before + 3)
    watching = subprocess.Popen([TUNE, "watch", job, *service.as_user("alice")], stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)
    time.sleep(2)
    watching.send_signal(signal.SIGINT)
    said = watching.communicate()[1]
    check(f"tune cancel {job} {' '.join(service.as_user('alice'))}\n" in said, f"who leaves is told {said!r}")
    check(service.call("POST", f"/v1/jobs/{job}/cancel", "bob")[0] == 403, "bob ended alice's job")
    check(service.call("POST", f"/v1/jobs/{job}/cancel", "root")[0] == 200, "an admin could not end a job")
    check(service.call("POST", f"/v1/jobs/{job}/cancel", "root")[0] == 409, "a job ended twice")
    wait_for("an idle farm", lambda: service.call("GET", "/v1/status", "alice")[1]["pending"] == 0)
    job = run("submit", "--model", "dqn", "--trials", "40", "--threads", "1", "--seed", "7", *service.as_user("alice"))
    wait_for("results", lambda: service.job(job)["trials"] >= 1)
    run("pause", job, *service.as_user("alice"))
    said = run("resume", job[:8], "--out", service.path("resumed"), *service.as_user("alice"))
    check("module:" in said and os.path.exists(service.path("resumed/dqn.lathe")), f"a resumed job's module is not here: {said}")
    print("paused, resumed, fetched, cancelled")


def drains(service):
    worker = service.worker
    wait_for("canaries", lambda: all(worker(name)["canary"]["age_ms"] is not None for name in ("w1", "w2")))
    check(run("drain", "w1", *service.as_user("root")).startswith("worker w1 is drain"), "w1 is not drained")
    wait_for("w1 drained", lambda: worker("w1")["state"] == "drained")
    job = run("submit", "--model", "dqn", "--trials", "8", "--threads", "1", *service.as_user("alice"))
    state = wait_for("the job without w1", lambda: service.job(job)["state"] in ("done", "failed") and service.job(job))
    check(state["state"] == "done", f"the job is {state['state']}: {state['message']}")
    trials = service.call("GET", f"/v1/jobs/{job}/trials?limit=1000", "alice")[1]["trials"]
    check({t["worker"] for t in trials} == {"w2"}, "a drained worker worked")
    check("lathe_workers_drained 1" in service.call("GET", "/metrics", "ci")[1], "the metrics know no drained worker")
    check("drained" in run("jobs", "--devices", *service.as_user("ci")), "the list of devices does not say it")
    check("this needs admin" in run("drain", "w2", *service.as_user("alice"), code=5), "alice drained a worker")
    check("no worker `w3`" in run("drain", "w3", *service.as_user("root"), code=2), "there is a w3")
    # On a machine as busy as this may be, its canaries were perhaps off meanwhile.
    said = run("drain", "w1", "--undo", *service.as_user("root"))
    check(said in ("worker w1 is ready", "worker w1 is suspect"), f"w1 does not work again: {said}")
    check(run("trust", "w1", *service.as_user("root")) == "worker w1 is ready", "w1 is not trusted")
    check(run("trust", "w2", *service.as_user("root")) == "worker w2 is ready", "w2 is not trusted")
    print("drained, and back")


def strange_names(service):
    """A worker may be called by anything but control characters, and its key comes while the tracker runs."""
    service.add_line("allowed", run("keygen", "--out", service.path("w3.key")))
    name = "w3/50% ?a=b&c#d+e %41 \u00fc/drain/.."
    process = service.start_worker(name, "w3")
    wait_for("a worker of a strange name", lambda: service.worker(name))
    check(run("drain", name, *service.as_user("root")).startswith(f"worker {name} is drain"), "it is not drained")
    check(service.worker(name)["state"].startswith("drain"), f"{service.worker(name)}")
    said = run("drain", name, "--undo", *service.as_user("root"))
    check(said.endswith((" is ready", " is suspect")), f"it is drained for ever: {said}")
    check(run("trust", name, *service.as_user("root")) == f"worker {name} is ready", "it is not trusted")
    check("no worker `w3/50% `" in run("drain", "w3/50% ", *service.as_user("root"), code=2), "a part of its name is a name")
    check("no job `aaaa?b`" in run("cancel", "aaaa?b", *service.as_user("root"), code=2), "a job's name ends at a ?")
    process.terminate()
    process.wait(20)
    print("drained and trusted under a strange name")


def keys_of_workers(service):
    """What keys allow their workers; and one that is revoked while its worker measures."""
    def refused(what, name, key):
        said = run(*service.worker_words(name, key), code=5)
        check(what in said, f"the worker {name} is not told `{what}` but {said}")
        wait_for(f"the tracker to say `{what}`", lambda: "refused a worker" in service.said() and what in service.said())

    check(service.worker("w2")["slots"] == 3, "w2 holds more leases than its key may")
    check("worker `w2` asks for 4 leases at once and gets 3: lab may have 3 in all" in service.said(), "nobody says so")
    service.add_line("principals", service.key_line("guest", "viewer", "guest.key"))
    refused("the key of worker `g` is guest's, a viewer, who may not measure", "g", "guest")
    refused("the name `w2x` is kept for lab", "w2x", "w1")
    refused("workers of lab are called `w2*`, not `mine`", "mine", "w2")
    more = service.start_worker("w2x", "w2")
    wait_for("a refusal", lambda: "refuses: lab may have 1 workers at once, and worker `w2x` is one more" in service.said())
    more.terminate()
    more.wait(20)

    job = run("submit", "--model", "resnet18", "--trials", "5000", "--threads", "1", *service.as_user("alice"))

    def of_w2():
        trials = service.call("GET", f"/v1/jobs/{job}/trials?limit=10000", "alice")[1]["trials"]
        return sum(trial["worker"] == "w2" and trial["outcome"] is not None for trial in trials)

    wait_for("w2 to measure", lambda: service.worker("w2")["leases"] and of_w2() > 2)
    with open(service.path("principals")) as lines:
        line = next(line for line in lines if line.startswith("lab "))
    service.remove_lines("principals", "lab ")
    wait_for("w2 to be cut off", lambda: not service.worker("w2"), 5)
    begun, counted, all_then = time.monotonic(), of_w2(), service.job(job)["trials"]
    wait_for("w2 to be told", lambda: "refuses this worker: it does not list the key" in service.said(), 10)
    check("worker w2 is cut off: its key is not listed any more" in service.said(), "the tracker does not say it")
    wait_for("w1 to go on", lambda: service.job(job)["trials"] > all_then + 5)
    time.sleep(max(0.0, begun + 4 - time.monotonic()))
    check(of_w2() == counted, "what a revoked worker sends counts")
    service.add_line("principals", line.strip())
    wait_for("w2, listed again", lambda: service.worker("w2"), 30)
    check(service.call("POST", f"/v1/jobs/{job}/cancel", "alice")[0] == 200, "the job does not end")
    wait_for("an idle farm", lambda: service.call("GET", "/v1/status", "alice")[1]["pending"] == 0)
    print("a revoked key's worker was cut off, and came back with it")


def refusals(service, done):
    job = json.dumps({"model": "dqn"})
    cases = [
        ("no token", 401, ("GET", "/v1/jobs", None)),
        ("a wrong token", 401, ("GET", "/v1/jobs", "lathe_0000")),
        ("a digest as token", 401,
         ("GET", "/v1/jobs", hashlib.sha256(service.tokens["alice"].encode()).hexdigest())),
        ("a viewer submits", 403, ("POST", "/v1/jobs", "ci", job)),
        ("a viewer uploads", 403, ("PUT", "/v1/blobs/" + "0" * 64, "ci", b"x" * 100)),
        ("no such job", 404, ("GET", "/v1/jobs/ffffffff", "alice")),
        ("no such route", 404, ("GET", "/v1/../../etc/passwd", "alice")),
        ("no such method", 405, ("DELETE", "/v1/jobs", "alice")),
        ("no JSON", 400, ("POST", "/v1/jobs", "alice", "{")),
        ("deep JSON", 400, ("POST", "/v1/jobs", "alice", "[" * 100000)),
        ("an unknown key", 400, ("POST", "/v1/jobs", "alice", '{"model": "dqn", "trails": 1}')),
        ("an unknown model", 400, ("POST", "/v1/jobs", "alice", '{"model": "dqm"}')),
        ("an unknown target", 400, ("POST", "/v1/jobs", "alice", '{"model": "dqn", "target": "cpu:mcpu=zen9"}')),
        ("a path as model", 400, ("POST", "/v1/jobs", "alice", '{"model": "/etc/passwd"}')),
        ("a model never uploaded", 400,
         ("POST", "/v1/jobs", "alice", json.dumps({"model": "a.onnx", "model_digest": "0" * 64}))),
        ("a path in an upload's name", 400,
         ("POST", "/v1/jobs", "alice", json.dumps({"model": "../a.onnx", "model_digest": "0" * 64}))),
        ("a wrong digest", 400, ("PUT", "/v1/blobs/" + "0" * 64, "alice", b"bytes")),
        ("a path as digest", 404, ("PUT", "/v1/blobs/..%2f..%2fetc", "alice", b"bytes")),
        ("a long body", 413, ("POST", "/v1/jobs", "alice", None, {"Content-Length": str(2 << 20)})),
        ("a strange number", 400, ("GET", f"/v1/jobs/{done}/trials?limit=1e9", "alice")),
        ("a strange event id", 400, ("GET", "/v1/events", "alice", None, {"Last-Event-ID": "x"})),
        ("the module of a job without", 409, ("GET", "/v1/jobs/{cancelled}/module", "alice")),
    ]
    cancelled = service.call("GET", "/v1/jobs?state=cancelled", "alice")[1]["jobs"][0]["id"]
    for what, status, arguments in cases:
        arguments = tuple(a.replace("{cancelled}", cancelled) if isinstance(a, str) and a.startswith("/") else a
                          for a in arguments)
        found, body = service.call(*arguments)
        check(found == status, f"{what}: {found} {body}, not {status}")
        check(isinstance(body, dict) and body.get("error"), f"{what}: says nothing but {body}")
    for key in ("a", "b"):
        check(service.call("POST", "/v1/jobs?key=" + key, "poor", job)[0] == 201, "poor may not have two jobs")
    found, body = service.call("POST", "/v1/jobs", "poor", job)
    check(found == 429 and "Retry-After" in service.headers, f"a third job: {found} {body}")
    found, body = service.call("POST", "/v1/jobs?key=b", "poor", job)
    check(found == 201, f"the second job, said again: {found} {body}")
    for job in service.call("GET", "/v1/jobs?owner=poor", "alice")[1]["jobs"]:
        service.call("POST", f"/v1/jobs/{job['id']}/cancel", "poor")
    print(f"{len(cases) + 1} refusals")


def strangers(service):
    """Sockets that send nonsense or nothing; the service goes on beside them."""
    slow = []
    for _ in range(200):  # each sends one byte and waits
        stranger = socket.create_connection(("127.0.0.1", service.http))
        stranger.sendall(b"G")
        slow.append(stranger)
    for nonsense in (b"\x00" * 5000, b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"a" * 100000, os.urandom(4096),
                     b"POST /v1/jobs HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
                     b"POST /v1/jobs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n",
                     b"GET /v1/status HTTP/1.1\r\n" + b"A: b\r\n" * 10000 + b"\r\n"):
        with socket.create_connection(("127.0.0.1", service.http)) as stranger:
            try:
                stranger.sendall(nonsense)
                stranger.settimeout(5)
                stranger.recv(1000)
            except OSError:
                pass
    begun = time.monotonic()
    for _ in range(20):
        check(service.call("GET", "/v1/status", "alice")[0] == 200, "the service answers no more")
    check(time.monotonic() - begun < 5, "the service is slow beside idle strangers")
    for stranger in slow:
        stranger.settimeout(15)
        try:
            while stranger.recv(1000):
                pass
        except socket.timeout:
            sys.exit("FAILED: a silent connection is kept for ever")
        except OSError:
            pass
    print("200 silent strangers were shown out")


def revocation(service):
    """A token taken out of the file is cut off, its event stream too."""
    stream = http.client.HTTPConnection("127.0.0.1", service.http, timeout=10)
    stream.request("GET", "/v1/events", headers={"Authorization": "Bearer " + service.tokens["ci"]})
    answer = stream.getresponse()
    check(answer.status == 200 and answer.getheader("Content-Type") == "text/event-stream", "no event stream")
    service.remove_lines("principals", "ci ")
    begun = time.monotonic()
    answer.read()
    check(time.monotonic() - begun < 5, "a revoked reader is not cut off")
    check(service.call("GET", "/v1/jobs", "ci")[0] == 401, "a revoked token works")
    print("a revoked token was cut off")


def bad_flags(service):
    url = ["--tracker", service.url, "--token-file", service.path("alice.token")]
    cases = [
        (2, ["tracker", "--db", service.path("x.db"), "--http", "*:0"], "users need tokens"),
        (2, ["tracker", "--db", service.path("x.db"), "--http", "nowhere"], "must be HOST:PORT"),
        (2, ["tracker", "--db", service.path("x.db"), "--key", service.path("tracker.key")], "needs the keys of workers"),
        (2, ["tracker", "--db", service.path("x.db"), "--allow", service.path("allowed")], "belong together"),
        (2, ["tracker", "--db", service.path("x.db"), "--principals", service.path("principals")], "lists keys of workers"),
        (2, ["tracker", "--db", service.path("x.db"), "--listen", "ipc://" + service.path("s"), "--http",
             f"127.0.0.1:{service.http}"], "cannot serve HTTP"),
        (5, ["jobs", "--tracker", f"http://127.0.0.1:{free_port()}"], "127.0.0.1"),
        (5, ["jobs", "--tracker", service.url], "bearer token"),
        (2, ["jobs", "--tracker", "tcp://127.0.0.1:1"], "must be http://"),
        (2, ["jobs", "--tracker", "http://"], "must be http://"),
        (2, ["jobs", "--tracker", "http://alice:secret@127.0.0.1:1"], "names no user"),
        (2, ["watch", "ffffffff", *url], "no job `ffffffff`"),
        *[(2, [command, "", *url], "JOB is empty") for command in ("watch", "fetch", "resume", "cancel")],
        (2, ["submit", "--model", "no.onnx", *url], "cannot read no.onnx"),
        (2, ["--model", "dqn", "--db", "x.db", *url], "--tracker"),
        (2, ["submit", "--model", "dqn", "--whole-model", "10s", *url], "--whole-model"),
    ]
    with open(service.path("junk.onnx"), "wb") as file:
        file.write(os.urandom(30000))
    cases.append((2, ["--model", service.path("junk.onnx"), *url], "junk.onnx"))
    for code, words, text in cases:
        said = run(*words, code=code)
        check(text in said, f"tune {' '.join(words)} says {said!r} without {text!r}")
        check(service.folder + "/tuning.db" not in said, f"a path of the service in {said!r}")
    for command in ("watch", "fetch", "cancel"):
        check("no job `ffffffff`" in run(command, "ffffffff", *url, code=2), f"{command} does not say why")
    os.chmod(service.path("bob.token"), 0o644)
    check("can be read by others" in run("jobs", *service.as_user("bob"), code=2), "an open token file was taken")
    os.chmod(service.path("bob.token"), 0o600)
    print(f"{len(cases) + 1} mistakes")


def try_everything(service):
    service.make_keys()
    service.add_user("alice")
    service.add_user("bob")
    service.add_user("root", "admin")
    service.add_user("ci", "viewer")
    service.add_user("poor", "submitter", "--jobs", "2")
    service.start_tracker()
    service.workers = [service.start_worker("w1"), service.start_worker("w2")]
    jobs = three_jobs_through_crashes(service)
    pause_and_cancel(service)
    drains(service)
    strange_names(service)
    keys_of_workers(service)
    refusals(service, jobs[0])
    strangers(service)
    bad_flags(service)
    revocation(service)
    service.stop()
    check(service.tracker.returncode == 0, f"the tracker ended with {service.tracker.returncode}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        service = Service(folder)
        try:
            try_everything(service)
        finally:  # what fails leaves nothing running
            for process in service.processes:
                process.kill()


if __name__ == "__main__":
    main()
