#!/usr/bin/env python3
"""Clients that are slow with what they send or take, to have all connections: slow_clients_test.py TUNE"""

import hashlib
import resource
import tempfile
import time

from tracker_process import Tracker, check

CONNECTIONS = 1100  # more than kConnections


def begin(tracker, first, length, body):
    stranger = tracker.connect()
    try:
        stranger.sendall(f"{first} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n".encode() + body)
    except OSError:
        pass  # shown out
    return stranger


def slow_bodies(tracker, first):
    """More bodies than there are connections, of a byte each. Whoever is quick gets in, and stays."""
    model = hashlib.sha256(first.encode()).digest() * (1 << 18)
    path = "/v1/blobs/" + hashlib.sha256(model).hexdigest()
    quick = begin(tracker, "PUT " + path, len(model), model[:len(model) // 2])
    slow = [begin(tracker, first, 1000, b"{") for _ in range(CONNECTIONS)]
    check(tracker.call("GET", "/v1/status")[0] == 200, "slow bodies leave no room for others")
    quick.sendall(model[len(model) // 2:])
    check(b" 201 " in quick.recv(4096), "a quick upload makes room for slow ones")
    for stranger in slow + [quick]:
        stranger.close()


def few_descriptors(folder):
    """What a process may have at first is not all that it gets; and of what it gets silent connections have half."""
    with Tracker(folder, descriptors=(150, 200)) as tracker:
        limits = resource.prlimit(tracker.process.pid, resource.RLIMIT_NOFILE)
        check(limits == (200, 200), f"it has {limits} descriptors")
        silent = [tracker.connect() for _ in range(400)]
        begun = time.monotonic()
        check(tracker.call("GET", "/v1/status")[0] == 200, "silent connections leave no descriptor for others")
        took = time.monotonic() - begun
        check(took < 5, f"a newcomer waits for {took:.1f} s until silent ones are shown out")
        for stranger in silent:
            stranger.close()


def main():
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with tempfile.TemporaryDirectory() as folder, Tracker(folder) as tracker:
        slow_bodies(tracker, "PUT /v1/blobs/" + hashlib.sha256(b"slow").hexdigest())
        slow_bodies(tracker, "POST /v1/jobs")
    with tempfile.TemporaryDirectory() as folder:
        few_descriptors(folder)
    print("slow clients make room")


if __name__ == "__main__":
    main()
