#!/usr/bin/env python3
"""A worker of a tracker that means it ill, or of whoever answers at its address: hostile_tracker_test.py TUNE

docs/attacks.md lists all attacks; each function here is named there.
"""

import hashlib
import os
import re
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

from stranger_frames_test import GREETING, MIB, frame, ready
from tracker_process import TUNE, check, wait_for

HELLO, WELCOME, CREDIT, LEASE, RESULT, ACK, HEARTBEAT, CANCEL, ERROR, BLOB_GET, BLOB_CHUNK = 1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 14


def varint(value):
    text = b""
    while value > 127:
        text += bytes([value & 127 | 128])
        value >>= 7
    return text + bytes([value])


def message(**fields):
    """A protobuf of fields _NUMBER: whole numbers, doubles, bytes, or lists of them."""
    text = b""
    for name, values in fields.items():
        number = int(name[1:])
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, float):
                text += varint(number << 3 | 1) + struct.pack("<d", value)
            elif isinstance(value, int):
                text += varint(number << 3) + varint(value)
            else:
                text += varint(number << 3 | 2) + varint(len(value)) + value
    return text


def envelope(kind, body=b""):
    return frame(varint(kind << 3 | 2) + varint(len(body)) + body)


def number(text, at):
    value = shift = 0
    while True:
        value |= (text[at] & 127) << shift
        shift += 7
        at += 1
        if text[at - 1] < 128:
            return value, at


def fields_of(text):
    """Of a protobuf: (number, value) each, in order."""
    at, found = 0, []
    while at < len(text):
        tag, at = number(text, at)
        if tag & 7 == 0:
            value, at = number(text, at)
        else:
            size, at = (8, at) if tag & 7 == 1 else (4, at) if tag & 7 == 5 else number(text, at)
            value, at = text[at:at + size], at + size
        found.append((tag >> 3, value))
    return found


def evaluation(**fields):
    usual = {"_1": 1, "_2": 1, "_3": 1, "_4": 5, "_5": 0.01, "_6": 0.1, "_8": 1e-4, "_9": 20.0, "_10": 10.0}
    return message(**{**usual, **fields})


def lease(number, **fields):
    usual = {"_1": number, "_2": number, "_3": 1, "_4": 60000, "_5": b"no workload", "_6": b"[]", "_7": b"cpu", "_8": evaluation()}
    return envelope(LEASE, message(**{**usual, **fields}))


class HungUp(Exception):
    """The worker ended its connection."""


class Worker:
    """`tune worker`, and this end of its connection, behind a handshake."""

    def __enter__(self):
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.folder = tempfile.TemporaryDirectory()
        self.log = open(self.folder.name + "/log", "w+")
        address = "tcp://127.0.0.1:%d" % self.listening.getsockname()[1]
        self.process = subprocess.Popen([TUNE, "worker", "--tracker", address, "--name", "w", "--builders", "1"],
                                        stdout=self.log, stderr=self.log)
        self.accept()
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait()
        self.connection.close()
        self.listening.close()
        self.log.close()
        self.folder.cleanup()

    def accept(self):
        self.listening.settimeout(60)
        self.connection = self.listening.accept()[0]
        self.connection.settimeout(60)
        self.connection.sendall(GREETING + ready({b"Socket-Type": b"ROUTER", b"Identity": b""}))
        self.said = b""
        self.read(64)
        self.next_frame()
        # It says HELLO where it has not been answered for long, else it goes on.
        self.wait_for((HELLO, HEARTBEAT))
        self.send(envelope(WELCOME, message(_1=6, _2=1)))

    def accept_newest(self):
        """As accept(), where the worker may have given up a connection that nobody answered, and made another."""
        end = time.monotonic() + 60
        while True:
            try:
                return self.accept()
            except (HungUp, ConnectionError):
                check(time.monotonic() < end, "the worker hangs up again and again")
                self.connection.close()

    def read(self, size):
        while len(self.said) < size:
            piece = self.connection.recv(65536)
            if not piece:
                raise HungUp
            self.said += piece
        text, self.said = self.said[:size], self.said[size:]
        return text

    def next_frame(self):
        flags, size = self.read(2)
        if flags & 2:
            size = struct.unpack(">Q", bytes([size]) + self.read(7))[0]
        return self.read(size)

    def message(self):
        """What it says next. Heartbeats are answered: it gives up a tracker that is silent for 10 s."""
        said = fields_of(self.next_frame())
        if said and said[0][0] == HEARTBEAT:
            self.send(envelope(HEARTBEAT))
        return said

    def wait_for(self, kinds, condition=lambda body: True):
        kinds = kinds if isinstance(kinds, tuple) else (kinds,)
        while True:
            said = self.message()
            if said and said[0][0] in kinds and condition(fields_of(said[0][1])):
                return fields_of(said[0][1])

    def send(self, data):
        self.connection.sendall(data)

    def result(self, number):
        """The outcome and message of a lease."""
        said = dict(self.wait_for(RESULT, lambda body: (1, number) in body))
        self.send(envelope(ACK, message(_1=number)))
        return said.get(4, 0), said.get(6, b"").decode(errors="replace")

    def held(self):
        """The leases that it holds, of its second heartbeat from now on."""
        self.wait_for(HEARTBEAT)
        return [value for number, values in self.wait_for(HEARTBEAT) if number == 1 for value in leases_of(values)]

    def memory(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(r"VmHWM:\s+(\d+) kB", status.read()).group(1)) << 10

    def text(self):
        with open(self.folder.name + "/log", errors="replace") as log:
            return log.read()

    def is_well(self, what):
        check(self.process.poll() is None, f"{what}: the worker has ended: {self.text()[-2000:]}")
        self.wait_for(HEARTBEAT)


