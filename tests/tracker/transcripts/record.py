#!/usr/bin/env python3
"""Records what workers and their tracker of a commit say to each other: record.py COMMIT > versionN.txt

Before a version of the protocol is followed by the next, record it from its last commit, and add the file to
transcript_test.cpp.
"""

import glob
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDERS = ["core/support", "db", "tests/tracker", "tracker", "workers"]
SOURCES = ["core/support/*.cpp", "tests/tracker/memory_journal.cpp", "tracker/farm*.cpp", "tracker/wire/blob.cpp",
           "tracker/wire/wire.cpp", "workers/agent.cpp"] + [
    f"tracker/{name}.cpp" for name in ("build_index", "device_class", "health", "journal", "principals")]


def main():
    commit = subprocess.check_output(["git", "rev-parse", "--short", sys.argv[1]], cwd=HERE, text=True).strip()
    root = subprocess.check_output(["git", "rev-parse", "--show-toplevel"], cwd=HERE, text=True).strip()
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", commit, *FOLDERS], cwd=root, stdout=subprocess.PIPE, check=True)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        subprocess.run(["protoc", "--cpp_out=.", "wire.proto"], cwd=folder + "/tracker/wire", check=True)
        sources = [name for pattern in SOURCES for name in glob.glob(f"{folder}/{pattern}")]
        subprocess.run(["c++", "-std=c++20", "-w", "-I", folder, "-I", folder + "/tracker/wire", HERE + "/record.cpp", *sources,
                        folder + "/tracker/wire/wire.pb.cc", "-lfmt", "-lprotobuf-lite", "-lcrypto", "-o", folder + "/record"],
                       check=True)
        print(f"# Workers and tracker of {commit}, recorded by record.py. Milliseconds; who; to (>) or from (<) the tracker.")
        sys.stdout.flush()
        subprocess.run([folder + "/record"], check=True)


if __name__ == "__main__":
    main()
