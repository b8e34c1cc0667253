// SQLite's tables, as the steps from each version to the next. A step that was released never changes: there
// are files made by it, and refuse_strange_code() (sqlite_trust.cpp) knows our triggers by its text.
#include "core/support/error.h"
#include "db/schema.h"
#include "db/sqlite_database.h"

namespace lathe::db {

namespace {

// In the file's header, where `file(1)` and SQLite's own tools look too
// (sqlite.org/fileformat2.html, offset 68).
constexpr int64_t kApplicationId = 0x4c415448;  // "LATH": tells our files from other programs'

// Times are milliseconds since 1970 UTC; latencies are seconds; samples are little-endian f32 seconds.
// STRICT, for SQLite would else store any value in any column. AUTOINCREMENT where a number must never come
// again, even of a deleted row: an epoch tells a tracker's leases from those of its earlier lives, an event's
// id is where a reader goes on. The states of a trial are guarded by a trigger: what is final was
// acknowledged, and no bug of ours may take that back.
constexpr char kFirstSchema[] = R"sql(
CREATE TABLE target(
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  architecture TEXT NOT NULL,
  features TEXT NOT NULL
) STRICT;

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

CREATE TABLE worker(
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  device INTEGER REFERENCES device,
  seen_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE epoch(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  begun_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE model(
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  digest TEXT NOT NULL,
  added_ms INTEGER NOT NULL,
  UNIQUE(name, digest)
) STRICT;

CREATE TABLE workload(
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  text TEXT NOT NULL,
  flops REAL NOT NULL,
  bytes REAL NOT NULL
) STRICT;

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

CREATE TABLE candidate(
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  workload INTEGER NOT NULL REFERENCES workload,
  target INTEGER NOT NULL REFERENCES target,
  program TEXT NOT NULL,
  trace TEXT NOT NULL
) STRICT;

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
) STRICT;
CREATE UNIQUE INDEX trial_once ON trial(job, candidate) WHERE purpose = 'search';
CREATE INDEX trial_of_job ON trial(job, id);
CREATE INDEX trial_open ON trial(id) WHERE state IN ('pending', 'leased');
CREATE TRIGGER trial_is_final BEFORE UPDATE OF state, outcome ON trial
  WHEN OLD.state IN ('done', 'failed', 'quarantined', 'cancelled')
  BEGIN SELECT RAISE(ABORT, 'a finished trial never changes'); END;

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
CREATE INDEX lease_open ON lease(worker) WHERE ended_ms IS NULL;
CREATE INDEX lease_of_trial ON lease(trial);

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
  suspect INTEGER NOT NULL DEFAULT 0 CHECK(suspect IN (0, 1)),
  UNIQUE(candidate, device, threads)
) STRICT;
CREATE INDEX measurement_best ON measurement(workload, target, device, threads, seconds)
  WHERE confirmed = 1 AND suspect = 0;
CREATE INDEX measurement_rank ON measurement(workload, target, seconds) WHERE suspect = 0;
CREATE INDEX measurement_by_worker ON measurement(worker, recorded_ms);

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
) STRICT;
CREATE INDEX confirmation_of ON confirmation(measurement);

CREATE TABLE artifact(
  id INTEGER PRIMARY KEY,
  candidate INTEGER NOT NULL REFERENCES candidate,
  compiler TEXT NOT NULL,
  digest TEXT NOT NULL,
  used_ms INTEGER NOT NULL,
  UNIQUE(candidate, compiler)
) STRICT;

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
CREATE INDEX cost_model_latest ON cost_model(target, id);
CREATE INDEX cost_model_of_job ON cost_model(job, round);

CREATE TABLE event(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  job INTEGER REFERENCES job,
  kind TEXT NOT NULL,
  body TEXT NOT NULL,
  created_ms INTEGER NOT NULL
) STRICT;
)sql";

constexpr char kChoices[] = R"sql(
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

CREATE TABLE choice_task(
  choice INTEGER NOT NULL REFERENCES choice ON DELETE CASCADE,
  workload INTEGER NOT NULL REFERENCES workload,
  measurement INTEGER NOT NULL REFERENCES measurement,
  PRIMARY KEY(choice, workload)
) STRICT, WITHOUT ROWID;
)sql";

constexpr char kMachines[] = R"sql(
CREATE TABLE machine(
  device INTEGER NOT NULL REFERENCES device,
  target TEXT NOT NULL,
  numbers TEXT NOT NULL,
  measured_ms INTEGER NOT NULL,
  PRIMARY KEY(device, target)
) STRICT, WITHOUT ROWID;
CREATE INDEX machine_latest ON machine(target, measured_ms);
)sql";

