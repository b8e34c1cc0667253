#!/usr/bin/env python3
"""Attacks by files: databases, packs, lists of users, models: hostile_files_test.py TUNE

docs/attacks.md lists all attacks.
"""

import hashlib
import json
import os
import re
import resource
import shutil
import sqlite3
import subprocess
import tempfile
import time

from tracker_process import TUNE, Tracker, check, limited, run, wait_for


def code_in_a_database(folder):
    """A database as a present, with a trigger that improves what is measured."""
    path = folder + "/present.db"
    run("tracker", "--db", path, "--listen", "nowhere://", code=2)  # makes none
    with Tracker(folder) as tracker:
        made = tracker.path("tuning.db")
    with sqlite3.connect(made) as database:
        database.execute("CREATE TRIGGER gift AFTER INSERT ON measurement BEGIN "
                         "UPDATE measurement SET median = median / 2 WHERE id = new.id; END")
    for words in (["tracker", "--db", made, "--listen", f"ipc://{folder}/s"], ["query", "jobs", "--db", made],
                  ["--model", "dqn", "--trials", "1", "--db", made]):
        said = run(*words, code=2)
        check("trigger `gift`" in said and len(said.splitlines()) == 1, f"tune {words[0]} says {said!r}")


def strange_principals(folder):
    """A file of users that an editor, a copy or an attacker has spoilt: refused with its line; a running tracker keeps the
    users that it has."""
    good = run("token", "--name", "alice", "--out", f"{folder}/alice.token").encode()
    cases = {
        "zeros": good + b"\n\0\0\0\n",
        "half a letter": b"al\xc3 viewer " + b"0" * 64,
        "a line of 4 MiB": b"a " * (2 << 20),
        "a name of escapes": b"\x1b[31mroot admin",
        "another sign for a space": good.replace(b" ", b"\xc2\xa0"),
        "a byte order mark alone": b"\xef\xbb\xbf" + good.split()[0],
        "a key of 40 zeros": b"w worker curve:" + b"\0" * 40,
    }
    file = f"{folder}/principals"
    for what, text in cases.items():
        with open(file, "wb") as out:
            out.write(text)
        done = subprocess.run([TUNE, "tracker", "--db", f"{folder}/p.db", "--listen", f"ipc://{folder}/p", "--principals", file],
                              capture_output=True, timeout=20)
        said = done.stderr.decode(errors="replace")
        check(done.returncode == 2 and len(said.splitlines()) == 1 and f"{file}:" in said and len(said) < 2000,
              f"{what}: {done.returncode} {said[:300]}")
        check(not re.search(rb"[\x00-\x08\x0b-\x1f]", done.stderr), f"{what}: it says {done.stderr[:300]}")
    os.remove(file)
    os.mkfifo(file)
    said = run("tracker", "--db", f"{folder}/p.db", "--listen", f"ipc://{folder}/p", "--principals", file, code=2)
    check(said == f"error: {file} must be a file, which is read again when it changes", f"a pipe: {said}")
    os.remove(file)
    tracker = Tracker(folder)
    tracker.add_user("bob")
    with tracker:
        with open(file) as users:
            kept = users.read()
        for what, text in cases.items():
            with open(file, "wb") as out:
                out.write(text)
            time.sleep(0.6)
            check(tracker.call("GET", "/v1/status", user="bob")[0] == 200, f"{what}: a running tracker forgets its users")
        os.remove(file)
        os.mkfifo(file)
        time.sleep(0.6)
        check(tracker.call("GET", "/v1/status", user="bob")[0] == 200, "a running tracker waits for a pipe")
        os.remove(file)
        with open(file, "w") as users:
            users.write(kept)


