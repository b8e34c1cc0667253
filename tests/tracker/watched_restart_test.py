#!/usr/bin/env python3
"""Clients that watch a job while its tracker goes away and comes back: watched_restart_test.py TUNE"""

import glob
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

from tracker_process import TUNE, Tracker, check, run, wait_for


class Watcher:
    """`tune watch`, and what it has said."""

    def __init__(self, job, tracker):
        self.process = subprocess.Popen([TUNE, "watch", job, "--tracker", f"http://127.0.0.1:{tracker.port}"], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.said = ""
        self.thread = threading.Thread(target=self.listen)
        self.thread.start()

    def listen(self):
        for line in self.process.stderr:
            self.said += line

    def end(self):
        self.process.wait(60)
        self.thread.join()
        return self.process.returncode


def watches_on(tracker, go_away):
    job = tracker.call("POST", "/v1/jobs", '{"model": "dqn", "trials": 1}')[1]["id"]
    watcher = Watcher(job, tracker)
    wait_for("the watcher to see the job", lambda: "queued" in watcher.said)
    go_away(job)
    tracker.start()
    check(watcher.process.poll() is None, f"with its tracker the watcher ended: {watcher.said}")
    check(tracker.call("POST", f"/v1/jobs/{job}/cancel")[0] == 200, "the job is not cancelled")
    check(watcher.end() == 2 and f"job {job} cancelled" in watcher.said, f"the watcher was not told: {watcher.said}")


def main():
    with tempfile.TemporaryDirectory() as folder, Tracker(folder) as tracker:
        def stop(_):
            tracker.process.terminate()
            tracker.process.wait()
            tracker.log.close()

        def put_back(job):
            """The database as it was before much that the watcher has been told of."""
            run("db", "backup", tracker.path("backup.db"), "--db", tracker.path("tuning.db"))
            for _ in range(10):
                for order in ("pause", "resume"):
                    check(tracker.call("POST", f"/v1/jobs/{job}/{order}")[0] == 200, f"the job takes no {order}")
            time.sleep(1)  # the watcher has the last of it, too
            stop(job)
            for old in glob.glob(tracker.path("tuning.db*-wal")) + glob.glob(tracker.path("tuning.db*-shm")):
                os.remove(old)
            os.replace(tracker.path("backup.db"), tracker.path("tuning.db"))

        watches_on(tracker, lambda _: tracker.kill())
        watches_on(tracker, stop)
        watches_on(tracker, put_back)
        ended = [job for job in tracker.call("GET", "/v1/jobs")[1]["jobs"]]
        check([job["state"] for job in ended] == ["cancelled"] * 3, json.dumps(ended))
        # All that is to be told has been.
        check(Watcher(ended[0]["id"], tracker).end() == 2, "the watcher of an ended job waits")
    print("watched through 3 restarts, one of them on an older database")


if __name__ == "__main__":
    sys.exit(main())
