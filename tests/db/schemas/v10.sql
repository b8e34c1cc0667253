-- A database as a program of schema version 10 left it; written by `sqlite3 FILE .dump`.
PRAGMA application_id = 1279349832;
PRAGMA user_version = 10;
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE target(
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  architecture TEXT NOT NULL,
  features TEXT NOT NULL
) STRICT;
INSERT INTO target VALUES(1,'cpu:x','x86_64','avx2,fma');
CREATE TABLE device(
  id INTEGER PRIMARY KEY,
  fingerprint TEXT NOT NULL UNIQUE,
  host TEXT NOT NULL,
  model TEXT NOT NULL,
  architecture TEXT NOT NULL,
  features TEXT NOT NULL,
  cores INTEGER NOT NULL,
  memory_bytes INTEGER NOT NULL,
  system TEXT NOT NULL,
  details TEXT NOT NULL,
  seen_ms INTEGER NOT NULL
) STRICT;
INSERT INTO device VALUES(1,'0f0b','h','m','x86_64','avx2,fma',2,1024,'Linux 6.1','{}',1000);
CREATE TABLE worker(
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  device INTEGER REFERENCES device,
  seen_ms INTEGER NOT NULL
, drained INTEGER NOT NULL DEFAULT 0 CHECK(drained IN (0, 1))) STRICT;
INSERT INTO worker VALUES(1,'w',1,1000,0);
CREATE TABLE epoch(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  begun_ms INTEGER NOT NULL
) STRICT;
INSERT INTO epoch VALUES(1,1000);
CREATE TABLE model(
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  digest TEXT NOT NULL,
  added_ms INTEGER NOT NULL,
  UNIQUE(name, digest)
) STRICT;
INSERT INTO model VALUES(1,'net','d',1000);
CREATE TABLE workload(
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  text TEXT NOT NULL,
  flops REAL NOT NULL,
  bytes REAL NOT NULL
) STRICT;
INSERT INTO workload VALUES(1,'mm','func mm',100.0,10.0);
CREATE TABLE model_task(
  model INTEGER NOT NULL REFERENCES model,
  target INTEGER NOT NULL REFERENCES target,
  position INTEGER NOT NULL,
  workload INTEGER NOT NULL REFERENCES workload,
  name TEXT NOT NULL,
  calls INTEGER NOT NULL CHECK(calls > 0),
  PRIMARY KEY(model, target, position),
  UNIQUE(model, target, workload)
) STRICT, WITHOUT ROWID;
INSERT INTO model_task VALUES(1,1,0,1,'dense',2);
CREATE TABLE job(
  id INTEGER PRIMARY KEY,
  uuid TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  state TEXT NOT NULL CHECK(state IN ('queued', 'running', 'stopped', 'done', 'failed', 'cancelled')),
  model INTEGER REFERENCES model,
  target INTEGER NOT NULL REFERENCES target,
  threads INTEGER NOT NULL,
  trial_budget INTEGER NOT NULL,
  second_budget REAL NOT NULL,
  seconds_used REAL NOT NULL DEFAULT 0,
  seed INTEGER NOT NULL,
  options TEXT NOT NULL,
  idempotency_key TEXT UNIQUE,
  message TEXT NOT NULL DEFAULT '',
  created_ms INTEGER NOT NULL,
  updated_ms INTEGER NOT NULL
) STRICT;
INSERT INTO job VALUES(1,'3f2a91c0-0000-4000-8000-000000000000','tune','running',1,1,1,8,0.0,1.5,7,'{}',NULL,'',1000,1000);
CREATE TABLE job_task(
  job INTEGER NOT NULL REFERENCES job,
  position INTEGER NOT NULL,
  workload INTEGER NOT NULL REFERENCES workload,
  weight REAL NOT NULL,
  trials INTEGER NOT NULL DEFAULT 0,
  round INTEGER NOT NULL DEFAULT 0,
  best_seconds REAL,
  checkpoint BLOB,
  PRIMARY KEY(job, position),
  UNIQUE(job, workload)
) STRICT;
INSERT INTO job_task VALUES(1,0,1,2.0,2,1,0.0010000000000000000208,X'00');
CREATE TABLE candidate(
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  workload INTEGER NOT NULL REFERENCES workload,
  target INTEGER NOT NULL REFERENCES target,
  program TEXT NOT NULL,
  trace TEXT NOT NULL
) STRICT;
INSERT INTO candidate VALUES(1,'c1',1,1,'p1','fast');
INSERT INTO candidate VALUES(2,'c2',1,1,'p2','slow');
INSERT INTO candidate VALUES(3,'c3',1,1,'p3','open');
CREATE TABLE trial(
  id INTEGER PRIMARY KEY,
  job INTEGER NOT NULL REFERENCES job,
  candidate INTEGER NOT NULL REFERENCES candidate,
  purpose TEXT NOT NULL CHECK(purpose IN ('search', 'confirm')),
  threads INTEGER NOT NULL,
  settings TEXT NOT NULL,
  state TEXT NOT NULL CHECK(state IN ('pending', 'leased', 'done', 'failed', 'quarantined', 'cancelled')),
  predicted REAL NOT NULL,
  outcome TEXT CHECK((outcome IS NOT NULL) = (state IN ('done', 'failed', 'quarantined'))),
  error TEXT NOT NULL DEFAULT '',
  signal INTEGER NOT NULL DEFAULT 0,
  lease INTEGER,
  created_ms INTEGER NOT NULL,
  ended_ms INTEGER
, tells INTEGER NOT NULL DEFAULT 0 CHECK(tells IN (0, 1))) STRICT;
INSERT INTO trial VALUES(1,1,1,'search',1,'{}','done',0.0,'ok','',0,1,1000,1001,0);
INSERT INTO trial VALUES(2,1,2,'search',1,'{}','done',0.0,'ok','',0,2,1000,1001,0);
INSERT INTO trial VALUES(3,1,3,'search',1,'{}','pending',0.0,NULL,'',0,NULL,1000,NULL,0);
CREATE TABLE lease(
  id INTEGER PRIMARY KEY,
  trial INTEGER NOT NULL REFERENCES trial,
  attempt INTEGER NOT NULL,
  worker INTEGER NOT NULL REFERENCES worker,
  epoch INTEGER NOT NULL,
  granted_ms INTEGER NOT NULL,
  ended_ms INTEGER,
  ending TEXT CHECK(ending IN ('result', 'lost', 'returned')),
  CHECK((ended_ms IS NULL) = (ending IS NULL))
) STRICT;
INSERT INTO lease VALUES(1,1,1,1,1,1000,1001,'result');
INSERT INTO lease VALUES(2,2,1,1,1,1000,1001,'result');
CREATE TABLE measurement(
  id INTEGER PRIMARY KEY,
  candidate INTEGER NOT NULL REFERENCES candidate,
  workload INTEGER NOT NULL REFERENCES workload,
  target INTEGER NOT NULL REFERENCES target,
  device INTEGER NOT NULL REFERENCES device,
  threads INTEGER NOT NULL,
  trial INTEGER UNIQUE REFERENCES trial,
  worker INTEGER REFERENCES worker,
  seconds REAL NOT NULL CHECK(seconds > 0),
  median REAL NOT NULL,
  p25 REAL NOT NULL,
  min REAL NOT NULL,
  mad REAL NOT NULL,
  n INTEGER NOT NULL CHECK(n > 0),
  samples BLOB NOT NULL,
  relative_error REAL NOT NULL,
  compiler TEXT NOT NULL,
  revision TEXT NOT NULL,
  recorded_ms INTEGER NOT NULL,
  confirmed INTEGER NOT NULL DEFAULT 0 CHECK(confirmed IN (0, 1)),
  suspect INTEGER NOT NULL DEFAULT 0 CHECK(suspect IN (0, 1)), imported_ms INTEGER, confirmed_elsewhere INTEGER NOT NULL DEFAULT 0
  CHECK(confirmed_elsewhere IN (0, 1)), clock_hz REAL CHECK(clock_hz > 0), disturbed REAL CHECK(disturbed BETWEEN 0 AND 1), told_seconds REAL CHECK(told_seconds > 0), canary REAL CHECK(canary >= 0), celsius REAL CHECK(celsius BETWEEN -273.15 AND 10000), timer_seconds REAL CHECK(timer_seconds BETWEEN 0 AND 1), driver TEXT NOT NULL DEFAULT '',
  UNIQUE(candidate, device, threads)
) STRICT;
INSERT INTO measurement VALUES(1,1,1,1,1,1,1,1,0.001953125,0.0009765625,0.0009765625,0.0009765625,0.0,1,X'0000803a',0.0,'llvm','r',1001,1,0,NULL,0,NULL,NULL,0.001953125,NULL,NULL,NULL,'');
INSERT INTO measurement VALUES(2,2,1,1,1,1,2,1,0.0078125,0.0078125,0.0078125,0.0078125,0.0,1,X'0000003c',0.0,'llvm','r',1001,0,0,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,'');
CREATE TABLE confirmation(
  id INTEGER PRIMARY KEY,
  measurement INTEGER NOT NULL REFERENCES measurement,
  median REAL NOT NULL,
  p25 REAL NOT NULL,
  min REAL NOT NULL,
  mad REAL NOT NULL,
  n INTEGER NOT NULL CHECK(n > 0),
  samples BLOB NOT NULL,
  recorded_ms INTEGER NOT NULL
, worker INTEGER REFERENCES worker, suspect INTEGER NOT NULL DEFAULT 0 CHECK(suspect IN (0, 1)), tells INTEGER NOT NULL DEFAULT 0 CHECK(tells IN (0, 1)), clock_hz REAL CHECK(clock_hz > 0), disturbed REAL CHECK(disturbed BETWEEN 0 AND 1), canary REAL CHECK(canary >= 0), celsius REAL CHECK(celsius BETWEEN -273.15 AND 10000), timer_seconds REAL CHECK(timer_seconds BETWEEN 0 AND 1), driver TEXT NOT NULL DEFAULT '') STRICT;
INSERT INTO confirmation VALUES(1,1,0.001953125,0.001953125,0.001953125,0.0,1,X'0000003b',1002,NULL,0,0,NULL,NULL,NULL,NULL,NULL,'');
CREATE TABLE artifact(
  id INTEGER PRIMARY KEY,
  candidate INTEGER NOT NULL REFERENCES candidate,
  compiler TEXT NOT NULL,
  digest TEXT NOT NULL,
  used_ms INTEGER NOT NULL,
  UNIQUE(candidate, compiler)
) STRICT;
INSERT INTO artifact VALUES(1,1,'llvm','a',1001);
CREATE TABLE cost_model(
  id INTEGER PRIMARY KEY,
  job INTEGER REFERENCES job,
  target INTEGER NOT NULL REFERENCES target,
  round INTEGER NOT NULL,
  samples INTEGER NOT NULL,
  spearman REAL NOT NULL,
  recall REAL NOT NULL,
  model BLOB NOT NULL,
  created_ms INTEGER NOT NULL
) STRICT;
INSERT INTO cost_model VALUES(1,1,1,1,2,0.5,0.5,X'00',1002);
CREATE TABLE event(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  job INTEGER REFERENCES job,
  kind TEXT NOT NULL,
  body TEXT NOT NULL,
  created_ms INTEGER NOT NULL
, served_job INTEGER REFERENCES served_job) STRICT;
INSERT INTO event VALUES(1,1,'result','{}',1001,NULL);
CREATE TABLE choice(
  id INTEGER PRIMARY KEY,
  model_digest TEXT NOT NULL,
  target INTEGER NOT NULL REFERENCES target,
  threads INTEGER NOT NULL,
  max_relative_error REAL NOT NULL,
  seconds_before REAL NOT NULL,
  seconds_after REAL NOT NULL,
  chosen_ms INTEGER NOT NULL,
  UNIQUE(model_digest, target, threads, max_relative_error)
) STRICT;
INSERT INTO choice VALUES(1,'d',1,1,0.00010000000000000000479,0.5,0.25,2000);
CREATE TABLE choice_task(
  choice INTEGER NOT NULL REFERENCES choice ON DELETE CASCADE,
  workload INTEGER NOT NULL REFERENCES workload,
  measurement INTEGER NOT NULL REFERENCES measurement,
  PRIMARY KEY(choice, workload)
) STRICT, WITHOUT ROWID;
INSERT INTO choice_task VALUES(1,1,2);
CREATE TABLE machine(
  device INTEGER NOT NULL REFERENCES device,
  target TEXT NOT NULL,
  numbers TEXT NOT NULL,
  measured_ms INTEGER NOT NULL,
  PRIMARY KEY(device, target)
) STRICT, WITHOUT ROWID;
INSERT INTO machine VALUES(1,'cpu:x','latency=4',1000);
CREATE TABLE served_job(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  uuid TEXT NOT NULL UNIQUE,
  owner TEXT NOT NULL,
  model_name TEXT NOT NULL,
  request TEXT NOT NULL,
  priority INTEGER NOT NULL,
  weight REAL NOT NULL CHECK(weight > 0),
  state TEXT NOT NULL CHECK(state IN ('queued', 'running', 'stopped', 'done', 'failed', 'cancelled')),
  message TEXT NOT NULL DEFAULT '',
  device_class TEXT NOT NULL DEFAULT '',
  report TEXT NOT NULL DEFAULT '',
  job INTEGER UNIQUE REFERENCES job,
  crashes INTEGER NOT NULL DEFAULT 0,
  idempotency_key TEXT,
  created_ms INTEGER NOT NULL,
  started_ms INTEGER NOT NULL DEFAULT 0,
  ended_ms INTEGER NOT NULL DEFAULT 0, kept_bytes INTEGER NOT NULL DEFAULT 0 CHECK(kept_bytes >= 0),
  UNIQUE(owner, idempotency_key)
) STRICT;
INSERT INTO served_job VALUES(1,'00000000-0000-4000-8000-000000000004','alice','net','{}',0,1.0,'queued','','','',NULL,0,NULL,4,0,0,4096);
CREATE TABLE foreign_record(
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  format TEXT NOT NULL CHECK(format IN ('autotvm', 'metaschedule')),
  workload TEXT NOT NULL,
  workload_key TEXT NOT NULL,
  arguments TEXT NOT NULL,
  target TEXT NOT NULL,
  schedule TEXT NOT NULL,
  seconds REAL CHECK(seconds > 0),
  n INTEGER NOT NULL,
  measured_ms INTEGER,
  imported_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE model_latency(
  id INTEGER PRIMARY KEY,
  model_digest TEXT NOT NULL,
  target INTEGER NOT NULL REFERENCES target,
  threads INTEGER NOT NULL,
  seconds REAL NOT NULL CHECK(seconds > 0),
  low REAL NOT NULL,
  high REAL NOT NULL,
  n INTEGER NOT NULL CHECK(n > 0),
  recorded_ms INTEGER NOT NULL,
  CHECK(low <= seconds AND seconds <= high)
) STRICT;
INSERT INTO model_latency VALUES(1,'d',1,1,0.0020000000000000000416,0.0010000000000000000208,0.0030000000000000000624,5,5);
CREATE TABLE canary(
  worker INTEGER PRIMARY KEY REFERENCES worker,
  device_class TEXT NOT NULL,
  kernels INTEGER NOT NULL,
  compute_seconds REAL NOT NULL,
  compute_tolerance REAL NOT NULL,
  compute_drift REAL NOT NULL,
  memory_seconds REAL NOT NULL,
  memory_tolerance REAL NOT NULL,
  memory_drift REAL NOT NULL,
  suspect TEXT NOT NULL,
  good_ms INTEGER NOT NULL,
  taken_ms INTEGER NOT NULL
) STRICT;
INSERT INTO canary VALUES(1,'c',1,1.0000000000000000817e-05,0.050000000000000002775,0.0,2.0000000000000001634e-05,0.050000000000000002775,0.0,'',1000,1000);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('epoch',1);
INSERT INTO sqlite_sequence VALUES('event',1);
INSERT INTO sqlite_sequence VALUES('served_job',1);
CREATE UNIQUE INDEX trial_once ON trial(job, candidate) WHERE purpose = 'search';
CREATE INDEX trial_of_job ON trial(job, id);
CREATE INDEX trial_open ON trial(id) WHERE state IN ('pending', 'leased');
CREATE TRIGGER trial_is_final BEFORE UPDATE OF state, outcome ON trial
  WHEN OLD.state IN ('done', 'failed', 'quarantined', 'cancelled')
  BEGIN SELECT RAISE(ABORT, 'a finished trial never changes'); END;
CREATE INDEX lease_open ON lease(worker) WHERE ended_ms IS NULL;
CREATE INDEX lease_of_trial ON lease(trial);
CREATE INDEX confirmation_of ON confirmation(measurement);
CREATE INDEX cost_model_latest ON cost_model(target, id);
CREATE INDEX cost_model_of_job ON cost_model(job, round);
CREATE INDEX machine_latest ON machine(target, measured_ms);
CREATE INDEX served_job_open ON served_job(state, owner) WHERE state IN ('queued', 'running', 'stopped');
CREATE TRIGGER served_job_is_final BEFORE UPDATE OF state ON served_job
  WHEN OLD.state IN ('done', 'failed', 'cancelled')
  BEGIN SELECT RAISE(ABORT, 'a finished job never changes'); END;
CREATE INDEX event_of_served_job ON event(served_job, id) WHERE served_job IS NOT NULL;
CREATE INDEX measurement_rank ON measurement(workload, target, confirmed, threads, seconds, relative_error)
  WHERE suspect = 0;
CREATE INDEX measurement_best ON measurement(
    workload, target, confirmed, device, threads, seconds, relative_error, candidate) WHERE suspect = 0;
CREATE INDEX measurement_history ON measurement(workload, target) WHERE suspect = 0;
CREATE INDEX foreign_record_rank ON foreign_record(workload, target, seconds);
CREATE INDEX model_latency_latest ON model_latency(model_digest, target, threads, id);
CREATE INDEX confirmation_by_worker ON confirmation(worker, recorded_ms);
CREATE INDEX measurement_suspect ON measurement(workload, target, threads, seconds) WHERE suspect = 1;
CREATE INDEX measurement_by_worker ON measurement(worker, recorded_ms, clock_hz, disturbed);
CREATE INDEX trial_quarantined ON trial(id) WHERE state = 'quarantined';
CREATE INDEX served_job_kept ON served_job(owner, kept_bytes);
COMMIT;
