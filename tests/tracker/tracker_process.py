"""A tracker as a process, for tests of its HTTP side: no workers, a folder of its own. And what all tests of processes
need; the binary is their first argument."""

import http.client
import json
import resource
import socket
import subprocess
import sys
import time

TUNE = sys.argv[1]


def check(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def wait_for(what, condition, seconds=240):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    sys.exit(f"FAILED: waited {seconds} s for {what}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def limited():
    """For a child: 2 GiB of addresses, so that what grows without end is seen."""
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))


def run(*words, code=0, **more):
    """What tune prints: its stdout where it succeeds, else its stderr."""
    done = subprocess.run([TUNE, *words], capture_output=True, text=True, timeout=180, **more)
    check(done.returncode == code, f"tune {' '.join(words)} ended with {done.returncode}, not {code}:\n"
          f"{done.stdout}{done.stderr}")
    return (done.stdout if code == 0 else done.stderr).strip()


def ask(port, method, path, body=None, token=None, headers=None):
    """(status, JSON or text, headers) of a tracker's answer; (0, reason, {}) when there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = dict(headers or {})
    if token:
        headers["Authorization"] = "Bearer " + token
    try:
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
    except OSError as error:
        return 0, str(error), {}
    finally:
        connection.close()
    headers = dict(answer.getheaders())
    try:
        return answer.status, json.loads(text), headers
    except ValueError:
        return answer.status, text, headers


class Tracker:
    """`tune tracker` with the flags in `words`, and so many `descriptors` at most. Ended with the `with` that it is made in."""

    def __init__(self, folder, *words, descriptors=None):
        self.folder, self.words, self.descriptors = folder, words, descriptors
        self.port = free_port()
        self.listen = "ipc://" + self.path("socket")
        self.tokens = {}

    def path(self, name):
        return f"{self.folder}/{name}"

    def add_user(self, name, role="submitter"):
        line = run("token", "--name", name, "--role", role, "--out", self.path(name + ".token"))
        with open(self.path("principals"), "a") as file:
            file.write(line + "\n")
        with open(self.path(name + ".token")) as file:
            self.tokens[name] = file.read().strip()

    def __enter__(self):
        self.start()
        return self

    def start(self):
        users = ["--principals", self.path("principals")] if self.tokens else []
        self.log = open(self.path("log"), "a")
        self.said_by_others = self.log.tell()
        self.process = subprocess.Popen(
            [TUNE, "tracker", "--db", self.path("tuning.db"), "--listen", self.listen, "--http",
             f"127.0.0.1:{self.port}", *users, *self.words], stdout=self.log, stderr=self.log,
            preexec_fn=self.limit_descriptors if self.descriptors else None)
        wait_for("the tracker to serve", self.serves)

    def limit_descriptors(self):
        resource.setrlimit(resource.RLIMIT_NOFILE, self.descriptors)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.log.close()

    def __exit__(self, *error):
        self.process.terminate()
        try:
            self.process.wait(20)
        finally:
            self.process.kill()
            self.log.close()

    def serves(self):
        with open(self.path("log")) as log:
            log.seek(self.said_by_others)
            text = log.read()
        check(self.process.poll() is None, f"the tracker does not start: {text}")
        return "jobs and pages at" in text

    def call(self, method, path, body=None, user=None, headers=None):
        """(status, JSON or text); (0, reason) when there is no answer."""
        return ask(self.port, method, path, body, self.tokens[user] if user else None, headers)[:2]

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def say(self, request, seconds=3):
        """Everything that comes back for these bytes until the tracker hangs up, or is silent for so long."""
        with self.connect() as stranger:
            stranger.settimeout(seconds)
            answer = b""
            try:
                stranger.sendall(request)
                while piece := stranger.recv(65536):
                    answer += piece
            except OSError:
                pass
        return answer
