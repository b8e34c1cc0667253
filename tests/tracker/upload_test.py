#!/usr/bin/env python3
"""Uploads of models: others are served meanwhile, and nothing half stays: upload_test.py TUNE"""

import hashlib
import json
import os
import subprocess
import tempfile
import threading
import time

from tracker_process import TUNE, Tracker, check, run, wait_for

MIB = 1 << 20
PIECE = b"\x5a" * MIB
PIECES = 384


def head(digest, size):
    return f"PUT /v1/blobs/{digest} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n".encode()


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer else 0


def answers_beside_a_large_upload(tracker):
    """All but the last byte of a model are sent, then the last one, while another asks all the time: what comes is
    hashed in pieces, and the disk is waited for on another thread."""
    whole = hashlib.sha256()
    begun = time.monotonic()
    for _ in range(PIECES):
        whole.update(PIECE)
    hashing = time.monotonic() - begun
    waits, over = [], threading.Event()

    def ask():
        while not over.is_set():
            asked = time.monotonic()
            check(tracker.call("GET", "/v1/status")[0] == 200, "nobody is answered beside an upload")
            waits.append(time.monotonic() - asked)
            time.sleep(0.01)

    asker = threading.Thread(target=ask)
    asker.start()
    with tracker.connect() as upload:
        upload.settimeout(60)
        upload.sendall(head(whole.hexdigest(), PIECES * MIB))
        for _ in range(PIECES - 1):
            upload.sendall(PIECE)
        upload.sendall(PIECE[:-1])
        folder = tracker.path("tuning.db-files/blobs")
        wait_for("all but one byte", lambda: sum(e.stat().st_size for e in os.scandir(folder)) >= (PIECES - 2) * MIB)
        time.sleep(0.5)
        last = time.monotonic()
        upload.sendall(PIECE[-1:])
        answer = upload.recv(65536)
        ending = time.monotonic() - last
    over.set()
    asker.join()
    check(status_of(answer) == 201, f"an upload of {PIECES} MiB: {answer}")
    check(len(waits) >= 10, f"only {len(waits)} were answered beside it")
    waits.sort()
    # To hash the model in one go would hold everyone up for as long as it took here; a busy machine does so too, but
    # not for most of the answers.
    check(waits[len(waits) // 2] < hashing / 2, f"an answer took {waits[len(waits) // 2]:.2f} s")
    print(f"{PIECES} MiB: {len(waits)} answers beside it, median {waits[len(waits) // 2] * 1e3:.1f} ms, longest "
          f"{waits[-1] * 1e3:.0f} ms; its last byte {ending * 1e3:.0f} ms; hashing it all {hashing * 1e3:.0f} ms")


def leaves_nothing_half(tracker):
    folder = tracker.path("tuning.db-files/blobs")
    before = sorted(os.listdir(folder))
    with tracker.connect() as upload:
        upload.sendall(head("0" * 64, 100) + b"half of it")
        wait_for("an upload to begin", lambda: len(os.listdir(folder)) > len(before))
    wait_for("what came of a broken upload to go", lambda: sorted(os.listdir(folder)) == before)
    status, said = tracker.call("PUT", "/v1/blobs/" + "0" * 64, b"bytes of another digest")
    check(status == 400 and "sha256" in said["error"], f"a wrong digest: {status} {said}")
    wait_for("bytes of a wrong digest to go", lambda: sorted(os.listdir(folder)) == before)
    model = b"a model"
    digest = hashlib.sha256(model).hexdigest()
    for _ in range(2):
        check(tracker.call("PUT", "/v1/blobs/" + digest, model)[0] == 201, "an upload is refused")
    check(tracker.call("GET", "/v1/blobs/" + digest) == (200, {"digest": digest, "bytes": len(model)}),
          "an upload is not there")
    chunked = (f"PUT /v1/blobs/{digest} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
               "Connection: close\r\n\r\n").encode() + b"3\r\na m\r\n4\r\nodel\r\n0\r\n\r\n"
    check(status_of(tracker.say(chunked)) == 201, "an upload in chunks is refused")
    print("nothing half, nothing under a wrong name")
    return digest


def lasts(tracker, digest):
    check(tracker.call("GET", "/v1/blobs/" + digest)[0] == 200, "a tracker started again has forgotten its models")


def bounds_one_user(tracker):
    """alice may have 1 MiB: her older models make room, those of unfinished jobs do not, and bob's are his."""
    def put(model, user):
        return tracker.call("PUT", "/v1/blobs/" + hashlib.sha256(model).hexdigest(), model, user=user)

    first, second, of_bob = b"a" * (MIB // 2), b"b" * (MIB // 2 + 1), b"c" * (MIB // 2)
    for model, user in (of_bob, "bob"), (first, "alice"), (second, "alice"):
        check(put(model, user)[0] == 201, "an upload is refused")
    digests = [hashlib.sha256(model).hexdigest() for model in (first, second, of_bob)]
    found = [tracker.call("GET", "/v1/blobs/" + digest, user="alice")[0] for digest in digests]
    check(found == [404, 200, 200], f"of alice's first and second and bob's model are there: {found}")
    status, said = put(b"d" * (MIB + 1), "alice")
    check(status == 413 and "alice may have 1.0 MiB" in said["error"], f"more than she may have: {status} {said}")
    job = {"model": "m.onnx", "model_digest": digests[1], "target": "cpu", "trials": 10}
    status, said = tracker.call("POST", "/v1/jobs", json.dumps(job).encode(), user="alice")
    check(status == 201, f"a job is refused: {said}")
    status, said = put(first, "alice")
    check(status == 413 and "unfinished jobs" in said["error"], f"beside what a job needs: {status} {said}")
    check(put(b"e" * MIB, "bob")[0] == 201, "another user is refused")
    print("one user's models are bounded: 413")


def is_found_in_a_folder_named_from_here(folder):
    """A job's folder has a link to its model."""
    with open(folder + "/net.relay", "w") as model:
        model.write("def @main(%data: Tensor[(8, 64), float32]) -> Tensor[(8, 64), float32] { nn.relu(%data) }\n")
    with Tracker(folder, "--files", os.path.relpath(folder + "/models")) as tracker:
        worker = subprocess.Popen([TUNE, "worker", "--tracker", tracker.listen], stdout=tracker.log, stderr=tracker.log)
        try:
            job = run("submit", "--model", folder + "/net.relay", "--trials", "2", "--threads", "1",
                      "--tracker", f"http://127.0.0.1:{tracker.port}")
            said = wait_for("a job to end", lambda: (lambda j: j if j["state"] in ("done", "failed") else None)(
                tracker.call("GET", f"/v1/jobs/{job}")[1]), 120)
            check(said["state"] == "done", f"a job is {said['state']}: {said['message']}")
        finally:
            worker.terminate()
            worker.wait()
    print("a model is found in --files that are named from here")


def main():
    with tempfile.TemporaryDirectory() as folder:
        is_found_in_a_folder_named_from_here(folder)
    with tempfile.TemporaryDirectory() as folder:
        tracker = Tracker(folder)
        for name in "alice", "bob":
            tracker.add_user(name)
        with open(tracker.path("principals")) as file:
            lines = file.read().splitlines()
        with open(tracker.path("principals"), "w") as file:
            file.write(f"{lines[0]} models-gib={1 / 1024}\n{lines[1]}\n")
        with tracker:
            bounds_one_user(tracker)
    with tempfile.TemporaryDirectory() as folder:
        with Tracker(folder) as tracker:
            answers_beside_a_large_upload(tracker)
            digest = leaves_nothing_half(tracker)
        with Tracker(folder) as tracker:
            lasts(tracker, digest)


if __name__ == "__main__":
    main()
