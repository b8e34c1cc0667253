#!/usr/bin/env python3
"""Attacks on a tracker over HTTP, by its database, and by a tracker on its clients: attacks_test.py TUNE

docs/attacks.md lists all attacks; each function here is named there.
"""

import hashlib
import http.server
import json
import os
import re
import resource
import sqlite3
import subprocess
import tempfile
import threading
import time

from tracker_process import TUNE, Tracker, check, run, wait_for

ESCAPE = "\x1b]0;owned\x07"


def request(first, *headers, body=b"", host="localhost"):
    lines = [first, f"Host: {host}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def statuses(answer):
    return [int(line) for line in re.findall(rb"HTTP/1\.1 (\d+) ", answer)]


def pages_of_others(tracker):
    """A browser on this machine is asked by a stranger's page: under a name of his for this address, or by a form."""
    for host in ("evil.example", "evil.example:80", "localhost.evil.example", "127.evil.example", "[::2]"):
        found = statuses(tracker.say(request("GET /v1/status HTTP/1.1", "Connection: close", host=host)))
        check(found == [403], f"named {host}, it answers {found}")
    job = b'{"model": "dqn", "trials": 1}'
    for origin in ("http://evil.example", "null", "http://localhost.evil.example"):
        found = statuses(tracker.say(request("POST /v1/jobs HTTP/1.1", f"Origin: {origin}", "Connection: close",
                                             "Content-Type: text/plain", f"Content-Length: {len(job)}", body=job)))
        check(found == [403], f"a form of {origin}: {found}")
    check(tracker.call("GET", "/v1/jobs")[1] == {"jobs": []}, "a stranger's page submitted a job")
    for host in (f"localhost:{tracker.port}", f"127.0.0.1:{tracker.port}", "[::1]:80"):
        found = statuses(tracker.say(request("GET /v1/status HTTP/1.1", f"Origin: http://{host}", "Connection: close",
                                             host=host)))
        check(found == [200], f"its own page, named {host}: {found}")


def smuggled_requests(tracker):
    """One request for a proxy, two for us: whatever is doubtful ends the connection."""
    inner = request("GET /v1/status HTTP/1.1")
    post = "POST /v1/jobs HTTP/1.1"
    cases = {
        "a length and chunks": request(post, "Content-Length: 6", "Transfer-Encoding: chunked",
                                       body=b"0\r\n\r\n" + inner),
        "two encodings": request(post, "Transfer-Encoding: chunked", "Transfer-Encoding: identity",
                                 body=b"0\r\n\r\n" + inner),
        "two lengths": request(post, "Content-Length: 2", "Content-Length: 60", body=b"{}" + inner),
        "a signed length": request(post, "Content-Length: +2", body=b"{}" + inner),
        "a length over 64 bits": request(post, "Content-Length: 18446744073709551618", body=b"{}" + inner),
        "a blank before the colon": request(post, "Transfer-Encoding : chunked", body=b"0\r\n\r\n" + inner),
        "a chunk over 64 bits": request(post, "Transfer-Encoding: chunked", body=b"1FFFFFFFFFFFFFFFFF\r\n{}" + inner),
        "a negative chunk": request(post, "Transfer-Encoding: chunked", body=b"-1\r\n{}" + inner),
        "lines that end in LF": request(post, "Content-Length: 2").replace(b"\r\n", b"\n") + b"{}" + inner,
        "a line within a header": request(post, "A: b\n c", "Content-Length: 2", body=b"{}" + inner),
    }
    for what, attack in cases.items():
        found = statuses(tracker.say(attack, seconds=2))
        check(found == [400], f"{what}: {found}")
    for what, chunk in (("the largest there is", b"FFFFFFFFFFFFFFFF\r\n{}"), ("2 MiB", b"200000\r\n" + b" " * 0x200000)):
        found = statuses(tracker.say(request(post, "Transfer-Encoding: chunked", body=chunk)))
        check(found in ([413], []), f"a chunk of {what}: {found}")  # []: it hung up before all was sent
    body = request("GET /v1/workers HTTP/1.1")
    found = statuses(tracker.say(request("GET /v1/status HTTP/1.1", f"Content-Length: {len(body)}", body=body), seconds=2))
    check(found == [200], f"a request as the body of another: {found}")


def headers_of_mine(tracker):
    """What a path holds becomes no line of the answer."""
    answer = tracker.say(request("GET /v1/jobs/a%0d%0aX-Mine:%20yes%00 HTTP/1.1", "Connection: close"))
    check(statuses(answer) == [404] and b"\r\nX-Mine" not in answer, f"a header by the path: {answer}")
    for path in ("/v1/jobs/..%2f..%2ftuning.db/module", "/v1/blobs/..%2f..%2ftuning.db", "/..%2f..%2fetc/passwd",
                 "//etc/passwd", "/assets/../../../etc/passwd"):
        status = tracker.call("GET", path)[0]
        check(status in (400, 404), f"{path}: {status}")


def strange_json(tracker):
    """Jobs that are JSON, and yet none."""
    cases = {
        "a number beyond all": '{"model": "dqn", "trials": 1e400}',
        "2^63 trials": '{"model": "dqn", "trials": 9223372036854775808}',
        "no number": '{"model": "dqn", "seconds": NaN}',
        "half a character": '{"model": "\\ud800.onnx"}',
        "bytes that are no text": b'{"model": "\xff\xfe"}',
        "another type": '{"model": ["dqn"]}',
        "a dimension below 0": '{"model": "dqn", "shapes": {"x": [-1]}}',
        "a dimension that is an object": '{"model": "dqn", "shapes": {"x": [{"": 1}]}}',
        "arrays 100,000 deep as a shape": '{"model": "dqn", "shapes": {"x": ' + "[" * 100000 + "]" * 100000 + "}}",
        "a priority over all": '{"model": "dqn", "priority": 99999}',
    }
    for what, body in cases.items():
        status, said = tracker.call("POST", "/v1/jobs", body)
        check(status == 400 and said.get("error"), f"{what}: {status} {said}")


def names_for_terminals(tracker):
    """A model's name that a terminal, a log or a file system would obey."""
    model = b"no model"
    digest = hashlib.sha256(model).hexdigest()
    check(tracker.call("PUT", "/v1/blobs/" + digest, model)[0] == 201, "an upload is refused")
    for name in (ESCAPE + ".onnx", "a\0b.onnx", "a\nforged: line.onnx", "...onnx", "x" * 300 + ".onnx", "\x9b2J.onnx",
                 "\u202exnno.ten.onnx", "a\u200b.onnx", "\ufeffa.onnx"):
        status, said = tracker.call("POST", "/v1/jobs", json.dumps({"model": name, "model_digest": digest}))
        check(status == 400, f"a model called {name!r}: {status} {said}")
        check(not re.search("[\x00-\x09\x0b-\x1f]", json.dumps(said)), f"a raw control character in {said!r}")


def all_connections(tracker):
    """1,100 connections that say nothing, and as many streams of events as one user gets."""
    silent = [tracker.connect() for _ in range(1100)]
    begun = time.monotonic()
    check(tracker.call("GET", "/v1/status")[0] == 200, "silent connections leave no room for others")
    print(f"answered beside 1,100 silent connections in {(time.monotonic() - begun) * 1e3:.0f} ms")
    for stranger in silent:
        stranger.close()
    streams, refused = [], 0
    for _ in range(80):
        stream = tracker.connect()
        stream.sendall(request("GET /v1/events HTTP/1.1"))
        refused += statuses(stream.recv(4096)) == [429]
        streams.append(stream)
    check(refused == 80 - 64, f"{refused} of 80 streams of one user were refused")
    check(tracker.call("GET", "/v1/status")[0] == 200, "streams leave no room for others")
    for stream in streams:
        stream.close()

    def may_again():
        with tracker.connect() as stream:
            stream.sendall(request("GET /v1/events HTTP/1.1"))
            return statuses(stream.recv(4096)) == [200]

    wait_for("closed streams to be forgotten", may_again)


def keys_of_others(tracker):
    """The key that makes a submission harmless to repeat: another user's is another key, another job is none."""
    first = tracker.call("POST", "/v1/jobs?key=night", '{"model": "dqn", "trials": 7}', user="alice")[1]["id"]
    status, of_bob = tracker.call("POST", "/v1/jobs?key=night", '{"model": "dqn", "trials": 7}', user="bob")
    check(status == 201 and of_bob["id"] != first and of_bob["owner"] == "bob", f"bob got alice's job: {of_bob}")
    again = tracker.call("POST", "/v1/jobs?key=night", '{"trials": 7, "model": "dqn"}', user="alice")[1]["id"]
    check(again == first, "the same again is another job")
    status, said = tracker.call("POST", "/v1/jobs?key=night", '{"model": "dqn", "trials": 8}', user="alice")
    check(status == 409 and first in said["error"], f"another job under the same key: {status} {said}")
    status, said = tracker.call("POST", "/v1/jobs?key=" + "k" * 5000, '{"model": "dqn"}', user="alice")
    check(status == 400, f"a key of 5,000 bytes: {status} {said}")
    for key in ("%ff", "%fe", "a%00b", "a%0ab", "%e2%80%ae"):
        status, said = tracker.call("POST", "/v1/jobs?key=" + key, '{"model": "dqn"}', user="alice")
        check(status == 400, f"a key that a database may not tell from others, {key}: {status} {said}")
    return first


def jobs_of_others(tracker, job):
    """By the job's id, by its beginning, by its module's path."""
    for verb in ("cancel", "pause", "resume"):
        for name in (job, job[:8], job.upper(), job + "%00", job + "/../" + job):
            status = tracker.call("POST", f"/v1/jobs/{name}/{verb}", user="bob")[0]
            check(status in (403, 404, 405), f"bob may {verb} alice's job as {name}: {status}")
    jobs = [json.loads(json.dumps(j)) for j in tracker.call("GET", "/v1/jobs", user="bob")[1]["jobs"]]
    check(any(j["id"] == job and j["state"] == "queued" for j in jobs), f"alice's job is not queued: {jobs}")
    for prefix in "0123456789abcdef":
        check(tracker.call("GET", "/v1/jobs/" + prefix, user="bob")[0] in (200, 400, 404), "a short id")


def records_of_a_hostile_searcher(tracker, job):
    """What a searcher taken over by its model could have left in the database, before it was checked: one job's
    records may not silence the list for all."""
    deep = "[" * 200000
    with sqlite3.connect(tracker.path("tuning.db")) as database:
        (number,) = database.execute("SELECT id FROM served_job WHERE uuid = ?", (job,)).fetchone()
        for kind, body in (("progress", deep), ("tasks", deep), ("task_state", '{"a": ' * 200000), ("progress", '{"model_seconds": "x"}'),
                           ("tasks", "\r\ndata: forged\r\n\r\n")):
            database.execute("INSERT INTO event(served_job, kind, body, created_ms) VALUES(?, ?, ?, 1)", (number, kind, body))
        for report in (deep, '{"tasks": 7}', '{"tasks": [7, {"after_us": "x"}]}', '{"tasks": [{"after_us": 1, "weight": []}]}'):
            database.execute("UPDATE served_job SET report = ? WHERE id = ?", (report, number))
            database.commit()
            for path in ("/v1/jobs", f"/v1/jobs/{job}", f"/v1/jobs/{job}/curve"):
                status, said = tracker.call("GET", path, user="bob")
                check(status == 200, f"{path}: {status} {said}")
    with tracker.connect() as stream:
        stream.sendall(request(f"GET /v1/jobs/{job}/events HTTP/1.1", "Authorization: Bearer " + tracker.tokens["bob"]))
        text = b""
        while text.count(b"event: ") < 5:
            text += stream.recv(65536)
    check(not re.search(rb"[\r\n]data: forged[\r\n]", text.split(b"\r\n\r\n", 1)[1]), f"a forged event: {text[-300:]}")
    listed = run("jobs", "--tracker", f"http://127.0.0.1:{tracker.port}", "--token-file", tracker.path("bob.token"))
    check(job[:8] in listed, f"the list without the job: {listed}")


def code_in_a_database(folder):
    """A database as a present, with a trigger that improves what is measured."""
    path = folder + "/present.db"
    run("tracker", "--db", path, "--listen", "nowhere://", code=2)  # makes none
    with Tracker(folder) as tracker:
        made = tracker.path("tuning.db")
    with sqlite3.connect(made) as database:
        database.execute("CREATE TRIGGER gift AFTER INSERT ON measurement BEGIN "
                         "UPDATE measurement SET median = median / 2 WHERE id = new.id; END")
    for words in (["tracker", "--db", made, "--listen", f"ipc://{folder}/s"], ["query", "jobs", "--db", made],
                  ["--model", "dqn", "--trials", "1", "--db", made]):
        said = run(*words, code=2)
        check("trigger `gift`" in said and len(said.splitlines()) == 1, f"tune {words[0]} says {said!r}")


class HostileTracker(http.server.BaseHTTPRequestHandler):
    """Answers every question with what its clients would rather not show, or write."""

    job = {"id": "0" * 36 + ESCAPE, "owner": ESCAPE, "model": "../../../" + ESCAPE, "state": "done" + ESCAPE,
           "message": "\x9b2J\r" + ESCAPE, "progress": None, "trial_budget": 1, "trials": 1}
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


def strange_requests(tracker):
    """What no browser sends. Each ends in an answer or a closed connection, and the next is served."""
    get = "GET /v1/status HTTP/1.1"
    cases = {
        "a header of 64 KiB": (request(get, "X-Long: " + "x" * 65536), {400, 413, 431}),
        "10,000 headers": (request(get, *(f"X-{i}: {i}" for i in range(10000))), {400, 413, 431}),
        "a path of 64 KiB": (request("GET /" + "x" * 65536 + " HTTP/1.1"), {400, 413, 414, 431}),
        "a method of 10,000 letters": (request("G" * 10000 + " / HTTP/1.1"), {400, 404, 405, 413, 431}),
        "a NUL in a header": (request(get, "X-A: a\0b"), {400}),
        "a header without a name": (request(get, ": b"), {400}),
        "no version": (b"GET /v1/status\r\n\r\n", {400}),
        "version 2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 404, 405}),
        "version 9.9": (request("GET /v1/status HTTP/9.9"), {400}),
        "an address of another host": (request("GET http://evil.example/v1/status HTTP/1.1", "Connection: close"), {404}),
        "half an escape": (request("GET /v1/jobs/%z HTTP/1.1", "Connection: close"), {400, 404}),
        "an escape at the end": (request("GET /v1/jobs/% HTTP/1.1", "Connection: close"), {400, 404}),
        "a zero": (request("GET /v1/jobs/%00 HTTP/1.1", "Connection: close"), {400, 404}),
        "10,000 questions": (request("GET /v1/jobs?" + "&".join(f"a{i}={i}" for i in range(1000)) + " HTTP/1.1",
                                     "Connection: close"), {200}),
        "a question said twice": (request("GET /v1/jobs?limit=1&limit=0 HTTP/1.1", "Connection: close"), {200, 400}),
        "a part of a file": (request(get, "Range: bytes=0-0,1-1,2-2,3-", "Connection: close"), {200}),
        "another protocol": (request(get, "Connection: Upgrade, close", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                                     "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="), {200}),
        "a trace": (request("TRACE / HTTP/1.1", "Connection: close"), {404, 405}),
        "a tunnel": (request("CONNECT evil.example:80 HTTP/1.1", "Connection: close"), {400, 404, 405}),
    }
    for what, (attack, wanted) in cases.items():
        found = statuses(tracker.say(attack))
        check(not found or (len(found) == 1 and found[0] in wanted), f"{what}: {found}")
        check(tracker.call("GET", "/v1/status")[0] == 200, f"{what}: the next request has no answer")
    with tracker.connect() as patient:  # waits to be told to go on, and never does
        patient.sendall(request("POST /v1/jobs HTTP/1.1", "Content-Length: 10", "Expect: 100-continue"))
        check(tracker.call("GET", "/v1/status")[0] == 200, "one that waits to go on holds up all others")
    found = statuses(tracker.say(request(get) * 300 + request(get, "Connection: close")))
    check(0 < len(found) <= 301 and set(found) == {200}, f"301 requests at once: {len(found)} {set(found)}")


def pipelined_requests(tracker):
    """Two thousand requests on one connection by somebody who reads no answer: what is kept for him is bounded."""
    def resident():
        with open(f"/proc/{tracker.process.pid}/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    before = resident()
    with tracker.connect() as stranger:
        stranger.settimeout(2)
        try:
            for _ in range(20):
                stranger.sendall(request("GET /openapi.json HTTP/1.1") * 100)
        except OSError:
            pass  # its buffers are full, as they should be
        begun = time.monotonic()
        check(tracker.call("GET", "/v1/status")[0] == 200, "requests in a row hold up all others")
        check(time.monotonic() - begun < 2, "requests in a row make others wait")
        check(resident() - before < 64 << 20, f"{(resident() - before) >> 20} MiB are kept for who reads nothing")


def interim_answers(tracker):
    """Who waits to be told to go on with a body: one that will be refused, one without end, one that never comes."""
    for length, expected in (("18446744073709551615", (400, 413)), (str(1 << 40), (400, 413)), ("x", (400,))):
        found = statuses(tracker.say(request("POST /v1/jobs HTTP/1.1", f"Content-Length: {length}", "Expect: 100-continue")))
        check(found and found[-1] in expected, f"a body of {length} bytes is answered with {found}")
    tracker.say(request("POST /v1/jobs HTTP/1.1", "Content-Length: 100", "Expect: 200-gold"), seconds=1)
    check(tracker.call("GET", "/v1/status")[0] == 200, "the next request has no answer")


def event_ids(tracker):
    """Where a stream goes on is its client's word."""
    for last, wanted in {"-1": 200, "0": 200, str(2**63 - 1): 200, str(-2**63): 200, str(2**63): 400, "1e3": 400, "0x10": 400,
                         "\u0661": 400, "+1": 400, "1 OR 1": 400, "9" * 5000: 400}.items():
        found = statuses(tracker.say(request("GET /v1/events HTTP/1.1", f"Last-Event-ID: {last}"), seconds=0.5))
        check(found == [wanted], f"Last-Event-ID {last[:20]}: {found}")


def strange_needs(tracker):
    """What a job needs of its devices: amounts and properties that are none are refused, and none of it obeys anybody."""
    job = {"model": "dqn", "trials": 1}
    for needs in ({"memory": ESCAPE}, {ESCAPE: "1GiB"}, {"memory": "1e400GiB"}, {"memory": "-1GiB"}, {"memory": "16"},
                  {"memory": "9223372036854775807TiB"}, {"memory": "1" * 500_000 + "GiB"}, {"driver": "6" + ".1" * 200_000},
                  {"driver": ""}, {"driver": "."}, {"driver": "6..1"}, {"driver": "\x00"}, {"driver": "\u0666"}, {"": ""},
                  {"memory": 16}, {"memory": None}, {"memory": ["16GiB"]}, [], 5, "memory=16GiB", None,
                  {f"property{i}": "1" for i in range(20_000)}, {"__proto__": "1GiB"}, {"constructor": "1"}):
        status, answer = tracker.call("POST", "/v1/jobs", json.dumps({**job, "needs": needs}))
        check(status == 400, f"needs {json.dumps(needs)[:60]}: {status} {str(answer)[:200]}")
    # A property twice is whichever comes last, as in all of JSON: never both.
    status, made = tracker.call("POST", "/v1/jobs", '{"model": "dqn", "trials": 1, "needs": {"memory": "1GiB", "memory": "7TiB"}}')
    check(status == 201, f"needs of 7 TiB: {made}")
    seen = wait_for("the job to say what it waits for", lambda: tracker.call("GET", f"/v1/jobs/{made['id']}")[1].get("message"))
    check("\x1b" not in seen and "1 GiB" not in seen, f"it waits for {seen}")
    tracker.call("POST", f"/v1/jobs/{made['id']}/cancel")


def replayed_streams(tracker):
    """A job's events from the beginning, to sixteen clients at once while it is paused, resumed and cancelled: to each all
    of them, each once and in order, up to the end."""
    job = tracker.call("POST", "/v1/jobs", '{"model": "dqn", "trials": 1}')[1]["id"]
    told, lock = [], threading.Lock()

    def listen(first):
        text = b""
        with tracker.connect() as connection:
            connection.settimeout(60)
            connection.sendall(request(f"GET /v1/jobs/{job}/events HTTP/1.1", f"Last-Event-ID: {first}"))
            while piece := connection.recv(65536):
                text += piece
        with lock:
            told.append([int(number) for number in re.findall(rb"^id: (\d+)", text, re.M)])

    clients = [threading.Thread(target=listen, args=(i % 2 * -5,)) for i in range(16)]
    for i, client in enumerate(clients):
        client.start()
        tracker.call("POST", f"/v1/jobs/{job}/{'resume' if i % 2 else 'pause'}")
    tracker.call("POST", f"/v1/jobs/{job}/cancel")
    for client in clients:
        client.join()
    check(len({tuple(ids) for ids in told}) == 1, f"clients were told of different events: {told}")
    check(len(told) == 16 and len(told[0]) >= 17 and sorted(set(told[0])) == told[0], f"events twice, or out of order: {told[0]}")


def orders_at_once(tracker):
    """Pause, resume, cancel, fetch and watch of one job from twelve sides: it ends once, and everybody has an answer."""
    for _ in range(5):
        job = tracker.call("POST", "/v1/jobs", '{"model": "dqn", "trials": 1}', "alice")[1]["id"]
        answers, lock = [], threading.Lock()

        def order(method, what):
            for _ in range(6):
                status, answer = tracker.call(method, f"/v1/jobs/{job}{what}", user="alice")
                with lock:
                    answers.append((method, what, status, answer))

        orders = [("POST", "/pause"), ("POST", "/resume"), ("GET", "/module"), ("GET", "/report"), ("GET", "/curve"),
                  ("POST", "/cancel")]
        threads = [threading.Thread(target=order, args=each) for each in orders * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        strange = [a for a in answers if a[2] not in (200, 409)]
        check(not strange, f"orders at once: {strange[:3]}")
        check(len([a for a in answers if a[1] == "/cancel" and a[2] == 200]) == 1, "it was cancelled twice")
        check(tracker.call("GET", f"/v1/jobs/{job}", user="alice")[1]["state"] == "cancelled", "it is not cancelled")
    found, keys = [], [threading.Thread(target=lambda: found.append(
        tracker.call("POST", "/v1/jobs?key=same", '{"model": "dqn", "trials": 1}', "alice"))) for _ in range(16)]
    for thread in keys:
        thread.start()
    for thread in keys:
        thread.join()
    check({status for status, _ in found} == {201} and len({job["id"] for _, job in found}) == 1,
          f"one key at once makes {found}")


def strange_principals(folder):
    """A file of users that an editor, a copy or an attacker has spoilt: refused with its line; a running tracker keeps the
    users that it has."""
    good = run("token", "--name", "alice", "--out", f"{folder}/alice.token").encode()
    cases = {
        "zeros": good + b"\n\0\0\0\n",
        "half a letter": b"al\xc3 viewer " + b"0" * 64,
        "a line of 4 MiB": b"a " * (2 << 20),
        "a name of escapes": b"\x1b[31mroot admin",
        "another sign for a space": good.replace(b" ", b"\xc2\xa0"),
        "a byte order mark alone": b"\xef\xbb\xbf" + good.split()[0],
        "a key of 40 zeros": b"w worker curve:" + b"\0" * 40,
    }
    file = f"{folder}/principals"
    for what, text in cases.items():
        with open(file, "wb") as out:
            out.write(text)
        done = subprocess.run([TUNE, "tracker", "--db", f"{folder}/p.db", "--listen", f"ipc://{folder}/p", "--principals", file],
                              capture_output=True, timeout=20)
        said = done.stderr.decode(errors="replace")
        check(done.returncode == 2 and len(said.splitlines()) == 1 and f"{file}:" in said and len(said) < 2000,
              f"{what}: {done.returncode} {said[:300]}")
        check(not re.search(rb"[\x00-\x08\x0b-\x1f]", done.stderr), f"{what}: it says {done.stderr[:300]}")
    os.remove(file)
    tracker = Tracker(folder)
    tracker.add_user("bob")
    with tracker:
        with open(file) as users:
            kept = users.read()
        for what, text in cases.items():
            with open(file, "wb") as out:
                out.write(text)
            time.sleep(0.6)
            check(tracker.call("GET", "/v1/status", user="bob")[0] == 200, f"{what}: a running tracker forgets its users")
        with open(file, "w") as users:
            users.write(kept)


def limited():
    """For a child: 2 GiB of addresses, so that what grows without end is seen."""
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))


def packs_that_are_none(folder):
    """What `tune db import` is pointed at is not what it says."""
    def pack(name, files):
        path = f"{folder}/{name}"
        os.mkdir(path)
        for file, text in files.items():
            if callable(text):
                text(f"{path}/{file}")
            else:
                with open(f"{path}/{file}", "w") as out:
                    out.write(text)
        return path

    def manifest(lines):
        names = ("devices.jsonl", "workloads.jsonl", "models.jsonl", "measurements.jsonl")
        return json.dumps({"format": "lathe-pack", "version": 1, "schema": 7,
                           "files": {name: {"lines": lines, "sha256": "0" * 64} for name in names}})

    def sparse(path):
        with open(path, "w") as out:
            out.truncate(8 << 30)  # a line of 8 GiB

    cases = {
        "zeros without end": {"manifest.json": manifest(1), "devices.jsonl": lambda path: os.symlink("/dev/zero", path)},
        "a pipe": {"manifest.json": manifest(1), "devices.jsonl": os.mkfifo},
        "a line of 8 GiB": {"manifest.json": manifest(1), "devices.jsonl": sparse},
        "a manifest without end": {"manifest.json": lambda path: os.symlink("/dev/zero", path)},
        "a manifest that is a pipe": {"manifest.json": os.mkfifo},
        "2^63 lines": {"manifest.json": manifest(2**63), "devices.jsonl": ""},
        "files elsewhere": {"manifest.json": manifest(1).replace("devices.jsonl", "../../../../etc/passwd")},
        "a folder as a file": {"manifest.json": manifest(0), "devices.jsonl": os.mkdir},
    }
    for number, (what, files) in enumerate(cases.items()):
        try:
            done = subprocess.run([TUNE, "db", "import", pack(f"pack{number}", files), "--db", f"{folder}/import.db"],
                                  capture_output=True, text=True, timeout=60, preexec_fn=limited)
        except subprocess.TimeoutExpired:
            raise SystemExit(f"FAILED: a pack of {what} is read for ever") from None
        check(done.returncode == 2 and done.stderr.startswith("error:"), f"{what}: {done.returncode} {done.stderr[:300]}")


def names_in_a_database(folder):
    """A database whose jobs are called as paths: nothing is made or read elsewhere."""
    with Tracker(folder) as tracker:
        made = tracker.path("tuning.db")
    request_text = json.dumps({"model": "dqn", "trials": 1})
    with open(f"{folder}/secret.lathe", "w") as secret:
        secret.write("secret")
    os.makedirs(f"{made}-files/jobs/00000000-0000-4000-8000-000000000000")  # paths through it lead somewhere
    with sqlite3.connect(made) as database:
        for uuid, name, state in (("../../../evil", "dqn", "queued"), ("/tmp/evil", "dqn", "running"),
                                  ("../../evil", "dqn", "done"),
                                  ("0" * 8 + "-0000-4000-8000-" + "0" * 12, "../../../secret", "done")):
            database.execute("INSERT INTO served_job(uuid, owner, model_name, request, priority, weight, state, created_ms) "
                             "VALUES(?, 'local', ?, ?, 0, 1, ?, 0)", (uuid, name, request_text, state))
    with Tracker(folder) as tracker:
        time.sleep(2)
        check(tracker.call("GET", "/v1/jobs")[0] == 200, "a job's name keeps all from being listed")
        found = tracker.call("GET", "/v1/jobs/00000000-0000-4000-8000-000000000000/module")
        check(found[0] == 409, f"a module elsewhere: {found}")
        check(tracker.call("GET", "/v1/jobs/..%2f..%2fevil/report")[0] in (400, 404, 500), "a report elsewhere")
    for place in (f"{folder}/evil", "/tmp/evil", os.path.dirname(folder) + "/evil"):
        check(not os.path.exists(place), f"{place} was made")


def a_damaged_job(folder):
    """One job whose request in the database is not what this program writes: others list, upload and submit as ever."""
    with Tracker(folder) as tracker:
        for request_text in ("[" * 100000, "7", '{"model": 7}', '{"model": "dqn", "model_digest": ["x"]}', "",
                             '{"model": "dqn", "trials": 1e300}', '{"model": "dqn", "trials": 18446744073709551615}',
                             '{"model": "dqn", "trials": 1, "needs": 5}', '{"model": "dqn", "trials": 1, "needs": {"colour": "red"}}'):
            job = tracker.call("POST", "/v1/jobs", '{"model": "dqn", "trials": 1}')[1]["id"]
            with sqlite3.connect(tracker.path("tuning.db")) as database:
                database.execute("UPDATE served_job SET request = ? WHERE uuid = ?", (request_text, job))
            model = ("no model " + request_text[:20]).encode()
            digest = hashlib.sha256(model).hexdigest()
            for what, answer in (("list", tracker.call("GET", "/v1/jobs")),
                                 ("upload", tracker.call("PUT", "/v1/blobs/" + digest, model)),
                                 ("submit", tracker.call("POST", "/v1/jobs", '{"model": "dqn", "trials": 1}'))):
                check(answer[0] in (200, 201), f"beside a job that asks for {request_text[:20]!r}, {what}: {answer}")
            check(tracker.call("POST", f"/v1/jobs/{job}/cancel")[0] == 200, "it cannot be cancelled")
        check(tracker.process.poll() is None, "the tracker has ended")


def files_of_two_trackers(folder):
    """A second tracker in the files of a first would remove uploads that are under way."""
    with Tracker(folder, "--files", f"{folder}/files"):
        said = run("tracker", "--db", f"{folder}/other.db", "--listen", f"ipc://{folder}/o", "--http", "127.0.0.1:0", "--files",
                   f"{folder}/files", code=5)
        check("in use by another tracker" in said.splitlines()[-1], f"a second tracker says {said!r}")


class EndlessTracker(http.server.BaseHTTPRequestHandler):
    """Never comes to an end."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        lines = b"x" * (1 << 20)
        try:
            if self.path.endswith("/events"):
                self.wfile.write(b"event: state\ndata: ")
            elif not self.path.endswith("/module"):
                self.wfile.write(b'{"id": "1", "model": "m", "state": "done"}' if self.path == "/v1/jobs/1" else b"[")
                if self.path == "/v1/jobs/1":
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
    for words in (["jobs"], ["watch", "1"], ["fetch", "1", "--out", "out"]):
        done = subprocess.run([TUNE, *words, "--tracker", f"http://127.0.0.1:{server.server_port}"], capture_output=True,
                              text=True, timeout=180, cwd=folder, preexec_fn=limited)
        check(done.returncode == 5 and "longer than" in done.stderr, f"tune {words[0]}: {done.returncode} {done.stderr[:300]}")
    check(not os.path.exists(f"{folder}/out") or not os.listdir(f"{folder}/out"), "half a module stays")
    server.shutdown()


def read_only_folders(folder):
    """A database on a read-only file system, and a backup onto one: said as what it is, and nothing else is harmed."""
    with open(f"{folder}/m.relay", "w") as file:
        file.write("def @main(%x: Tensor[(1, 4), float32]) -> Tensor[(1, 4), float32] { nn.relu(%x) }\n")
    run("--model", f"{folder}/m.relay", "--trials", "1", "--db", f"{folder}/t.db", "--out", f"{folder}/out", "--quiet")
    mount = f"mkdir -p {folder}/ro && mount -t tmpfs none {folder}/ro && cp {folder}/t.db {folder}/ro && " \
            f"mount -o remount,ro {folder}/ro"
    if subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True).returncode != 0:
        return print("no mounts here: read-only file systems are not tried")
    open_it = f"cannot open database {folder}/ro/t.db: its log belongs beside it, and that folder cannot be written " \
              "(Read-only file system); copy it to one that can"
    for code, words, said in ((2, f"query jobs --db {folder}/ro/t.db", open_it),
                              (5, f"tracker --db {folder}/ro/t.db --listen ipc://{folder}/socket", open_it),
                              (2, f"db backup {folder}/ro/b.db --db {folder}/t.db",
                               f"cannot write {folder}/ro/b.db: Read-only file system")):
        done = subprocess.run(["unshare", "-rm", "sh", "-c", f"{mount} && exec {TUNE} {words}"], capture_output=True,
                              text=True, timeout=60)
        check(done.returncode == code and done.stderr == f"error: {said}\n",
              f"tune {words}: {done.returncode} {done.stderr}")


def deep_models(folder):
    """A model whose text nests without end."""
    deep = 200000
    for what, body in {"parentheses": "(" * deep + "%x" + ")" * deep, "calls": "nn.relu(" * deep + "%x" + ")" * deep,
                       "lets": "".join(f"let %a{i} = %x;\n" for i in range(deep)) + "%x",
                       "functions": "fn (%a) { " * deep + "%x" + "}" * deep, "tuples": "(" * deep + "%x" + ",)" * deep,
                       "ifs": "if (%c) { " * deep + "%x"}.items():
        with open(f"{folder}/deep.relay", "w") as file:
            file.write("def @main(%x: Tensor[(1, 4), float32]) -> Tensor[(1, 4), float32] { " + body + " }\n")
        try:
            done = subprocess.run([TUNE, "compile", "--untuned", "--model", f"{folder}/deep.relay", "--out", f"{folder}/deep.lathe"],
                                  capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            raise SystemExit(f"FAILED: {deep} {what} in a model are read for ever") from None
        check(done.returncode in (0, 2), f"{deep} {what}: {done.returncode} {done.stderr[:300]}")


def main():
    with tempfile.TemporaryDirectory() as folder, Tracker(folder) as tracker:
        for attack in (pages_of_others, smuggled_requests, headers_of_mine, strange_json, names_for_terminals,
                       strange_requests, pipelined_requests, interim_answers, strange_needs, replayed_streams,
                       all_connections, event_ids):
            attack(tracker)
            check(tracker.process.poll() is None, f"{attack.__name__} ended the tracker")
    with tempfile.TemporaryDirectory() as folder:
        tracker = Tracker(folder)
        for name in ("alice", "bob"):
            tracker.add_user(name)
        with tracker:
            job = keys_of_others(tracker)
            jobs_of_others(tracker, job)
            records_of_a_hostile_searcher(tracker, job)
            orders_at_once(tracker)
            check(tracker.process.poll() is None, "the tracker has ended")
    with tempfile.TemporaryDirectory() as folder:
        code_in_a_database(folder)
        clients_of_a_hostile_tracker(folder)
    for attack in (strange_principals, packs_that_are_none, names_in_a_database, a_damaged_job, files_of_two_trackers,
                   answers_without_end, read_only_folders, deep_models):
        with tempfile.TemporaryDirectory() as folder:
            attack(folder)
    print("27 attacks held off")


if __name__ == "__main__":
    main()