def packs_that_are_none(folder):
    """What `tune db import` is pointed at is not what it says."""
    def pack(name, files):
        path = f"{folder}/{name}"
        os.mkdir(path)
        for file, text in files.items():
            if callable(text):
                text(f"{path}/{file}")
            else:
                with open(f"{path}/{file}", "w") as out:
                    out.write(text)
        return path

    def manifest(lines):
        names = ("devices.jsonl", "workloads.jsonl", "models.jsonl", "measurements.jsonl")
        return json.dumps({"format": "lathe-pack", "version": 1, "schema": 7,
                           "files": {name: {"lines": lines, "sha256": "0" * 64} for name in names}})

    def sparse(path):
        with open(path, "w") as out:
            out.truncate(8 << 30)  # a line of 8 GiB

    cases = {
        "zeros without end": {"manifest.json": manifest(1), "devices.jsonl": lambda path: os.symlink("/dev/zero", path)},
        "a pipe": {"manifest.json": manifest(1), "devices.jsonl": os.mkfifo},
        "a line of 8 GiB": {"manifest.json": manifest(1), "devices.jsonl": sparse},
        "a manifest without end": {"manifest.json": lambda path: os.symlink("/dev/zero", path)},
        "a manifest that is a pipe": {"manifest.json": os.mkfifo},
        "2^63 lines": {"manifest.json": manifest(2**63), "devices.jsonl": ""},
        "files elsewhere": {"manifest.json": manifest(1).replace("devices.jsonl", "../../../../etc/passwd")},
        "a folder as a file": {"manifest.json": manifest(0), "devices.jsonl": os.mkdir},
    }
    for number, (what, files) in enumerate(cases.items()):
        try:
            done = subprocess.run([TUNE, "db", "import", pack(f"pack{number}", files), "--db", f"{folder}/import.db"],
                                  capture_output=True, text=True, timeout=60, preexec_fn=limited)
        except subprocess.TimeoutExpired:
            raise SystemExit(f"FAILED: a pack of {what} is read for ever") from None
        check(done.returncode == 2 and done.stderr.startswith("error:"), f"{what}: {done.returncode} {done.stderr[:300]}")


def names_in_a_database(folder):
    """A database whose jobs are called as paths: nothing is made or read elsewhere."""
    with Tracker(folder) as tracker:
        made = tracker.path("tuning.db")
    request_text = json.dumps({"model": "dqn", "trials": 1})
    with open(f"{folder}/secret.lathe", "w") as secret:
        secret.write("secret")
    os.makedirs(f"{made}-files/jobs/00000000-0000-4000-8000-000000000000")  # paths through it lead somewhere
    with sqlite3.connect(made) as database:
        for uuid, name, state in (("../../../evil", "dqn", "queued"), ("/tmp/evil", "dqn", "running"),
                                  ("../../evil", "dqn", "done"),
                                  ("0" * 8 + "-0000-4000-8000-" + "0" * 12, "../../../secret", "done")):
            database.execute("INSERT INTO served_job(uuid, owner, model_name, request, priority, weight, state, created_ms) "
                             "VALUES(?, 'local', ?, ?, 0, 1, ?, 0)", (uuid, name, request_text, state))
    with Tracker(folder) as tracker:
        time.sleep(2)
        check(tracker.call("GET", "/v1/jobs")[0] == 200, "a job's name keeps all from being listed")
        found = tracker.call("GET", "/v1/jobs/00000000-0000-4000-8000-000000000000/module")
        check(found[0] == 409, f"a module elsewhere: {found}")
        check(tracker.call("GET", "/v1/jobs/..%2f..%2fevil/report")[0] in (400, 404, 500), "a report elsewhere")
    for place in (f"{folder}/evil", "/tmp/evil", os.path.dirname(folder) + "/evil"):
        check(not os.path.exists(place), f"{place} was made")


