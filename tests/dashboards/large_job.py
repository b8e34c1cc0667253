"""large_job.py DATABASE TRIALS: adds a job that is done, with so many measured trials and an event of progress for every
five, to a database that a tracker has made. Prints the job's uuid."""
import json
import random
import sqlite3
import sys

path, trials = sys.argv[1], int(sys.argv[2])
random.seed(1)
db = sqlite3.connect(path)
uuid = "00000000-0000-4000-8000-000000000001"
tasks = 20
with db:
    run = db.execute
    run("INSERT INTO target VALUES(1, 'cpu', 'x86_64', '')")
    run("INSERT INTO device VALUES(1, 'print', 'host', 'Model', 'x86_64', '', 2, 1, '', '{}', 0)")
    run("INSERT INTO worker(id, name, device, seen_ms) VALUES(1, 'host/0', 1, 0)")
    run("INSERT INTO model VALUES(1, 'large', 'digest', 0)")
    run("INSERT INTO job(id, uuid, kind, state, model, target, threads, trial_budget, second_budget, seed, options, created_ms, updated_ms)"
        " VALUES(1, ?, 'tune', 'done', 1, 1, 1, ?, 0, 0, '{}', 0, 0)", (uuid, trials))
    for i in range(1, tasks + 1):
        run("INSERT INTO workload VALUES(?, ?, 'text', 1e6, 1e5)", (i, f"digest{i}"))
        run("INSERT INTO job_task(job, position, workload, weight, trials, best_seconds) VALUES(1, ?, ?, 1, ?, 1e-5)", (i, i, trials // tasks))
    run("INSERT INTO served_job(id, uuid, owner, model_name, request, priority, weight, state, job, device_class, created_ms, started_ms, ended_ms)"
        " VALUES(1, ?, 'local', 'large', ?, 0, 1, 'done', 1, 'Model, 2 cores', 1, 2, 3)",
        (uuid, json.dumps({"model": "large", "target": "cpu", "trials": trials, "threads": 1, "seed": 0, "precision": "given"})))
    tell = lambda kind, body: run("INSERT INTO event(job, served_job, kind, body, created_ms) VALUES(1, 1, ?, ?, 0)", (kind, json.dumps(body)))
    tell("tasks", {"tasks": [{"name": f"task_{i}", "digest": f"digest{i}", "calls": 1, "flops": 1e6, "bytes": 1e5, "limit": "compute",
                              "limit_seconds": 1e-5} for i in range(1, tasks + 1)], "peak_flops": 1e11, "bandwidth": 3e10})
    best = 1e-3
    for i in range(1, trials + 1):
        workload = i % tasks + 1
        seconds = 2e-5 * random.lognormvariate(0.5, 0.6)
        run("INSERT INTO candidate VALUES(?, ?, ?, 1, ?, '{\"steps\":[]}')", (i, f"c{i}", workload, f"p{i}"))
        run("INSERT INTO trial(id, job, candidate, purpose, threads, settings, state, predicted, outcome, error, signal, lease,"
            " created_ms, ended_ms) VALUES(?, 1, ?, 'search', 1, '{}', 'done', ?, 'ok', '', 0, ?, 0, 1000)", (i, i, random.random(), i))
        run("INSERT INTO lease VALUES(?, ?, 1, 1, 1, 10, 1000, 'result')", (i, i))
        run("INSERT INTO measurement(candidate, workload, target, device, threads, trial, worker, seconds, median, p25, min, mad, n, samples,"
            " relative_error, compiler, revision, recorded_ms) VALUES(?, ?, 1, 1, 1, ?, 1, ?, ?, ?, ?, 1e-7, 4, zeroblob(16), 0, '', '', ?)",
            (i, workload, i, seconds, seconds, seconds, seconds, i * 100))
        if i % 5 == 0:
            best *= 0.99995
            tell("progress", {"seconds": i / 10, "trials": i, "budget": trials, "seconds_left": 0, "model_seconds": best,
                              "default_model_seconds": 1e-3, "samples": i, "rank_correlation": 0.5, "recall": 0.5})
    tell("task_state", [[trials // tasks, 1e-5, 2e-5, 0, False]] * tasks)
print(uuid)