def leases_of(packed):
    if isinstance(packed, int):
        return [packed]
    at, found = 0, []
    while at < len(packed):
        value, at = number(packed, at)
        found.append(value)
    return found


def leases_that_cannot_be(worker):
    """Numbers, parts and digests that are none, limits in time beyond any; each is refused where it is read."""
    digest = hashlib.sha256(b"x").hexdigest().encode()
    infinite, none = float("inf"), float("nan")
    wrong = [{"_8": evaluation(**e)} for e in (
        {"_1": 0}, {"_1": 1025}, {"_3": 4294967295}, {"_4": 4294967295}, {"_5": none}, {"_6": -1.0}, {"_9": infinite},
        {"_9": 1e300}, {"_10": 1e300}, {"_10": -1.0}, {"_10": 86400.0}, {"_13": [0] * 65})]
    wrong += [{"_4": 4294967295}, {"_10": 4}, {"_10": 4294967295}, {"_7": b"x" * 20000}, {"_5": b"x" * (9 * MIB)}]
    wrong += [{"_10": 2, "_11": message(_1=name, _2=size), "_12": message(_1=digest, _2=1)} for name, size in (
        (b"../../../../etc/passwd", 10), (b"\0" * 64, 1), (digest, 0), (digest, 1 << 40), (digest, (1 << 64) - 1))]
    for i, fields in enumerate(wrong):
        worker.send(lease(1000 + i, **fields))
    held = worker.held()
    check(not held, f"it has taken {[wrong[k - 1000] for k in held]}")
    check(worker.text().count("from the tracker: ") >= 20, f"it does not say of each: {worker.text()}")
    worker.is_well("leases that cannot be")


def programs_that_are_none(worker):
    """Texts nested without end, tensors of 2^62, traces that are no JSON, targets of other machines, paths in names."""
    big = b"func @main(%a: f32[4611686018427387904, 4611686018427387904], %b: f32[4611686018427387904]) { }"
    programs = [{"_5": b"(" * MIB}, {"_5": b"x" * (8 * MIB)}, {"_5": b"\0" * 1000}, {"_5": big},
                {"_5": b"func @../../../etc/passwd() {" * 1000}, {"_6": b"[" * MIB}, {"_7": b"cuda -arch=../../x"},
                {"_7": b"cpu -mcpu=$(touch /tmp/lathe-hostile)"}, {"_8": evaluation(_1=1024)}]
    for i, fields in enumerate(programs):
        worker.send(lease(2000 + i, **fields))
        outcome, said = worker.result(2000 + i)
        check(outcome != 0 and said, f"{fields.keys()}: {outcome} {said}")
        check(len(said) < 20000, f"{fields.keys()}: {len(said)} bytes")
    check(not os.path.exists("/tmp/lathe-hostile"), "it has run what a target says")
    worker.is_well("programs that are none")


def bytes_of_another_digest(worker):
    """What is to be run comes, and is not what its digest says, again and again; then what is said is no code."""
    code = b"x" * 1000
    name = hashlib.sha256(code).hexdigest().encode()
    for number, given in ((3000, b"y" * 1000), (3001, code)):
        blob = message(_1=name, _2=len(code))
        worker.send(lease(number, _10=2, _11=blob, _12=blob))
        asked = 0
        while True:
            said = worker.message()
            if said[0][0] == BLOB_GET:
                asked += 1
                check(asked < 100, "it asks for the same for ever")
                wanted = dict(fields_of(said[0][1]))
                piece = given[wanted.get(3, 0):]
                worker.send(envelope(BLOB_CHUNK, message(_1=wanted[2], _2=wanted.get(3, 0), _3=piece)))
            elif said[0][0] == RESULT and (1, number) in fields_of(said[0][1]):
                break
        worker.send(envelope(ACK, message(_1=number)))
        check(dict(fields_of(said[0][1])).get(4, 0) != 0, f"it ran {given[:10]}")
    worker.is_well("bytes of another digest")