def a_damaged_job(folder):
    """One job whose request in the database is not what this program writes: others list, upload and submit as ever."""
    with Tracker(folder) as tracker:
        for request_text in ("[" * 100000, "7", '{"model": 7}', '{"model": "dqn", "model_digest": ["x"]}', "",
                             '{"model": "dqn", "trials": 1e300}', '{"model": "dqn", "trials": 18446744073709551615}',
                             '{"model": "dqn", "trials": 1, "needs": 5}', '{"model": "dqn", "trials": 1, "needs": {"colour": "red"}}'):
            job = tracker.call("POST", "/v1/jobs", '{"model": "dqn", "trials": 1}')[1]["id"]
            with sqlite3.connect(tracker.path("tuning.db")) as database:
                database.execute("UPDATE served_job SET request = ? WHERE uuid = ?", (request_text, job))
            model = ("no model " + request_text[:20]).encode()
            digest = hashlib.sha256(model).hexdigest()
            for what, answer in (("list", tracker.call("GET", "/v1/jobs")),
                                 ("upload", tracker.call("PUT", "/v1/blobs/" + digest, model)),
                                 ("submit", tracker.call("POST", "/v1/jobs", '{"model": "dqn", "trials": 1}'))):
                check(answer[0] in (200, 201), f"beside a job that asks for {request_text[:20]!r}, {what}: {answer}")
            check(tracker.call("POST", f"/v1/jobs/{job}/cancel")[0] == 200, "it cannot be cancelled")
        check(tracker.process.poll() is None, "the tracker has ended")


def files_of_two_trackers(folder):
    """A second tracker in the files of a first would remove uploads that are under way."""
    with Tracker(folder, "--files", f"{folder}/files"):
        said = run("tracker", "--db", f"{folder}/other.db", "--listen", f"ipc://{folder}/o", "--http", "127.0.0.1:0", "--files",
                   f"{folder}/files", code=5)
        check("in use by another tracker" in said.splitlines()[-1], f"a second tracker says {said!r}")


def models_of_others(folder):
    """A folder of models that somebody else has filled: under a digest lie other bytes, a link, a folder, a pipe."""
    def relay(operator):
        return f"def @main(%x: Tensor[(1, 4), float32]) -> Tensor[(1, 4), float32] {{ nn.{operator}(%x) }}\n".encode()

    model, digest = relay("relu"), hashlib.sha256(relay("relu")).hexdigest()
    with Tracker(folder) as tracker:
        check(tracker.call("PUT", f"/v1/blobs/{digest}", model)[0] == 201, "a model is not taken")
    blobs = f"{folder}/tuning.db-files/blobs"
    with open(f"{blobs}/{digest}", "wb") as file:
        file.write(relay("softmax"))
    os.symlink("/etc/passwd", f"{blobs}/{'a' * 64}")
    os.mkdir(f"{blobs}/{'b' * 64}")
    os.mkfifo(f"{blobs}/{'c' * 64}")
    with Tracker(folder) as tracker:
        for name in "abc":
            check(tracker.call("GET", f"/v1/blobs/{name * 64}")[0] == 404, f"what is no file is a model: {name}")
        worker = subprocess.Popen([TUNE, "worker", "--tracker", tracker.listen, "--builders", "1"], stderr=subprocess.DEVNULL)
        try:
            request = {"model": "m.relay", "model_digest": digest, "target": "cpu", "trials": 4}
            job = tracker.call("POST", "/v1/jobs", json.dumps(request))[1]
            ended = wait_for("the job's end", lambda: (lambda j: j["state"] in ("done", "failed") and j)(
                tracker.call("GET", f"/v1/jobs/{job['id']}")[1]))
        finally:
            worker.terminate()
            worker.wait(20)
        check(ended["state"] == "failed" and "is not what was uploaded" in ended["message"],
              f"of other bytes the job is {ended['state']}: {ended['message']}")


