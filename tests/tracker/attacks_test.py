#!/usr/bin/env python3
"""Attacks on a tracker over HTTP: attacks_test.py TUNE

docs/attacks.md lists all attacks; each function here is named there.
"""

import hashlib
import json
import re
import resource
import sqlite3
import tempfile
import threading
import time

from tracker_process import Tracker, check, run, wait_for

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
    for site in ("cross-site", "same-site"):
        found = statuses(tracker.say(request("GET /v1/status HTTP/1.1", f"Sec-Fetch-Site: {site}", "Connection: close")))
        check(found == [403], f"a picture of a {site} page: {found}")
    for site in ("same-origin", "none"):
        found = statuses(tracker.say(request("GET /v1/status HTTP/1.1", f"Sec-Fetch-Site: {site}", "Connection: close")))
        check(found == [200], f"its own page, or an address typed in ({site}): {found}")
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
        "a coding before chunks": request(post, "Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n" + inner),
        "a coding that is none, and a length": request(post, "Transfer-Encoding: identity", "Content-Length: 2",
                                                       body=b"{}" + inner),
        "chunks for who knows none": request("POST /v1/jobs HTTP/1.0", "Transfer-Encoding: chunked", "Connection: keep-alive",
                                             body=b"0\r\n\r\n" + inner),
        "two hosts": request(post, "Host: elsewhere", "Content-Length: 2", body=b"{}" + inner),
        "two users": request(post, "Authorization: Bearer a", "Authorization: Bearer b", "Content-Length: 2",
                             body=b"{}" + inner),
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
        def answer():
            found = statuses(tracker.say(request("GET /v1/events HTTP/1.1", f"Last-Event-ID: {last}"), seconds=0.5))
            return None if found == [429] else found  # of as many streams as before some are not forgotten yet

        found = wait_for("room for a stream", answer)
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
    print("16 attacks held off")


if __name__ == "__main__":
    main()