def answers_to_nothing(worker):
    """Acknowledgements, pieces, orders and questions of leases that it never had, and what only workers say."""
    name = b"0" * 64
    for number in (0, 1, 1 << 63, (1 << 64) - 1):
        for said in (envelope(ACK, message(_1=number)), envelope(CANCEL, message(_1=number)),
                     envelope(BLOB_GET, message(_1=number, _2=name, _3=number)),
                     envelope(BLOB_CHUNK, message(_1=name, _2=number, _3=b"x" * 1000))):
            worker.send(said)
    for kind in (HELLO, CREDIT, RESULT, 9, 10, 12, 15, 16, 1000):
        worker.send(envelope(kind) + frame(b"") + frame(b"x", more=True) + frame(b"y"))
    worker.is_well("answers to nothing")


def more_leases_than_asked_for(worker):
    """Ten thousand of 64 KiB at once: they were all kept, and listed with each heartbeat."""
    before = worker.memory()
    for i in range(10000):
        worker.send(lease(4000 + i, _5=b"x" * 65536, _8=evaluation(_9=900.0), _4=3600000))
    held = worker.held()
    check(len(held) <= 64, f"it holds {len(held)} leases")
    check(worker.memory() < before + 128 * MIB, f"they take {worker.memory() - before >> 20} MiB")
    check("more leases than this worker asks for" in worker.text(), "it is not said")
    for number in held:
        worker.send(envelope(CANCEL, message(_1=number)) + envelope(ACK, message(_1=number)))
    worker.is_well("more leases than it asks for")


def news_without_end(worker):
    """A tracker that knows the worker and knows it not, 50,000 times, and one that is refused in 50,000 ways."""
    for i in range(50):
        worker.send((envelope(ERROR, message(_1=2)) + envelope(WELCOME, message(_1=6, _2=1))) * 1000)
    for i in range(50000):
        worker.send(envelope(ERROR, message(_1=0, _2=b"refused %d" % i)) + frame(b"no envelope %d" % i))
    worker.send(envelope(WELCOME, message(_1=6, _2=1)))
    worker.is_well("news without end")
    check(len(worker.text()) < MIB, f"a log of {len(worker.text()) >> 20} MiB")


def a_message_without_end(worker):
    """Its connection is cut, and it comes back."""
    before, begun = worker.memory(), time.monotonic()
    try:
        for _ in range(4096):
            worker.send(frame(b"", more=True) * 32768)
        check(False, "256 MiB of empty frames are taken")
    except OSError:
        pass
    seconds = time.monotonic() - begun
    check(worker.memory() < before + 1024 * MIB, f"they take {worker.memory() - before >> 20} MiB")
    worker.accept_newest()
    # Where reading so much takes longer than that, it gave up a tracker that was silent for 10 s.
    if seconds < 9:
        wait_for("it to be said", lambda: "a message without end" in worker.text(), 10)
    worker.is_well("a message without end")


def no_end_of_work(worker):
    """SIGTERM drains it, while messages come as fast as it can read them."""
    over = threading.Event()
    heartbeats = envelope(HEARTBEAT) * 200000

    def talk():
        try:
            while not over.is_set():
                worker.send(heartbeats)
        except OSError:
            pass

    talker = threading.Thread(target=talk)
    talker.start()
    time.sleep(1)
    worker.process.send_signal(signal.SIGTERM)
    try:
        worker.process.wait(30)
    except subprocess.TimeoutExpired:
        check(False, "it does not hear SIGTERM")
    finally:
        over.set()
        worker.process.kill()
        talker.join()
    check(worker.process.returncode == 0, f"it ends with {worker.process.returncode}: {worker.text()[-500:]}")


def main():
    with Worker() as worker:
        for attack in (leases_that_cannot_be, programs_that_are_none, bytes_of_another_digest, answers_to_nothing,
                       more_leases_than_asked_for, a_message_without_end, news_without_end, no_end_of_work):
            begun = time.monotonic()
            attack(worker)
            print(f"{attack.__name__}: held off in {time.monotonic() - begun:.1f} s", flush=True)


if __name__ == "__main__":
    main()
