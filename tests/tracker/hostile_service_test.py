#!/usr/bin/env python3
"""A tracker that attacks its clients over HTTP: hostile_service_test.py TUNE

docs/attacks.md lists all attacks.
"""

import http.server
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import threading

from tracker_process import TUNE, check, limited, run

ESCAPE = "\x1b]0;owned\x07"


class HostileTracker(http.server.BaseHTTPRequestHandler):
    """Answers every question with what its clients would rather not show, or write."""

    job = {"id": "0" * 36 + ESCAPE, "owner": ESCAPE, "model": "../../../" + ESCAPE, "state": "done" + ESCAPE,
           "message": "\x9b2J\r" + ESCAPE + "\n0123abcd  bob         forged", "progress": None, "trial_budget": 1, "trials": 1,
           "ended": ESCAPE}
    answers = {}

    def do_GET(self):
        body = self.answers.get(self.path.split("?")[0], json.dumps(self.job))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    do_POST = do_GET

    def log_message(self, *_):
        pass


def clients_of_a_hostile_tracker(folder):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), HostileTracker)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    place = ["--tracker", f"http://127.0.0.1:{server.server_port}"]

    def tune(*words):
        done = subprocess.run([TUNE, *words, *place], capture_output=True, timeout=60, cwd=folder)
        for stream in (done.stdout, done.stderr):
            check(not re.search(rb"[\x00-\x08\x0b-\x1f]|\xc2[\x80-\x9f]", stream), f"tune {words[0]}: {stream}")
        return done.returncode, (done.stdout + done.stderr).decode()

    HostileTracker.answers = {"/v1/jobs": json.dumps({"jobs": [HostileTracker.job]}),
                              "/v1/workers": json.dumps({"workers": [
                                  {"name": ESCAPE, "slots": 1, "leases": 0, "device_class": ESCAPE, "state": ESCAPE,
                                   "suspect": ESCAPE, "canary": {"drift": None}}]})}
    for words in (["jobs"], ["jobs", "--devices"], ["cancel", "1"]):
        code, said = tune(*words)
        check(code == 0 and "\\x1b]0;owned\\x07" in said, f"tune {words[0]} ended with {code}: {said}")
        check("forged" not in said, f"tune {words[0]} shows a job that is none: {said}")
    for name in ("../../../x", "/tmp/x", "..", "", ".bashrc", ESCAPE):
        HostileTracker.answers = {"/v1/jobs/1": json.dumps(dict(HostileTracker.job, model=name))}
        code, said = tune("fetch", "1", "--out", "out")
        check(code == 5 and "no file's name" in said, f"a module called {name!r}: {code} {said}")
    check(not os.path.exists(folder + "/out"), "a module was written")
    for body in ("[]", "{}", '{"jobs": {}}', '{"jobs": [7]}', '{"jobs": [{"id": 7}]}', "[" * 100000, "<html>"):
        HostileTracker.answers = {"/v1/jobs": body}
        code, said = tune("jobs")
        check(code in (0, 2, 5) and (code == 0 or "error:" in said), f"{body[:20]}: {code} {said}")
    server.shutdown()


class EndlessTracker(http.server.BaseHTTPRequestHandler):
    """Never comes to an end."""

    length = None  # of a module, as it says with the module
    told = None  # as it says with its job
    sent = None  # of a module

    def do_GET(self):
        self.send_response(200)
        if self.length and self.path.endswith("/module"):
            self.send_header("Content-Length", str(self.length))
        self.end_headers()
        lines = b"x" * (1 << 20)
        try:
            if self.path.endswith("/events"):
                self.wfile.write(b"event: state\ndata: ")
            elif self.path == "/v1/jobs/1":
                told = {"module_bytes": self.told} if self.told is not None else {}
                self.wfile.write(json.dumps({"id": "1", "model": "m", "state": "done", **told}).encode())
                return
            elif not self.path.endswith("/module"):
                self.wfile.write(b"[")
            if self.sent is not None:
                self.wfile.write(b"x" * self.sent)
                return
            while True:
                self.wfile.write(lines)
        except OSError:
            pass

    def log_message(self, *_):
        pass