def read_only_folders(folder):
    """A database on a read-only file system, and a backup onto one: said as what it is, and nothing else is harmed."""
    with open(f"{folder}/m.relay", "w") as file:
        file.write("def @main(%x: Tensor[(1, 4), float32]) -> Tensor[(1, 4), float32] { nn.relu(%x) }\n")
    run("--model", f"{folder}/m.relay", "--trials", "1", "--db", f"{folder}/t.db", "--out", f"{folder}/out", "--quiet")
    mount = f"mkdir -p {folder}/ro && mount -t tmpfs none {folder}/ro && cp {folder}/t.db {folder}/ro && " \
            f"mount -o remount,ro {folder}/ro"
    if subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True).returncode != 0:
        return print("no mounts here: read-only file systems are not tried")
    open_it = f"cannot open database {folder}/ro/t.db: its log belongs beside it, and that folder cannot be written " \
              "(Read-only file system); copy it to one that can"
    for code, words, said in ((2, f"query jobs --db {folder}/ro/t.db", open_it),
                              (5, f"tracker --db {folder}/ro/t.db --listen ipc://{folder}/socket", open_it),
                              (2, f"db backup {folder}/ro/b.db --db {folder}/t.db",
                               f"cannot write {folder}/ro/b.db: Read-only file system")):
        done = subprocess.run(["unshare", "-rm", "sh", "-c", f"{mount} && exec {TUNE} {words}"], capture_output=True,
                              text=True, timeout=60)
        check(done.returncode == code and done.stderr == f"error: {said}\n",
              f"tune {words}: {done.returncode} {done.stderr}")


def a_database_that_goes(folder):
    """The file of a tracker's database is removed, or another takes its place, or that of its locks is taken for a stale one: the
    tracker ends before it acknowledges what nobody could find again, or what another does as well, and makes no other one."""
    with Tracker(folder) as tracker:
        os.remove(tracker.path("tuning.db-claims"))
        code = wait_for("the tracker's end", lambda: tracker.process.poll())
        check(code == 5, f"without its locks a tracker ends with {code}")
    for replaced in (False, True):
        with Tracker(folder) as tracker:
            os.rename(tracker.path("tuning.db"), tracker.path("gone.db"))
            if replaced:
                shutil.copy(tracker.path("gone.db"), tracker.path("tuning.db"))
            code = wait_for("the tracker's end", lambda: tracker.process.poll())
            check(code == 5, f"without its database a tracker ends with {code}")
        check(os.path.exists(tracker.path("tuning.db")) == replaced, "a tracker makes a database in the place of its own")


def full_disks(folder):
    """Whatever is written onto a full disk: one message that says so, and exit code 4. A worker whose temporary files lie there
    blames no candidate."""
    with open(f"{folder}/m.relay", "w") as file:
        file.write("def @main(%x: Tensor[(1, 4), float32]) -> Tensor[(1, 4), float32] { nn.relu(%x) }\n")
    job = f"--model {folder}/m.relay --threads 1 --trials 1 --quiet"
    run(*job.split(), "--db", f"{folder}/full.db", "--out", f"{folder}/out")
    run("db", "export", f"{folder}/pack", "--db", f"{folder}/full.db")
    full = f"{folder}/disk"
    mount = f"mkdir -p {full} && mount -t tmpfs -o size=64k none {full} && mkdir {full}/in"
    if subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True).returncode != 0:
        return print("no mounts here: full disks are not tried")
    mount += f" && {{ head -c 1M /dev/zero > {full}/filler; true; }} 2>/dev/null"
    grow = f"database {full}/in/t.db can't grow: the disk or a quota is full"
    for place, words, said in (("/tmp", f"db export {full}/in/pack --db {folder}/full.db", "devices.jsonl: No space left on device"),
                               ("/tmp", f"db import {folder}/pack --db {full}/in/t.db", grow),
                               ("/tmp", f"{job} --db {full}/in/t.db --out {folder}/o", grow),
                               ("/tmp", f"man --out {full}/in/man", "tune.1: No space left on device"),
                               (f"{full}/in", f"{job} --db {folder}/room.db --out {folder}/o", "can build or run nothing")):
        done = subprocess.run(["unshare", "-rm", "sh", "-c", f"{mount} && TMPDIR={place} exec {TUNE} {words}"], capture_output=True,
                              text=True, timeout=100)
        last = done.stderr.splitlines()[-1:]
        check(done.returncode == 4 and last and last[0].startswith("error: ") and said in last[0],
              f"TMPDIR={place} tune {words}: {done.returncode} {done.stderr}")
    with sqlite3.connect(f"{folder}/room.db") as database:
        outcomes = database.execute("SELECT outcome FROM trial").fetchall()
    check(outcomes == [(None,)], f"of a machine without room trials end as {outcomes}")


