#!/usr/bin/env python3
"""A tracker whose host has addresses that lead nowhere: addresses_test.py TUNE

Its name is known in a namespace of the test's own; skipped where there are none."""

import subprocess
import sys
import tempfile

from tracker_process import TUNE, Tracker, check, free_port, wait_for

kSkipped = 77


def main():
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/hosts", "w") as hosts:
            # Nobody listens at the first two.
            hosts.write("127.0.0.1 localhost\n::1 farm.test\n127.0.0.2 farm.test\n127.0.0.1 farm.test\n")
        enter = ["unshare", "-rm", "sh", "-c", f"mount --bind {folder}/hosts /etc/hosts && exec \"$@\"", "-"]
        if subprocess.run([*enter, "true"], capture_output=True).returncode != 0:
            print("skipped: no namespace can be made")
            return kSkipped
        port = free_port()
        tracker = Tracker(folder)
        tracker.listen = f"tcp://127.0.0.1:{port}"
        with tracker:
            worker = subprocess.Popen([*enter, TUNE, "worker", "--tracker", f"tcp://farm.test:{port}", "--name", "far"],
                                      stderr=subprocess.PIPE, text=True)
            try:
                wait_for("the worker to come", lambda: tracker.call("GET", "/v1/status")[1]["workers"] == 1)
            finally:
                worker.terminate()
                said = worker.communicate(timeout=60)[1]
            check("connected" in said, f"the worker says {said}")
    print("the third address of a name")
    return 0


if __name__ == "__main__":
    sys.exit(main())