def answers_without_end(folder):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), EndlessTracker)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def tune(*words):
        return subprocess.run([TUNE, *words, "--tracker", f"http://127.0.0.1:{server.server_port}"], capture_output=True,
                              text=True, timeout=180, cwd=folder, preexec_fn=with_files_of_32_mib)

    def with_files_of_32_mib():
        limited()
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (32 << 20, 32 << 20))

    for words in (["jobs"], ["watch", "1"]):
        done = tune(*words)
        check(done.returncode == 5 and "longer than" in done.stderr, f"tune {words[0]}: {done.returncode} {done.stderr[:300]}")
    os.mkdir(f"{folder}/out")
    with open(f"{folder}/out/m.lathe", "w") as file:
        file.write("fetched before")
    room = shutil.disk_usage(folder).free
    # The answer's length, the one that was told with the job, what comes; the exit code, and why.
    for length, told, sent, code, why in (
            (None, None, None, 5, "does not say how long it is"), (1 << 40, None, None, 5, "longer than 36864 MiB"),
            # Less than a module may have: the disk ends before.
            (1 << 30, None, None, 4, "File too large"),
            (None, 1 << 40, None, 5, "longer than 36864 MiB"), (None, -1, None, 5, "has -1 bytes"),
            (None, 1e300, None, 5, "has 1e+300 bytes"), (None, "7", None, 5, 'has "7" bytes'),
            (None, 5 << 20, None, 5, "longer than 5 MiB"), (1 << 40, 5 << 20, None, 5, "longer than 5 MiB"),
            (None, 1000, 1001, 5, "longer than 1000 bytes"),
            # Cut off, which an answer without a length does not show.
            (None, 1000, 999, 5, "999 of 1000 bytes"), (None, 1000, 0, 5, "0 of 1000 bytes"),
            *([(None, room * 2, None, 4, "No space left on device")] if room < 18 << 30 else [])):
        EndlessTracker.length, EndlessTracker.told, EndlessTracker.sent = length, told, sent
        done = tune("fetch", "1", "--out", "out")
        check(done.returncode == code and why in done.stderr, f"{length}, {told}, {sent}: {done.returncode} {done.stderr[:300]}")
        with open(f"{folder}/out/m.lathe") as file:
            check(file.read() == "fetched before" and len(os.listdir(f"{folder}/out")) == 1, "half a module stays")
    EndlessTracker.length, EndlessTracker.told, EndlessTracker.sent = None, 1000, 1000
    done = tune("fetch", "1", "--out", "out")
    check(done.returncode == 0 and os.path.getsize(f"{folder}/out/m.lathe") == 1000, f"a whole one: {done.stderr[:300]}")
    server.shutdown()


class UnfoldingTracker(http.server.BaseHTTPRequestHandler):
    """Tells of what takes a hundred times its bytes of memory."""

    event = None

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        if self.path.endswith("/events"):
            self.wfile.write(b"id: 1\nevent: " + self.event[0] + b"\ndata: " + self.event[1] + b"\n\n")
        else:
            self.wfile.write(b'{"id": "1", "model": "m", "state": "running"}')

    def log_message(self, *_):
        pass


def events_that_unfold(folder):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), UnfoldingTracker)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for data, why in ((b"[" * (30 << 20), "more than 64 deep"), (b"[" + b"[]," * (10 << 20) + b"[]]", "more than 2097152 values")):
        for name in (b"state", b"tasks", b"task_state"):
            UnfoldingTracker.event = name, data
            done = subprocess.run([TUNE, "watch", "1", "--tracker", f"http://127.0.0.1:{server.server_port}"],
                                  capture_output=True, text=True, timeout=180, cwd=folder, preexec_fn=with_little_memory)
            check(done.returncode == 5 and why in done.stderr, f"{name}, {data[:5]}: {done.returncode} {done.stderr[:300]}")
    server.shutdown()


def with_little_memory():
    resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))


class EndlessRefusal(http.server.BaseHTTPRequestHandler):
    """Says for ever why it answers nothing."""

    sent = 0

    def do_GET(self):
        if self.path == "/v1/jobs/1":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"id": "1", "model": "m", "state": "done"}')
            return
        self.send_response(500)
        self.end_headers()
        try:
            for _ in range(256):
                self.wfile.write(b"x" * (1 << 20))
                EndlessRefusal.sent += 1 << 20
        except OSError:
            pass

    def log_message(self, *_):
        pass


def refusals_without_end(folder):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), EndlessRefusal)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for words in (["jobs"], ["watch", "1"], ["fetch", "1", "--out", "out"]):
        EndlessRefusal.sent = 0
        done = subprocess.run([TUNE, *words, "--tracker", f"http://127.0.0.1:{server.server_port}"], capture_output=True,
                              text=True, timeout=180, cwd=folder, preexec_fn=limited)
        check(done.returncode == 5 and "HTTP status 500" in done.stderr, f"tune {words[0]}: {done.returncode} {done.stderr[:300]}")
        check(EndlessRefusal.sent < 128 << 20, f"tune {words[0]} reads {EndlessRefusal.sent} bytes of a refusal")
    check(not os.path.exists(f"{folder}/out") or not os.listdir(f"{folder}/out"), "a refusal was written")
    server.shutdown()


def a_proxy_of_others(_):
    """A tracker on this machine while the environment names a proxy: nobody else is asked, or sees the token."""
    seen = []

    class Proxy(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(self.headers.get("Authorization"))
            self.send_error(403)

        do_CONNECT = do_GET

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    by = f"http://127.0.0.1:{server.server_port}"
    environment = {**os.environ, "LATHE_TOKEN": "secret", **{name: by for name in ("http_proxy", "https_proxy", "all_proxy", "ALL_PROXY")}}
    for place in ("http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1", "https://127.0.0.1:1"):
        run("jobs", "--tracker", place, code=5, env=environment)
        check(not seen, f"a proxy is asked for {place}, with {seen}")
    run("jobs", "--tracker", "http://farm.invalid:1", code=5, env=environment)
    check(seen, "the proxy that reaches other machines is not asked")


def main():
    attacks = (clients_of_a_hostile_tracker, answers_without_end, events_that_unfold, refusals_without_end, a_proxy_of_others)
    for attack in attacks:
        with tempfile.TemporaryDirectory() as folder:
            attack(folder)
    print(f"{len(attacks)} attacks held off")


if __name__ == "__main__":
    main()
