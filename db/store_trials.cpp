// The life of a trial: PENDING -> LEASED -> DONE | FAILED | QUARANTINED, and what a result leaves behind.
#include <algorithm>
#include <limits>

#include "core/support/digest.h"
#include "core/support/error.h"
#include "db/conditions.h"
#include "db/device_kind.h"
#include "db/latencies.h"
#include "db/purpose.h"
#include "db/store.h"

namespace lathe::db {

namespace {

/// Failure texts come from compilers and from the stderr of candidates; the end of one says most.
constexpr size_t kMaxErrorBytes = 4096;

// By bytes, so that a letter may be cut: readers of texts expect strangers' bytes anyway.
std::string tail(const std::string& error) {
  return error.size() <= kMaxErrorBytes ? error : "..." + error.substr(error.size() - kMaxErrorBytes);
}

TrialState trial_state_named(std::string_view name) {
  for (int i = 0; i < kTrialStates; ++i)
    if (to_string(static_cast<TrialState>(i)) == name) return static_cast<TrialState>(i);
  // CHECK constraints keep these out of a file of ours; a file may come from anywhere.
  fail("the database has a trial in state `{}`, unknown to this program", name);
}

constexpr std::string_view kLeaseEndings[] = {"", "result", "lost", "returned"};  // by Lease::State

constexpr std::string_view kSelectTrial =
    "SELECT trial.id, job, candidate, workload, target, threads, purpose, tells, state, predicted, trace, "
    "settings, "
    "coalesce(outcome, ''), error, signal FROM trial JOIN candidate ON candidate.id = trial.candidate ";

// In the order of the columns above: members of a braced list are evaluated from left to
// right ([dcl.init.list]).
Trial read_trial(Query& row) {
  return Trial{.id = row.integer(),
               .job = row.integer(),
               .candidate = row.integer(),
               .workload = row.integer(),
               .target = row.integer(),
               .threads = static_cast<int>(row.integer()),
               .purpose = read_purpose(row),
               .state = trial_state_named(row.text()),
               .predicted = row.real(),
               .trace = row.text(),
               .settings = row.text(),
               .outcome = parse_outcome(row.text()),
               .error = row.text(),
               .signal = static_cast<int>(row.integer())};
}

Lease read_lease(LeaseId id, TrialId trial, Query& row) {
  Lease lease{.id = id,
              .trial = trial,
              .attempt = static_cast<int>(row.integer()),
              .worker = row.text(),
              .epoch = row.integer()};
  const std::string ending = row.text();
  lease.state =
      static_cast<Lease::State>(std::find(kLeaseEndings, std::end(kLeaseEndings), ending) - kLeaseEndings);
  return lease;
}

}  // namespace

int64_t Store::begin_epoch() {
  constexpr int64_t kFirst = 1'767'225'600;  // 2026 began, in seconds since 1970
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  // Committed by itself, before anything is leased: an epoch is never used twice, also when its
  // tracker dies at once.
  Transaction transaction = begin();
  const int64_t now = now_ms_();
  const int64_t last = [&] {
    Query row = database_->query("SELECT coalesce(max(id), 0) FROM epoch");
    row.step();
    return row.integer();
  }();
  // By the clock: of a database that is put back as it was, nobody knows which epochs came after, and workers
  // still hold their leases. Where the clock is behind, one more than the last.
  const int64_t epoch = std::max(last + 1, now / 1000 - kFirst);
  if (epoch > kMost) fail("the database has used up the numbers of its epochs; do not trust it");
  database_->run("INSERT INTO epoch(id, begun_ms) VALUES(?, ?)", {epoch, now});
  transaction.commit();
  return epoch;
}

std::string Store::candidate_digest(WorkloadId workload, TargetId target, const std::string& program) {
  Query names = database_->query(
      "SELECT workload.digest, target.name FROM workload, target "
      "WHERE workload.id = ? AND target.id = ?",
      {workload, target});
  if (!names.step()) fail("the database has no workload {} or no target {}", workload, target);
  std::string workload_digest = names.text(), target_name = names.text();
  // By names, not by ids: the same candidate has one digest in every database.
  return sha256(fmt::format("{}\n{}\n{}", workload_digest, target_name, program));
}

CandidateId Store::add_candidate(TargetId target, const NewTrial& trial) {
  // Two traces that come to the same program are one candidate; without the program each trace is its own.
  std::string program = trial.program.empty() ? sha256(trial.trace) : trial.program;
  const std::string digest = candidate_digest(trial.workload, target, program);
  // The trace that came first stays: any that gives the program will do, and rows refer to this one.
  return *database_->insert(
      "INSERT INTO candidate(digest, workload, target, program, trace) VALUES(?, ?, ?, ?, ?) "
      "ON CONFLICT(digest) DO UPDATE SET digest = excluded.digest RETURNING id",
      {digest, trial.workload, target, program, trial.trace});
}

std::vector<EnqueuedTrial> Store::add_trials(JobId job_id, std::span<const NewTrial> trials,
                                             std::optional<DeviceId> device) {
  Transaction transaction = begin();
  Job owner = job(job_id);
  std::vector<EnqueuedTrial> enqueued;
  for (const NewTrial& trial : trials) {
    CandidateId candidate = add_candidate(owner.target, trial);
    // Confirmations are wanted several times. A second search of a candidate would break trial_once, and with
    // it the whole batch: it is asked for first.
    bool is_search = trial.purpose == Purpose::kSearch;
    Query twin = database_->query(
        "SELECT id FROM trial WHERE job = ? AND candidate = ? AND purpose = 'search'", {job_id, candidate});
    if (is_search && twin.step()) {
      enqueued.push_back({.status = Enqueued::kDuplicate, .trial = twin.integer()});
      continue;
    }
    // Without a device (a tracker's jobs have a class of them) nothing equals NULL, and
    // everything is measured.
    Query known = database_->query(
        "SELECT id FROM measurement WHERE candidate = ? AND device = ? AND threads = ? "
        "AND suspect = 0",
        {candidate, device, owner.threads});
    if (is_search && known.step()) {
      enqueued.push_back({.status = Enqueued::kMeasured, .measurement = known.integer()});
      continue;
    }
    // Without a number of its own it gets the next one, also after those that came with theirs.
    const auto id = database_->insert(
        "INSERT INTO trial(id, job, candidate, purpose, tells, threads, settings, state, predicted, "
        "created_ms) "
        "VALUES(coalesce(nullif(?, 0), (SELECT coalesce(max(id), 0) + 1 FROM trial)), ?, ?, ?, ?, ?, ?, "
        "'pending', ?, ?) "
        "RETURNING id",
        {trial.id, job_id, candidate, purpose_text(trial.purpose), trial.purpose == Purpose::kTell,
         owner.threads, trial.settings, trial.predicted, now_ms_()});
    enqueued.push_back({.status = Enqueued::kQueued, .trial = *id, .candidate = candidate});
  }
  transaction.commit();
  return enqueued;
}

Trial Store::trial(TrialId id) {
  Query row = database_->query(fmt::format("{}WHERE trial.id = ?", kSelectTrial), {id});
  if (!row.step()) fail("the database has no trial {}", id);
  return read_trial(row);
}

std::optional<TrialEnd> Store::trial_end(JobId job, TrialId id) { return trial_end(job, id, {}); }

std::optional<TrialEnd> Store::trial_end(JobId job, TrialId id, const std::optional<DeviceKind>& kind) {
  const Trial ended = trial(id);
  // A searcher asks by number, and may name any (tracker/search_server.cpp).
  if (ended.job != job) fail("trial {} is of another job", id);
  if (!is_final(ended.state)) return std::nullopt;
  TrialEnd end{.state = ended.state, .outcome = ended.outcome, .error = ended.error};
  std::vector<Value> values = {ended.candidate, ended.threads};
  const std::string on_kind = of_kind("device", kind, values);
  values.emplace_back(id);
  Query row = database_->query(
      // Its own, or where that was taken as another's confirmation, the candidate's.
      fmt::format("SELECT samples FROM measurement WHERE candidate = ? AND threads = ? {}"
                  "ORDER BY trial = ? DESC, id LIMIT 1",
                  on_kind),
      values);
  if (ended.outcome == Outcome::kOk && row.step()) end.samples = row.floats();
  return end;
}

void Store::visit_open_trials(const std::function<void(const OpenTrial&)>& visit) {
  // One row a lease and not a query a trial: a queue of two million is read in one pass. By the partial index
  // trial_open, which has the open ones alone.
  const Transaction snapshot = database_->snapshot();
  Query row = database_->stream(
      "SELECT trial.id, job, candidate, workload, purpose, tells, state = 'leased', lease.id, "
      "lease.attempt, worker.name, lease.epoch, coalesce(lease.ending, '') FROM trial "
      "JOIN candidate ON candidate.id = trial.candidate LEFT JOIN lease ON lease.trial = trial.id "
      "LEFT JOIN worker ON worker.id = lease.worker "
      "WHERE state IN ('pending', 'leased') ORDER BY trial.id, lease.id");
  OpenTrial open;
  while (row.step()) {
    const TrialId id = row.integer();
    if (open.id != 0 && open.id != id) visit(std::exchange(open, {}));
    open.id = id;
    open.job = row.integer();
    open.candidate = row.integer();
    open.workload = row.integer();
    open.purpose = read_purpose(row);
    open.leased = row.boolean();
    if (const auto lease = row.maybe_integer()) open.leases.push_back(read_lease(*lease, id, row));
  }
  if (open.id != 0) visit(open);
}

std::vector<Lease> Store::leases(TrialId trial) {
  std::vector<Lease> leases;
  for (Query row =
           database_->query("SELECT lease.id, attempt, worker.name, epoch, coalesce(ending, '') FROM lease "
                            "JOIN worker ON worker.id = lease.worker WHERE trial = ? ORDER BY lease.id",
                            {trial});
       row.step();) {
    const LeaseId id = row.integer();
    leases.push_back(read_lease(id, trial, row));
  }
  return leases;
}

std::optional<Lease> Store::grant(TrialId trial, const std::string& worker, int64_t epoch, LeaseId id) {
  // Two processes may have chosen the same trial: writing transactions exclude each other, and the second
  // finds it leased.
  Transaction transaction = begin();
  // Only a pending trial: somebody may have ended it since the farm chose it.
  Lease lease{.id = id, .trial = trial, .worker = worker, .epoch = epoch};
  // It ends here: a statement left at a row would hold its reading lock past the commit.
  {
    Query row =
        database_->query(fmt::format("SELECT 1 + (SELECT count(*) FROM lease WHERE trial = ?1) FROM trial "
                                     "WHERE id = ?1 AND state = 'pending'{}",
                                     database_->keep_rows("trial")),
                         {trial});
    if (!row.step()) return std::nullopt;
    lease.attempt = static_cast<int>(row.integer());
  }
  lease.id = *database_->insert(
      "INSERT INTO lease(id, trial, attempt, worker, epoch, granted_ms) "
      "VALUES(coalesce(nullif(?, 0), (SELECT coalesce(max(id), 0) + 1 FROM lease)), ?, ?, ?, ?, ?) RETURNING "
      "id",
      {id, trial, lease.attempt, add_worker(worker), epoch, now_ms_()});
  database_->run("UPDATE trial SET state = 'leased', lease = ? WHERE id = ?", {lease.id, trial});
  transaction.commit();
  return lease;
}

bool Store::end_lease(LeaseId lease, LeaseEnd how) {
  Transaction transaction = begin();
  int64_t ended =
      database_->run("UPDATE lease SET ended_ms = ?, ending = ? WHERE id = ? AND ended_ms IS NULL",
                     {now_ms_(), kLeaseEndings[how == LeaseEnd::kLost ? 2 : 3], lease});
  // Unless another lease has the trial by now. By its id, which is found at once; no index knows its lease.
  database_->run(
      "UPDATE trial SET state = 'pending', lease = NULL WHERE state = 'leased' AND lease = ?1 "
      "AND id = (SELECT trial FROM lease WHERE id = ?1)",
      {lease});
  transaction.commit();
  return ended == 1;
}

bool Store::cancel_trial(TrialId trial) {
  return database_->run(
             "UPDATE trial SET state = 'cancelled', ended_ms = ? "
             "WHERE id = ? AND state IN ('pending', 'leased')",
             {now_ms_(), trial}) == 1;
}

void Store::end_trial(TrialId trial, TrialState state, const TrialResult& result) {
  // The trigger trial_is_final holds against a second end, whatever the caller believes.
  database_->run(
      "UPDATE trial SET state = ?, outcome = ?, error = ?, signal = ?, lease = ?, ended_ms = ? WHERE id = ?",
      {to_string(state), to_string(result.outcome), tail(result.error), result.signal, result.lease,
       now_ms_(), trial});
  std::optional<double> seconds;
  if (result.outcome == Outcome::kOk) seconds = summarize(result.samples).median;
  // For lists and progress bars; which schedule is best is asked of the measurements.
  database_->run(
      "UPDATE job_task SET trials = trials + 1, "
      "best_seconds = CASE WHEN best_seconds <= ?1 THEN best_seconds ELSE coalesce(?1, best_seconds) END "
      "WHERE (job, workload) = (SELECT trial.job, candidate.workload FROM trial "
      "JOIN candidate ON candidate.id = trial.candidate WHERE trial.id = ?2 AND purpose = 'search')",
      {seconds, trial});
}

/// What a result of a trial is of the candidate's measurements: of the same device, or of the same class when
/// it is to confirm one (tracker/device_class.h). A suspect one it replaces.
/// One row a candidate, device and number of threads, which UNIQUE enforces: the first measurement stays, and
/// later ones confirm it or, when it is suspect, take its place.
void Store::add_measurement(TrialId trial, const TrialResult& result) {
  // The device's own row before that of another device of its class.
  Query row = database_->query(
      "SELECT m.id, m.suspect, trial.purpose = 'confirm', trial.tells, lease.worker FROM trial "
      "JOIN measurement m ON m.candidate = trial.candidate AND m.threads = trial.threads "
      "JOIN device had ON had.id = m.device JOIN device has ON has.id = ?2 "
      "JOIN lease ON lease.id = ?3 "
      "WHERE trial.id = ?1 AND (m.device = ?2 OR (trial.purpose = 'confirm' AND had.model <> '' "
      "AND had.model = has.model AND had.cores = has.cores AND had.architecture = has.architecture)) "
      "ORDER BY m.device = ?2 DESC, m.id LIMIT 1",
      {trial, result.device, result.lease});
  // The first of its kind.
  if (!row.step()) return insert_measurement(trial, result);
  const MeasurementId id = row.integer();
  // A second search that came to the same program (of another job) adds nothing: its samples are neither the
  // first nor asked for.
  const bool suspect = row.boolean(), confirms = row.boolean(), tells = row.boolean();
  if (suspect)
    replace_measurement(id, trial, result);
  else if (confirms)
    add_confirmation(id, {result.samples, now_ms_(), tells, row.integer(), result.conditions});
}

namespace {

/// What insert_measurement and replace_measurement both bind, as ?1 to ?19.
std::vector<Value> values_of(TrialId trial, const TrialResult& result, const Summary& summary,
                             int64_t now_ms) {
  std::vector<Value> values = {trial,
                               summary.median,
                               summary.p25,
                               summary.min,
                               summary.mad,
                               static_cast<int64_t>(result.samples.size()),
                               as_blob(result.samples),
                               result.relative_error,
                               result.compiler,
                               result.revision,
                               now_ms,
                               result.lease,
                               result.device};
  append_conditions(values, result.conditions);
  return values;
}

}  // namespace

void Store::insert_measurement(TrialId trial, const TrialResult& result) {
  const Summary summary = summarize(result.samples);
  database_->run(
      fmt::format(
          "INSERT INTO measurement(candidate, workload, target, device, threads, trial, worker, seconds, "
          "median, p25, min, mad, n, samples, relative_error, compiler, revision, recorded_ms, {}) "
          "SELECT candidate.id, candidate.workload, candidate.target, ?13, trial.threads, trial.id, "
          "lease.worker, ?2, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?14, ?15, ?16, ?17, ?18, ?19 "
          "FROM trial JOIN candidate ON candidate.id = trial.candidate JOIN lease ON lease.id = ?12 "
          "WHERE trial.id = ?1",
          condition_columns()),
      values_of(trial, result, summary, now_ms_()));
}

/// Of a worker that is believed. The row stays, for choices and confirmations refer to it.
void Store::replace_measurement(MeasurementId id, TrialId trial, const TrialResult& result) {
  std::vector<Value> values = values_of(trial, result, summarize(result.samples), now_ms_());
  values.emplace_back(id);
  database_->run(
      fmt::format(
          "UPDATE measurement SET device = ?13, trial = ?1, "
          "worker = (SELECT worker FROM lease WHERE id = ?12), median = ?2, p25 = ?3, min = ?4, mad = ?5, "
          "n = ?6, samples = ?7, relative_error = ?8, compiler = ?9, revision = ?10, recorded_ms = ?11, "
          "imported_ms = NULL, suspect = 0, ({}) = (?14, ?15, ?16, ?17, ?18, ?19) WHERE id = ?20",
          condition_columns()),
      values);
  rank(id);
}

Recorded Store::record_one(const TrialResult& result) {
  // By the lease alone: which trial it was for is ours to know, not the worker's to say.
  Query row = database_->query(
      "SELECT trial.id, trial.state, trial.lease FROM lease "
      "JOIN trial ON trial.id = lease.trial WHERE lease.id = ?",
      {result.lease});
  if (!row.step()) return Recorded::kUnknown;
  TrialId trial = row.integer();
  TrialState state = trial_state_named(row.text());
  bool is_current = row.maybe_integer() == result.lease;
  // Whatever becomes of the result, the lease is over.
  database_->run("UPDATE lease SET ended_ms = ?, ending = 'result' WHERE id = ? AND ended_ms IS NULL",
                 {now_ms_(), result.lease});
  if (is_final(state))
    // What ended it came by this very lease: said again. Else another lease's result was first.
    return is_current && state != TrialState::kCancelled ? Recorded::kDuplicate : Recorded::kStale;
  if (result.outcome == Outcome::kWorkerLost) {
    end_trial(trial, TrialState::kQuarantined, result);
  } else if (result.outcome != Outcome::kOk) {
    end_trial(trial, TrialState::kFailed, result);
  } else if (are_latencies(result.samples) && result.device) {
    // What ranks is positive, finite and of a device; wire.cpp has refused most else, but
    // local jobs come here too.
    end_trial(trial, TrialState::kDone, result);
    add_measurement(trial, result);
  } else {
    // The trial ends, whatever its worker says: a success that was not measured would rank.
    TrialResult failed = result;
    failed.outcome = Outcome::kCrashed;
    failed.error = result.device ? "the worker reported success with samples that are no latencies"
                                 : "the worker reported success and no device";
    end_trial(trial, TrialState::kFailed, failed);
  }
  return Recorded::kRecorded;
}

std::vector<Recorded> Store::record(std::span<const TrialResult> results) {
  Transaction transaction = begin();
  std::vector<Recorded> recorded;
  // Each by itself: one that is stale does not keep the others out.
  for (const TrialResult& result : results) recorded.push_back(record_one(result));
  transaction.commit();
  return recorded;
}

}  // namespace lathe::db