def no_linker(folder):
    """A worker whose linker is gone, as while a package is replaced: each candidate failed at once as one that cannot be built,
    faster than any worker measures, until all budgets were spent. It blames no candidate, and drains."""
    with open(f"{folder}/m.relay", "w") as file:
        file.write("def @main(%x: Tensor[(1, 4), float32]) -> Tensor[(1, 4), float32] { nn.relu(%x) }\n")
    job = f"--model {folder}/m.relay --threads 1 --trials 1 --quiet --db {folder}/t.db --out {folder}/o"
    done = subprocess.run([TUNE, *job.split()], capture_output=True, text=True, timeout=100, env={**os.environ, "PATH": folder})
    check(done.returncode == 4 and "can build or run nothing" in done.stderr and "there is no `ld`" in done.stderr,
          f"without a linker: {done.returncode} {done.stderr}")
    with sqlite3.connect(f"{folder}/t.db") as database:
        outcomes = database.execute("SELECT outcome FROM trial").fetchall()
    check(outcomes == [(None,)], f"of a machine without a linker trials end as {outcomes}")


def few_means(folder):
    """Limits of the process (ulimit): on the size of files, as a full disk; on how many are open, as no machine to work on. One
    message, exit code 4, and what was recorded is there."""
    with open(f"{folder}/m.relay", "w") as file:
        file.write("def @main(%x: Tensor[(1, 4), float32]) -> Tensor[(1, 4), float32] { nn.relu(%x) }\n")
    job = f"--model {folder}/m.relay --threads 1 --trials 1 --quiet --db {folder}/t.db --out {folder}/out"
    run(*job.split())
    few = "files and sockets open, and needs"
    for limit, most, words, said in (
            (resource.RLIMIT_FSIZE, 4096, job, f"database {folder}/t.db can't grow"),
            (resource.RLIMIT_FSIZE, 65536, f"db backup {folder}/copy.db --db {folder}/t.db", f"{folder}/copy.db"),
            (resource.RLIMIT_FSIZE, 4096, f"man --out {folder}/man", "File too large"),
            (resource.RLIMIT_NOFILE, 6, f"db backup {folder}/copy.db --db {folder}/t.db", few),
            (resource.RLIMIT_NOFILE, 6, f"db export {folder}/pack --db {folder}/t.db", few),
            (resource.RLIMIT_NOFILE, 8, job, few), (resource.RLIMIT_NOFILE, 20, job, few),
            (resource.RLIMIT_NOFILE, 20, f"worker --tracker ipc://{folder}/none", few),
            (resource.RLIMIT_NOFILE, 20, f"tracker --db {folder}/t.db --listen ipc://{folder}/s", few)):
        done = subprocess.run([TUNE, *words.split()], capture_output=True, text=True, timeout=100,
                              preexec_fn=lambda limit=limit, most=most: resource.setrlimit(limit, (most, most)))
        last = done.stderr.splitlines()[-1:]
        check(done.returncode == 4 and last and last[0].startswith("error: ") and said in last[0],
              f"with {most} of limit {limit} tune {words}: {done.returncode} {done.stderr}")
    check(not [name for name in os.listdir(folder) if "partial" in name], f"left {os.listdir(folder)}")
    with sqlite3.connect(f"{folder}/t.db") as database:
        check(database.execute("PRAGMA integrity_check").fetchall() == [("ok",)], "the database is damaged")
        check(database.execute("SELECT count(*) FROM measurement").fetchone()[0] > 0, "what was recorded is gone")


