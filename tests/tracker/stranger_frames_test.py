#!/usr/bin/env python3
"""Strangers at the workers' socket, by the bytes of ZMTP 3.1, and at HTTP with ids, bodies and uploads that cannot be:
stranger_frames_test.py TUNE

docs/attacks.md lists all attacks; each function here is named there.
"""

import hashlib
import os
import random
import re
import socket
import struct
import tempfile
import time

from tracker_process import Tracker, check, free_port, wait_for

MIB = 1 << 20
GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x01" + b"NULL".ljust(20, b"\0") + b"\0" + bytes(31)


def memory_of(tracker):
    with open(f"/proc/{tracker.process.pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1)) << 10


def files_of(tracker):
    return len(os.listdir(f"/proc/{tracker.process.pid}/fd"))


def serves(tracker, what):
    begun = time.monotonic()
    status = tracker.call("GET", "/v1/status")[0]
    check(tracker.process.poll() is None, f"{what}: the tracker has ended")
    check(status == 200 and time.monotonic() - begun < 5, f"{what}: {status} after {time.monotonic() - begun:.1f} s")


def frame(body, more=False, command=False):
    flags = (1 if more else 0) | (4 if command else 0)
    if len(body) > 255:
        return bytes([flags | 2]) + struct.pack(">Q", len(body)) + body
    return bytes([flags, len(body)]) + body


def ready(properties):
    body = b"\x05READY"
    for name, value in properties.items():
        body += bytes([len(name)]) + name + struct.pack(">I", len(value)) + value
    return frame(body, command=True)


def connected(tracker):
    stranger = socket.socket(socket.AF_UNIX)
    stranger.connect(tracker.path("socket"))  # without a limit in time: it waits while the queue is full
    stranger.settimeout(5)
    return stranger


def dial(tracker, properties=None, greeting=GREETING):
    """A connection with its handshake said, as a DEALER's."""
    stranger = connected(tracker)
    try_to("sendall", stranger, greeting + ready(properties or {b"Socket-Type": b"DEALER", b"Identity": b""}))
    return stranger


def try_to(send, stranger, data):
    try:
        getattr(stranger, send)(data)
    except OSError:
        pass  # it hung up


def speaks(tracker):
    """The bytes of this test are understood: the tracker says READY."""
    with dial(tracker) as stranger:
        said = b""
        while b"READY" not in said and (piece := stranger.recv(4096)):
            said += piece
        check(said[:1] == b"\xff" and b"ROUTER" in said, f"no handshake: {said}")


def half_handshakes(tracker):
    """300 that stop anywhere in their greeting, or never say READY."""
    whole = GREETING + ready({b"Socket-Type": b"DEALER"})
    open_ones = []
    for i in range(300):
        stranger = connected(tracker)
        stranger.sendall(whole[:i % len(whole)])
        open_ones.append(stranger)
    serves(tracker, "half handshakes")
    for stranger in open_ones:
        stranger.close()


def strange_handshakes(tracker):
    """Other versions, mechanisms, kinds of sockets, properties of a mebibyte, identities that are taken or reserved."""
    dealer = {b"Socket-Type": b"DEALER"}
    for properties in ({b"Socket-Type": b"ROUTER"}, {b"Socket-Type": b"PUB"}, {}, {b"": b""}, {**dealer, b"X": bytes(MIB)},
                       {**dealer, b"Identity": b"\0" * 5}, {**dealer, b"Identity": b"i" * 256},
                       {**dealer, b"Identity": "\u202egr\u00f6\u00dfe\0".encode()}):
        with dial(tracker, properties) as stranger:
            try_to("sendall", stranger, frame(b"", more=True) + frame(b"\x08\x01"))
    for greeting in (bytes(64), b"\xff" * 64, GREETING.replace(b"NULL", b"CURV"), GREETING.replace(b"\x03\x01", b"\x00\x00"),
                     GREETING.replace(b"\x03\x01", b"\x63\x63"), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"):
        with dial(tracker, greeting=greeting):
            pass
    same = [dial(tracker, {**dealer, b"Identity": b"worker"}) for _ in range(20)]
    serves(tracker, "strange handshakes")
    for stranger in same:
        stranger.close()


def frames_without_end(tracker):
    """Lengths of up to 2^64 - 1 of which little comes, and messages whose frames never end."""
    before = memory_of(tracker)
    for length in (MIB, 1 << 30, (1 << 31) - 1, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1):
        with dial(tracker) as stranger:
            for flags in (2, 3):
                try_to("sendall", stranger, bytes([flags]) + struct.pack(">Q", length) + b"x" * 1000)
        serves(tracker, f"a frame of {length} bytes")
    for body in (b"", b"x" * 255, b"x" * 60000):
        with dial(tracker) as stranger:
            many = frame(body, more=True) * max(1, min(20000, 64 * MIB // (len(body) + 1)) // 20)
            for _ in range(20):
                try_to("sendall", stranger, many)
            serves(tracker, f"frames of {len(body)} bytes without end")
    wait_for("memory to be given back", lambda: memory_of(tracker) < before + 128 * MIB, 20)


def dial_over_tcp(port):
    stranger = socket.create_connection(("127.0.0.1", port), timeout=10)
    stranger.sendall(GREETING + ready({b"Socket-Type": b"DEALER", b"Identity": b""}))
    said = b""
    while b"READY" not in said:  # what comes before it ends the connection
        check(piece := stranger.recv(4096), f"no handshake: {said}")
        said += piece
    return stranger


def is_cut_off(stranger, data, count):
    try:
        for _ in range(count):
            stranger.sendall(data)
        while stranger.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def hung_up(stranger):
    stranger.setblocking(False)
    try:
        return not stranger.recv(1)
    except BlockingIOError:
        return False
    except OSError:
        return True


def messages_without_end(tracker):
    """Over TCP: one message of frames without end, whole ones faster than they are taken, by one or by many at once;
    libzmq bounds neither. Who says little stays."""
    port = int(tracker.listen.rpartition(":")[2])
    before = memory_of(tracker)
    quiet = dial_over_tcp(port)
    for body in (b"", b"x", b"x" * 60000):
        endless = frame(body, more=True) * (65536 // (len(body) + 1) + 1)
        with dial_over_tcp(port) as stranger:
            check(is_cut_off(stranger, endless, 1024), f"a message of frames of {len(body)} bytes has no end")
        serves(tracker, f"a message of frames of {len(body)} bytes")
    many = [dial_over_tcp(port) for _ in range(16)]
    for stranger in many:
        try_to("sendall", stranger, frame(b"", more=True) * MIB)
    wait_for("one of many to be cut off", lambda: any(hung_up(stranger) for stranger in many), 20)
    check(not all(hung_up(stranger) for stranger in many), "all are cut off")
    for stranger in many:
        stranger.close()
    with dial_over_tcp(port) as stranger:
        check(is_cut_off(stranger, frame(b"x" * (2 * MIB)), 1), "a frame of 2 MiB is taken")
    check(memory_of(tracker) < before + 256 * MIB, "messages without end are kept")
    quiet.sendall(frame(b"\x08\x01"))
    said = quiet.recv(4096)
    check(b"envelope" in said, f"who said little is cut off too: {said}")
    quiet.close()
    with open(tracker.path("log")) as log:
        check("a message without end" in log.read(), "it is not said")


def messages_of_no_worker(tracker):
    """Any number of frames, of zeros, of random bytes, of messages cut anywhere, from an identity of its own each."""
    draw = random.Random(1)
    before = memory_of(tracker)
    for i in range(300):
        with dial(tracker, {b"Socket-Type": b"DEALER", b"Identity": b"w%d" % i}) as stranger:
            for _ in range(20):
                bodies = [draw.randbytes(draw.choice((0, 1, 2, 7, 100, 3000))) for _ in range(draw.choice((1, 1, 2, 3, 40)))]
                if draw.random() < 0.5:  # a protobuf field of one number, or of text with zeros in it
                    bodies[-1] = draw.choice((b"\x08", b"\x0a\x05a\0\nb\xff", b"\x12\x7f")) + bodies[-1]
                try_to("sendall", stranger, b"".join(frame(b, more=b is not bodies[-1]) for b in bodies))
    serves(tracker, "messages of no worker")
    check(memory_of(tracker) < before + 64 * MIB, "messages of no worker are kept")
    workers = tracker.call("GET", "/v1/workers")[1]
    check(not workers.get("workers"), f"strangers became workers: {workers}")


def ids_that_cannot_be(tracker):
    """Numbers below 0, beyond 64 bits, in other digits, names with zeros, in each path that takes one."""
    ids = ("-1", "0", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1" * 5000, "0x1", "1e3", "%00",
           "%D9%A1", "1%2F2", "..", "%2e%2e%2f", "a" * 32, "%F0%9F%92%A3", "1%0A", "%", "*", "'%3B--")
    paths = ("jobs/{}", "jobs/{}/module", "jobs/{}/report", "jobs/{}/trials", "jobs/{}/curve", "jobs/{}/points",
             "jobs/{}/schedules", "jobs/{}/events", "trials/{}", "blobs/{}")
    orders = ("jobs/{}/cancel", "jobs/{}/pause", "jobs/{}/resume", "workers/{}/drain", "workers/{}/resume", "workers/{}/trust")
    for wrong in ids:
        for method, path in [("GET", path) for path in paths] + [("POST", path) for path in orders]:
            status = tracker.call(method, "/v1/" + path.format(wrong))[0]
            check(status in (400, 404, 405, 414), f"{method} {path} of {wrong[:40]}: {status}")
    for query in ("limit=-1", "limit=9223372036854775808", "limit=1e9", "before=-1", "before=%00", "state=%F0", "limit="):
        status = tracker.call("GET", "/v1/jobs?" + query)[0]
        check(status in (200, 400, 404), f"a list by {query}: {status}")
    serves(tracker, "ids that cannot be")


def bodies_that_cannot_be(tracker):
    """To each path that takes a POST: bodies that are no JSON, no object, or nested, and keys said twice."""
    bodies = (b"", b"{", b"[]", b"null", b"0", b'"dqn"', b"{}{}", b'{"model": "dqn", "model": 1}', b'{"": ""}', b"\xef\xbb\xbf{}",
              b"\xff\xfe{\0}\0", b'{"model": "dqn\\u0000"}', b'{"a":' * 5000 + b"1" + b"}" * 5000, b" " * 100000, b"\0" * 100000,
              b'{"model": "dqn", "trials": -1}', b'{"model": "dqn", "trials": 0.5}', b'{"model": "dqn", "trials": true}',
              b'{"model": "", "trials": 1}', b'{"model": "dqn", "target": "\\u001b[2J", "trials": 1}',
              b'{"model": "dqn", "key": ' + b"[" * 1000 + b"]" * 1000 + b"}")
    for path in ("jobs", "jobs/1/cancel", "jobs/1/pause", "jobs/1/resume", "workers/w/drain", "workers/w/resume",
                 "workers/w/trust"):
        for body in bodies:
            status, said = tracker.call("POST", "/v1/" + path, body)
            check(status in (400, 404, 413), f"POST {path} of {body[:60]}: {status} {said}")
    serves(tracker, "bodies that cannot be")
    check(tracker.call("GET", "/v1/jobs")[1] == {"jobs": []}, "one of them made a job")


def slow_uploads(tracker):
    """200 uploads that say a byte a time, uploads of other bytes, and under names that are no digests."""
    model = b"model" * 1000
    digest, other = hashlib.sha256(model).hexdigest(), hashlib.sha256(b"other").hexdigest()
    for name in (other, digest.upper(), digest[:63], digest + "0", "../" + digest, digest[:32] + "%00" + digest[33:], "g" * 64):
        status = tracker.call("PUT", "/v1/blobs/" + name, model)[0]
        check(status in (400, 404, 409, 422), f"an upload as {name}: {status}")
    before = files_of(tracker)
    slow = []
    for _ in range(200):
        upload = tracker.connect()
        upload.sendall(f"PUT /v1/blobs/{digest} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(model)}\r\n\r\n".encode())
        slow.append(upload)
    for k in range(5):
        for upload in slow:
            try_to("sendall", upload, model[k:k + 1])
        serves(tracker, "slow uploads")
    check(tracker.call("PUT", "/v1/blobs/" + digest, model)[0] in (200, 201), "slow uploads keep a whole one out")
    for upload in slow:
        upload.close()
    wait_for("slow uploads to be forgotten", lambda: files_of(tracker) <= before + 8, 30)
    left = [name for name in os.listdir(tracker.path("tuning.db-files/blobs")) if not name.endswith(".owner")]
    check(left == [digest], f"uploads left {left}")


def streams_nobody_reads(tracker):
    """Sixteen listeners that never read, while a job's orders make events for them all."""
    before = memory_of(tracker)
    job = tracker.call("POST", "/v1/jobs", '{"model": "dqn", "trials": 1}')[1]["id"]
    deaf = []
    for i in range(16):
        stream = tracker.connect()
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        path = "/v1/events" if i % 2 else f"/v1/jobs/{job}/events"
        stream.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 0\r\n\r\n".encode())
        deaf.append(stream)
    for i in range(300):
        tracker.call("POST", f"/v1/jobs/{job}/{'resume' if i % 2 else 'pause'}")
    tracker.call("POST", f"/v1/jobs/{job}/cancel")
    serves(tracker, "streams nobody reads")
    check(memory_of(tracker) < before + 64 * MIB, "what nobody reads is kept")
    for stream in deaf:
        stream.close()


def main():
    with tempfile.TemporaryDirectory() as folder, Tracker(folder) as tracker:
        attacks = (speaks, half_handshakes, strange_handshakes, frames_without_end, messages_of_no_worker, ids_that_cannot_be,
                   bodies_that_cannot_be, slow_uploads, streams_nobody_reads)
        for attack in attacks:
            begun = time.monotonic()
            attack(tracker)
            check(tracker.process.poll() is None, f"{attack.__name__} ended the tracker")
            print(f"{attack.__name__}: held off in {time.monotonic() - begun:.1f} s", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        over_tcp = Tracker(folder)
        over_tcp.listen = f"tcp://127.0.0.1:{free_port()}"
        with over_tcp:
            messages_without_end(over_tcp)


if __name__ == "__main__":
    main()
