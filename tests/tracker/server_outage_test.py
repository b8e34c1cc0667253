#!/usr/bin/env python3
"""Several trackers on one PostgreSQL database, and a server that goes away: server_outage_test.py TUNE

A second tracker is refused, and one with --standby waits. In the midst of a job the connections are cut one by one, the
tracker's lock among them, the server crashes and comes back, and at last the tracker is killed and the other takes over.
Whatever the API has once told of a trial is so to the end, and each candidate is measured once. Exit code 77 where
PostgreSQL is not installed.
"""

import os
import pathlib
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "db"))

from jobs_over_http_test import Service  # noqa: E402
from tracker_process import check, free_port, run, wait_for  # noqa: E402
from with_postgres import Server  # noqa: E402

TRIALS = 150


class Acknowledged:
    """What the API has told of the trials of a job: the more often it is asked, the more there is to lose."""

    def __init__(self, service):
        self.service, self.told = service, {}

    def ask(self, job):
        status, answer = self.service.call("GET", f"/v1/jobs/{job}/trials?limit=10000", "alice")
        if status != 200:
            return
        now = {trial["id"]: (trial["outcome"], trial["worker"]) for trial in answer["trials"] if trial["outcome"]}
        for trial, said in self.told.items():
            check(now.get(trial) == said, f"trial {trial} was {said}, and is {now.get(trial)}")
        self.told |= now


class Supervisor(threading.Thread):
    """Starts the tracker again when it ends with 5, as systemd does by debian/lathe-tracker.service."""

    def __init__(self, service):
        super().__init__(daemon=True)
        self.service, self.codes, self.wanted = service, [], True
        self.start()

    def run(self):
        while self.wanted:
            process = self.service.tracker = self.service.start(*self.service.tracker_words())
            self.codes.append(process.wait())
            if self.codes[-1] != 5:  # which systemd does not start again
                return
            time.sleep(0.5)


class Farm(Service):
    def __init__(self, folder, address):
        os.environ["DATABASE_TEST_SERVER"] = address
        super().__init__(folder)

    def tracker_words(self, *more, farm=None, http=None):
        return ["tracker", "--db", self.database, "--files", self.path("files"), "--listen",
                f"tcp://127.0.0.1:{farm or self.farm}", "--http", f"127.0.0.1:{http or self.http}", "--key",
                self.path("tracker.key"), "--allow", self.path("allowed"), "--principals", self.path("principals"), *more]

    def serves(self):
        return self.call("GET", "/v1/status", "alice")[0] == 200


def cut_connections(server):
    """Each by itself: that of the lock ends the tracker, all others are made anew."""
    pids = server.query("SELECT pid FROM pg_stat_activity WHERE application_name = 'lathe'").split()
    for pid in pids:
        server.query(f"SELECT pg_terminate_backend({pid})")
        time.sleep(0.3)
    return len(pids)


def try_everything(service, server):
    service.make_keys()
    service.add_user("alice")
    supervisor = Supervisor(service)
    wait_for("the tracker", service.serves)

    other = (free_port(), free_port())
    refused = run(*service.tracker_words(farm=other[0], http=other[1]), code=5)
    check("is in use: a tracker serves it" in refused, f"a second tracker says {refused!r}")
    standby = service.start(*service.tracker_words("--standby", farm=other[0], http=other[1]))
    wait_for("one that stands by", lambda: "standing by: " in service.said())

    service.workers = [service.start_worker("w1")]
    job = run("submit", "--model", "dqn", "--trials", str(TRIALS), "--threads", "1", *service.as_user("alice"))
    acknowledged = Acknowledged(service)

    def more_results(what):
        enough = len(acknowledged.told) + 5
        wait_for(what, lambda: acknowledged.ask(job) or len(acknowledged.told) >= enough, 90)

    more_results("first results")
    idle = server.query("SELECT pid FROM pg_stat_activity WHERE application_name = 'lathe' AND pid NOT IN "
                        "(SELECT pid FROM pg_locks WHERE locktype = 'advisory')").split()
    check(idle, "no connection is without the lock")
    for pid in idle:
        server.query(f"SELECT pg_terminate_backend({pid})")
    more_results("results with new connections")
    check(not supervisor.codes, "a tracker that has its lock ended")

    standby.terminate()  # else it is the first to find the database free
    check(standby.wait(20) == 0, f"who stands by ends with {standby.returncode}")
    cut = cut_connections(server)
    wait_for("a tracker that has lost its lock to end", lambda: supervisor.codes, 20)
    more_results("results of the next one")

    ended = len(supervisor.codes)
    server.stop()
    wait_for("the tracker to end without its server", lambda: len(supervisor.codes) > ended, 20)
    time.sleep(2)
    server.start()
    more_results("results after the server's crash")

    check(set(supervisor.codes) == {5}, f"without its database a tracker ended with {supervisor.codes}")
    supervisor.wanted = False
    said = service.said().count("standing by: ")
    service.start(*service.tracker_words("--standby", farm=other[0], http=other[1]))
    wait_for("another that stands by", lambda: service.said().count("standing by: ") > said)
    service.workers.append(service.start("worker", "--tracker", f"tcp://127.0.0.1:{other[0]}", "--name", "w3", "--builders", "1",
                                         "--key", service.path("w1.key"), "--tracker-key", service.tracker_key))
    service.tracker.kill()
    service.http = other[1]
    wait_for("who stood by to serve", service.serves, 30)
    done = wait_for("the job to end", lambda: (lambda j: j["state"] not in ("queued", "running") and j)(service.job(job)))
    acknowledged.ask(job)
    check(done["state"] == "done", f"the job is {done['state']}: {done['message']}")
    trials = service.call("GET", f"/v1/jobs/{job}/trials?limit=10000", "alice")[1]["trials"]
    check(len([t for t in trials if t["purpose"] == "search"]) == TRIALS and len({t["id"] for t in trials}) == len(trials),
          "trials lost or doubled")
    leases = int(server.query("SELECT max(n) FROM (SELECT count(*) n FROM lease WHERE ending = 'result' GROUP BY trial) x"))
    check(leases == 1, f"a trial was recorded {leases} times")
    check(run("db", "check", "--db", service.database).endswith(": sound"), "the database is damaged")
    print(f"{len(acknowledged.told)} trials told of and kept through {len(idle)} + {cut} cut connections, a crash of the server "
          f"and {len(supervisor.codes)} ends of the tracker; {done['trials']} trials in all")


def main():
    with tempfile.TemporaryDirectory() as folder, Server() as server:
        service = Farm(folder, server.address)
        try:
            try_everything(service, server)
        except BaseException:
            print(service.said()[-20000:], file=sys.stderr)
            raise
        finally:
            for process in service.processes:
                process.kill()


if __name__ == "__main__":
    sys.exit(main())