def files_that_go(folder):
    """The folder of a tracker's files is removed under it: it ends before a search fails for that; its jobs go on with the next
    tracker, and one whose model went with it says what to do."""
    with open(f"{folder}/m.relay", "w") as file:
        file.write("def @main(%x: Tensor[(1, 4), float32]) -> Tensor[(1, 4), float32] { nn.relu(%x) }\n")
    with Tracker(folder) as tracker:
        address = f"http://127.0.0.1:{tracker.port}"
        jobs = [run("submit", "--tracker", address, "--model", model, "--trials", "1") for model in ("dqn", f"{folder}/m.relay")]
        shutil.rmtree(tracker.path("tuning.db-files"))
        code = wait_for("the tracker's end", lambda: tracker.process.poll())
        check(code == 5, f"without its files a tracker ends with {code}")
        with open(tracker.path("log")) as log:
            check("was removed, or emptied, while this tracker uses it" in log.read(), "it does not say why")
        tracker.start()
        check([tracker.call("GET", f"/v1/jobs/{job}")[1]["state"] for job in jobs] == ["queued", "queued"], "a job is lost")
        worker = subprocess.Popen([TUNE, "worker", "--tracker", tracker.listen], stderr=subprocess.DEVNULL)
        try:
            stopped = wait_for("the job without its model",
                               lambda: (job := tracker.call("GET", f"/v1/jobs/{jobs[1]}")[1])["state"] == "stopped" and job)
            check("lost its model, m.relay: submit that again" in stopped["message"], f"it says {stopped['message']}")
            run("cancel", "--tracker", address, jobs[0])
            again = run("submit", "--tracker", address, "--model", f"{folder}/m.relay", "--trials", "2")
            run("resume", "--tracker", address, jobs[1])
            for job in (jobs[1], again):
                wait_for("the jobs' end", lambda job=job: tracker.call("GET", f"/v1/jobs/{job}")[1]["state"] == "done")
        finally:
            worker.terminate()
            worker.wait(30)


def deep_models(folder):
    """A model whose text nests without end."""
    deep = 200000
    for what, body in {"parentheses": "(" * deep + "%x" + ")" * deep, "calls": "nn.relu(" * deep + "%x" + ")" * deep,
                       "lets": "".join(f"let %a{i} = %x;\n" for i in range(deep)) + "%x",
                       "functions": "fn (%a) { " * deep + "%x" + "}" * deep, "tuples": "(" * deep + "%x" + ",)" * deep,
                       "ifs": "if (%c) { " * deep + "%x"}.items():
        with open(f"{folder}/deep.relay", "w") as file:
            file.write("def @main(%x: Tensor[(1, 4), float32]) -> Tensor[(1, 4), float32] { " + body + " }\n")
        try:
            done = subprocess.run([TUNE, "compile", "--untuned", "--model", f"{folder}/deep.relay", "--out", f"{folder}/deep.lathe"],
                                  capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            raise SystemExit(f"FAILED: {deep} {what} in a model are read for ever") from None
        check(done.returncode in (0, 2), f"{deep} {what}: {done.returncode} {done.stderr[:300]}")


def main():
    attacks = (code_in_a_database, strange_principals, packs_that_are_none, names_in_a_database, a_damaged_job,
               files_of_two_trackers, models_of_others, read_only_folders, a_database_that_goes, full_disks,
               no_linker, few_means, files_that_go, deep_models)
    for attack in attacks:
        with tempfile.TemporaryDirectory() as folder:
            attack(folder)
    print(f"{len(attacks)} attacks held off")


if __name__ == "__main__":
    main()