// A served job is what was asked for; `job` is its search's. Events are the outbox of the event stream.
constexpr char kServedJobs[] = R"sql(
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
  ended_ms INTEGER NOT NULL DEFAULT 0,
  UNIQUE(owner, idempotency_key)
) STRICT;
CREATE INDEX served_job_open ON served_job(state, owner) WHERE state IN ('queued', 'running', 'stopped');
CREATE TRIGGER served_job_is_final BEFORE UPDATE OF state ON served_job
  WHEN OLD.state IN ('done', 'failed', 'cancelled')
  BEGIN SELECT RAISE(ABORT, 'a finished job never changes'); END;
ALTER TABLE event ADD COLUMN served_job INTEGER REFERENCES served_job;
CREATE INDEX event_of_served_job ON event(served_job, id) WHERE served_job IS NOT NULL;
)sql";

// Records of other tuners are kept apart: what they measured is not what our candidates are. `seconds` is
// null where the candidate failed. `imported_ms` is when a measurement made elsewhere became known here.
constexpr char kExchange[] = R"sql(
ALTER TABLE measurement ADD COLUMN imported_ms INTEGER;

DROP INDEX measurement_rank;
DROP INDEX measurement_best;
CREATE INDEX measurement_rank ON measurement(workload, target, confirmed, threads, seconds, relative_error)
  WHERE suspect = 0;
CREATE INDEX measurement_best ON measurement(
    workload, target, confirmed, device, threads, seconds, relative_error, candidate) WHERE suspect = 0;
CREATE INDEX measurement_history ON measurement(workload, target) WHERE suspect = 0;

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
CREATE INDEX foreign_record_rank ON foreign_record(workload, target, seconds);

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
CREATE INDEX model_latency_latest ON model_latency(model_digest, target, threads, id);
)sql";

// `canary` has what is usual for a worker on its device, of that class (the baseline), how far its last
// canary was from that, and why it is suspect ('': it is not). A measurement is ranked by its confirmations
// that are not suspect.
constexpr char kCanaries[] = R"sql(
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

ALTER TABLE worker ADD COLUMN drained INTEGER NOT NULL DEFAULT 0 CHECK(drained IN (0, 1));

ALTER TABLE confirmation ADD COLUMN worker INTEGER REFERENCES worker;
ALTER TABLE confirmation ADD COLUMN suspect INTEGER NOT NULL DEFAULT 0 CHECK(suspect IN (0, 1));
CREATE INDEX confirmation_by_worker ON confirmation(worker, recorded_ms);

ALTER TABLE measurement ADD COLUMN confirmed_elsewhere INTEGER NOT NULL DEFAULT 0
  CHECK(confirmed_elsewhere IN (0, 1));
CREATE INDEX measurement_suspect ON measurement(workload, target, threads, seconds) WHERE suspect = 1;
)sql";

// Null where whoever measured did not say. The index is what the clocks of a fleet are read from.
constexpr char kClocks[] = R"sql(
ALTER TABLE measurement ADD COLUMN clock_hz REAL CHECK(clock_hz > 0);
ALTER TABLE measurement ADD COLUMN disturbed REAL CHECK(disturbed BETWEEN 0 AND 1);
DROP INDEX measurement_by_worker;
CREATE INDEX measurement_by_worker ON measurement(worker, recorded_ms, clock_hz, disturbed);
CREATE INDEX trial_quarantined ON trial(id) WHERE state = 'quarantined';
)sql";

// What an owner's jobs keep is bounded; of jobs before this step it is not known.
constexpr char kKept[] = R"sql(
ALTER TABLE served_job ADD COLUMN kept_bytes INTEGER NOT NULL DEFAULT 0 CHECK(kept_bytes >= 0);
CREATE INDEX served_job_kept ON served_job(owner, kept_bytes);
)sql";

// What a winner is said to take comes of measurements that had no part in choosing it. Null where it has
// none.
constexpr char kTold[] = R"sql(
ALTER TABLE trial ADD COLUMN tells INTEGER NOT NULL DEFAULT 0 CHECK(tells IN (0, 1));
ALTER TABLE confirmation ADD COLUMN tells INTEGER NOT NULL DEFAULT 0 CHECK(tells IN (0, 1));
ALTER TABLE measurement ADD COLUMN told_seconds REAL CHECK(told_seconds > 0);
)sql";

