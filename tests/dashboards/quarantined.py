"""quarantined.py DATABASE: adds a candidate that took two workers away to the first job of a tracker's database."""
import sqlite3
import sys

with sqlite3.connect(sys.argv[1], timeout=10) as db:
    (job, task, target, trace, worker), = db.execute(
        "SELECT trial.job, workload, target, trace, worker FROM trial JOIN candidate ON candidate.id = candidate"
        " JOIN lease ON lease.trial = trial.id ORDER BY trial.id LIMIT 1")
    candidate = db.execute("INSERT INTO candidate(digest, workload, target, program, trace) VALUES('poison', ?, ?, '', ?)",
                           (task, target, trace)).lastrowid
    other = db.execute("INSERT INTO worker(name, seen_ms) VALUES('lost/1', 0)").lastrowid
    trial = db.execute("INSERT INTO trial(job, candidate, purpose, threads, settings, state, predicted, outcome, error, signal, created_ms,"
                       " ended_ms) VALUES(?, ?, 'search', 1, '{}', 'quarantined', 0, 'worker_lost', 'its last words', 11, 1000, 9000)",
                       (job, candidate)).lastrowid
    # Of no life of the tracker (Farm: lease_id): the next numbers are those that it is about to give out.
    for attempt, who in enumerate((worker, other, worker), start=1):
        db.execute("INSERT INTO lease(id, trial, attempt, worker, epoch, granted_ms, ended_ms, ending)"
                   " VALUES(?1, ?2, ?1, ?3, 0, ?4, ?4 + 500, 'lost')", (attempt, trial, who, 1000 * attempt))
