"""A searcher that its model has taken over: it fills the disk with 4 MiB, or with many files, in a way of its own. Its socket is
descriptor 3."""

import json
import mmap
import os
import struct
import sys
import time


def call(**question):
    bytes_ = json.dumps(question).encode()
    os.write(3, struct.pack("<I", len(bytes_)) + bytes_)
    (size,) = struct.unpack("<I", os.read(3, 4))
    return json.loads(os.read(3, size))


def write(name, mebibytes=1):
    descriptor = os.open(os.path.join(folder, name), os.O_CREAT | os.O_RDWR, 0o600)
    for _ in range(mebibytes):
        os.write(descriptor, b"x" * 2**20)
    return descriptor


folder = call(call="order")["folder"]
way = sys.argv[1]
if way == "files":
    for i in range(4):
        os.close(write(f"{i}"))
    os.close(write("full", 0))
elif way == "log":
    os.write(2, b"x" * 2**22)
elif way == "nameless":
    for i in range(4):
        write(f"{i}")
        os.remove(os.path.join(folder, f"{i}"))
elif way == "many":
    for i in range(11_000):
        os.close(write(f"{i}", 0))
elif way == "mapped":
    # Less than is looked for: what is wrong with it is that nobody can ask how much it is.
    descriptor = write("x")
    held = mmap.mmap(descriptor, 4096)
    os.remove(os.path.join(folder, "x"))
    # Python's map keeps a copy of its own.
    for other in range(4, 64):
        try:
            os.close(other)
        except OSError:
            pass
elif way == "module":
    os.close(write("net.lathe", 4))
    call(call="deliver", report="{}", text="done")
    sys.exit(0)
# Beside its folder, where nobody counts.
open(os.path.join(folder, "../written"), "w").close()
time.sleep(600)