// What measurements were made under: columns of db/conditions.h that were not there yet.
constexpr char kConditions[] = R"sql(
ALTER TABLE measurement ADD COLUMN canary REAL CHECK(canary >= 0);
ALTER TABLE measurement ADD COLUMN celsius REAL CHECK(celsius BETWEEN -273.15 AND 10000);
ALTER TABLE measurement ADD COLUMN timer_seconds REAL CHECK(timer_seconds BETWEEN 0 AND 1);
ALTER TABLE measurement ADD COLUMN driver TEXT NOT NULL DEFAULT '';
ALTER TABLE confirmation ADD COLUMN clock_hz REAL CHECK(clock_hz > 0);
ALTER TABLE confirmation ADD COLUMN disturbed REAL CHECK(disturbed BETWEEN 0 AND 1);
ALTER TABLE confirmation ADD COLUMN canary REAL CHECK(canary >= 0);
ALTER TABLE confirmation ADD COLUMN celsius REAL CHECK(celsius BETWEEN -273.15 AND 10000);
ALTER TABLE confirmation ADD COLUMN timer_seconds REAL CHECK(timer_seconds BETWEEN 0 AND 1);
ALTER TABLE confirmation ADD COLUMN driver TEXT NOT NULL DEFAULT '';
)sql";

// Races of one class of devices say nothing of another's. `device_model` is "" where what was chosen is of no
// class alone, or nothing was. A table that others refer to is made anew with them: to drop it deletes what
// they hold. Nobody ever read the table of artifacts.
constexpr char kChoicesByClass[] = R"sql(
CREATE TABLE choice_by_class(
  id INTEGER PRIMARY KEY,
  model_digest TEXT NOT NULL,
  target INTEGER NOT NULL REFERENCES target,
  threads INTEGER NOT NULL,
  max_relative_error REAL NOT NULL,
  device_model TEXT NOT NULL,
  device_cores INTEGER NOT NULL,
  seconds_before REAL NOT NULL,
  seconds_after REAL NOT NULL,
  chosen_ms INTEGER NOT NULL,
  UNIQUE(model_digest, target, threads, max_relative_error, device_model, device_cores)
) STRICT;
INSERT INTO choice_by_class SELECT id, model_digest, target, threads, max_relative_error, coalesce(kind.model, ''),
  coalesce(kind.cores, 0), seconds_before, seconds_after, chosen_ms FROM choice LEFT JOIN (
    SELECT choice, min(device.model) AS model, min(device.cores) AS cores FROM choice_task
    JOIN measurement ON measurement.id = measurement JOIN device ON device.id = device GROUP BY choice
    HAVING min(device.model) = max(device.model) AND min(device.cores) = max(device.cores)) AS kind
  ON kind.choice = choice.id;
CREATE TABLE task_of_choice(
  choice INTEGER NOT NULL REFERENCES choice_by_class ON DELETE CASCADE,
  workload INTEGER NOT NULL REFERENCES workload,
  measurement INTEGER NOT NULL REFERENCES measurement,
  PRIMARY KEY(choice, workload)
) STRICT, WITHOUT ROWID;
INSERT INTO task_of_choice SELECT choice, workload, measurement FROM choice_task;
DROP TABLE choice_task;
DROP TABLE choice;
ALTER TABLE choice_by_class RENAME TO choice;
ALTER TABLE task_of_choice RENAME TO choice_task;
DROP TABLE artifact;
CREATE INDEX event_of_kind ON event(served_job, kind, id) WHERE served_job IS NOT NULL;
CREATE INDEX served_job_state ON served_job(state);
)sql";

constexpr Migration kMigrations[] = {
    {1, "the first schema", kFirstSchema},
    {2, "choices over whole models", kChoices},
    {3, "numbers of machines", kMachines},
    {4, "jobs that a tracker owns", kServedJobs},
    {5, "exchange with other databases, latencies of models, indexes for a million trials", kExchange},
    {6, "canaries of workers, drained workers, who confirmed what", kCanaries},
    {7, "clocks of measurements, quarantined trials by an index", kClocks},
    {8, "what jobs keep", kKept},
    {9, "what winners are told by", kTold},
    {10, "what was measured under what", kConditions},
    {11, "choices by class of devices, events by kind", kChoicesByClass},
};

}  // namespace

static_assert(std::end(kMigrations)[-1].version == kSchemaVersion);

std::span<const Migration> SqliteDatabase::migrations() const { return kMigrations; }

int64_t SqliteDatabase::pragma(const char* sql) {
  Query row = query(sql);
  return row.step() ? row.integer() : 0;
}

int SqliteDatabase::version() {
  int64_t application = pragma("PRAGMA application_id");
  // A new file has neither tables nor an id, and is anybody's.
  bool empty = pragma("SELECT count(*) FROM sqlite_schema") == 0;
  // Before anything is written into it: many programs keep files of SQLite.
  if (application != kApplicationId && !(empty && application == 0))
    fail("{} is the database of another program; name another file", name());
  return static_cast<int>(pragma("PRAGMA user_version"));
}

void SqliteDatabase::set_version(int version) {
  run_script(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {};", kApplicationId, version));
}

void SqliteDatabase::prepare_migration(int version) {
  // It is kept in the file: readers and one writer do not wait for each other.
  run("PRAGMA journal_mode = WAL", std::span<const Value>());
  if (version > 0) keep_copy(version);
}

}  // namespace lathe::db
