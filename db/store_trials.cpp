// The life of a trial: PENDING -> LEASED -> DONE | FAILED | QUARANTINED, and what a result leaves behind.
#include <algorithm>
#include <cmath>

#include "core/support/error.h"
#include "core/support/text.h"
#include "db/store.h"

namespace lathe::db {

namespace {

/// Failure texts come from compilers and from the stderr of candidates; the end of one says most.
constexpr size_t kMaxErrorBytes = 4096;

std::string tail(const std::string& error) {
  return error.size() <= kMaxErrorBytes ? error : "..." + error.substr(error.size() - kMaxErrorBytes);
}

bool are_latencies(std::span<const float> samples) {
  return !samples.empty() &&
         std::all_of(samples.begin(), samples.end(), [](float s) { return std::isfinite(s) && s > 0; });
}

TrialState trial_state_named(std::string_view name) {
  for (int i = 0; i < kTrialStates; ++i)
    if (to_string(static_cast<TrialState>(i)) == name) return static_cast<TrialState>(i);
  fail("the database has a trial in state `{}`, unknown to this program", name);
}

constexpr std::string_view kSelectTrial =
    "SELECT trial.id, job, candidate, workload, target, threads, state, attempt, predicted, trace, "
    "coalesce(outcome, ''), error, signal FROM trial JOIN candidate ON candidate.id = trial.candidate ";

Trial read_trial(Query& row) {
  return Trial{.id = row.integer(),
               .job = row.integer(),
               .candidate = row.integer(),
               .workload = row.integer(),
               .target = row.integer(),
               .threads = static_cast<int>(row.integer()),
               .state = trial_state_named(row.text()),
               .attempt = static_cast<int>(row.integer()),
               .predicted = row.real(),
               .trace = row.text(),
               .outcome = parse_outcome(row.text()),
               .error = row.text(),
               .signal = static_cast<int>(row.integer())};
}

}  // namespace

CandidateId Store::add_candidate(TargetId target, const NewTrial& trial) {
  std::string program = trial.program.empty() ? sha256(trial.trace) : trial.program;
  Query names = database_->query(
      "SELECT workload.digest, target.name FROM workload, target "
      "WHERE workload.id = ? AND target.id = ?",
      {trial.workload, target});
  if (!names.step()) fail("the database has no workload {} or no target {}", trial.workload, target);
  std::string workload_digest = names.text(), target_name = names.text();
  std::string digest = sha256(fmt::format("{}\n{}\n{}", workload_digest, target_name, program));
  Query row = database_->query(
      "INSERT INTO candidate(digest, workload, target, program, trace) VALUES(?, ?, ?, ?, ?) "
      "ON CONFLICT(digest) DO UPDATE SET digest = digest RETURNING id",
      {digest, trial.workload, target, program, trial.trace});
  CHECK(row.step());
  return row.integer();
}

std::vector<EnqueuedTrial> Store::add_trials(JobId job_id, std::span<const NewTrial> trials,
                                             std::optional<DeviceId> device) {
  Transaction transaction = begin();
  Job owner = job(job_id);
  std::vector<EnqueuedTrial> enqueued;
  for (const NewTrial& trial : trials) {
    CandidateId candidate = add_candidate(owner.target, trial);
    Query twin =
        database_->query("SELECT id FROM trial WHERE job = ? AND candidate = ?", {job_id, candidate});
    if (twin.step()) {
      enqueued.push_back({.status = Enqueued::kDuplicate, .trial = twin.integer()});
      continue;
    }
    Query known =
        database_->query("SELECT id FROM measurement WHERE candidate = ? AND device = ? AND threads = ?",
                         {candidate, device, owner.threads});
    if (known.step()) {
      enqueued.push_back({.status = Enqueued::kMeasured, .measurement = known.integer()});
      continue;
    }
    database_->run(
        "INSERT INTO trial(job, candidate, threads, state, predicted, created_ms) "
        "VALUES(?, ?, ?, 'pending', ?, ?)",
        {job_id, candidate, owner.threads, trial.predicted, now_ms_()});
    enqueued.push_back({.status = Enqueued::kQueued, .trial = database_->last_insert_id()});
  }
  transaction.commit();
  return enqueued;
}

std::vector<Trial> Store::pending_trials(JobId job, int limit) {
  std::vector<Trial> trials;
  for (Query row = database_->query(
           fmt::format("{}WHERE job = ? AND state = 'pending' ORDER BY trial.id LIMIT ?", kSelectTrial),
           {job, limit});
       row.step();)
    trials.push_back(read_trial(row));
  return trials;
}

Trial Store::trial(TrialId id) {
  Query row = database_->query(fmt::format("{}WHERE trial.id = ?", kSelectTrial), {id});
  if (!row.step()) fail("the database has no trial {}", id);
  return read_trial(row);
}

std::optional<Lease> Store::grant(TrialId trial, WorkerId worker, int64_t epoch) {
  Transaction transaction = begin();
  Lease lease{.trial = trial, .worker = worker, .epoch = epoch, .granted_ms = now_ms_()};
  {
    Query row = database_->query("SELECT attempt + 1 FROM trial WHERE id = ? AND state = 'pending'", {trial});
    if (!row.step()) return std::nullopt;
    lease.attempt = static_cast<int>(row.integer());
  }
  database_->run("INSERT INTO lease(trial, attempt, worker, epoch, granted_ms) VALUES(?, ?, ?, ?, ?)",
                 {trial, lease.attempt, worker, epoch, lease.granted_ms});
  lease.id = database_->last_insert_id();
  database_->run("UPDATE trial SET state = 'leased', attempt = ?, lease = ? WHERE id = ?",
                 {lease.attempt, lease.id, trial});
  transaction.commit();
  return lease;
}

std::vector<Lease> Store::open_leases() {
  std::vector<Lease> leases;
  for (Query row = database_->query("SELECT id, trial, attempt, worker, epoch, granted_ms FROM lease WHERE "
                                    "ended_ms IS NULL ORDER BY id");
       row.step();)
    leases.push_back({.id = row.integer(),
                      .trial = row.integer(),
                      .attempt = static_cast<int>(row.integer()),
                      .worker = row.integer(),
                      .epoch = row.integer(),
                      .granted_ms = row.integer()});
  return leases;
}

std::optional<TrialState> Store::end_lease(LeaseId lease, LeaseEnd how, const std::string& error,
                                           int signal) {
  Transaction transaction = begin();
  if (!database_->run("UPDATE lease SET ended_ms = ?, ending = ? WHERE id = ? AND ended_ms IS NULL",
                      {now_ms_(), how == LeaseEnd::kLost ? "lost" : "returned", lease}))
    return std::nullopt;
  Query row = database_->query(
      "SELECT trial.id, state, trial.attempt, trial.lease FROM lease "
      "JOIN trial ON trial.id = lease.trial WHERE lease.id = ?",
      {lease});
  CHECK(row.step());
  TrialId trial = row.integer();
  TrialState state = trial_state_named(row.text());
  int64_t attempt = row.integer();
  bool is_current = row.integer() == lease;
  if (state == TrialState::kLeased && is_current) {
    if (how == LeaseEnd::kLost && attempt >= kMaxAttempts) {
      state = TrialState::kQuarantined;
      end_trial(trial, state,
                {.lease = lease, .outcome = Outcome::kWorkerLost, .error = error, .signal = signal});
    } else {
      state = TrialState::kPending;
      database_->run(
          "UPDATE trial SET state = 'pending', attempt = ?, lease = NULL, error = ?, signal = ? WHERE id = ?",
          {how == LeaseEnd::kReturned ? attempt - 1 : attempt, tail(error), signal, trial});
    }
  }
  transaction.commit();
  return state;
}

void Store::end_trial(TrialId trial, TrialState state, const TrialResult& result) {
  database_->run(
      "UPDATE trial SET state = ?, outcome = ?, error = ?, signal = ?, lease = ?, ended_ms = ? WHERE id = ?",
      {to_string(state), to_string(result.outcome), tail(result.error), result.signal, result.lease,
       now_ms_(), trial});
  std::optional<double> seconds;
  if (result.outcome == Outcome::kOk) seconds = summarize(result.samples).median;
  database_->run(
      "UPDATE job_task SET trials = trials + 1, "
      "best_seconds = min(coalesce(best_seconds, ?1), coalesce(?1, best_seconds)) "
      "WHERE (job, workload) = (SELECT trial.job, candidate.workload FROM trial "
      "JOIN candidate ON candidate.id = trial.candidate WHERE trial.id = ?2)",
      {seconds, trial});
}

void Store::add_measurement(TrialId trial, const TrialResult& result) {
  Summary summary = summarize(result.samples);
  // Another job may have measured the candidate in the meantime; the first measurement stays.
  database_->run(
      "INSERT INTO measurement(candidate, workload, target, device, threads, trial, worker, seconds, median, "
      "p25, min, "
      "mad, n, samples, relative_error, compiler, revision, recorded_ms) "
      "SELECT candidate.id, candidate.workload, candidate.target, worker.device, trial.threads, trial.id, "
      "worker.id, "
      "?2, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11 FROM trial JOIN candidate ON candidate.id = "
      "trial.candidate "
      "JOIN lease ON lease.id = ?12 JOIN worker ON worker.id = lease.worker WHERE trial.id = ?1 "
      "ON CONFLICT(candidate, device, threads) DO NOTHING",
      {trial, summary.median, summary.p25, summary.min, summary.mad,
       static_cast<int64_t>(result.samples.size()), as_blob(result.samples), result.relative_error,
       result.compiler, result.revision, now_ms_(), result.lease});
}

Recorded Store::record_one(const TrialResult& result) {
  Query row = database_->query(
      "SELECT trial.id, trial.state, trial.lease FROM lease JOIN trial ON trial.id = lease.trial "
      "WHERE lease.id = ?",
      {result.lease});
  if (!row.step()) return Recorded::kUnknown;
  TrialId trial = row.integer();
  TrialState state = trial_state_named(row.text());
  bool is_current = row.maybe_integer() == result.lease;
  if (result.outcome == Outcome::kWorkerLost)
    return end_lease(result.lease, LeaseEnd::kLost, result.error, result.signal) ? Recorded::kRecorded
                                                                                 : Recorded::kDuplicate;
  database_->run("UPDATE lease SET ended_ms = ?, ending = 'result' WHERE id = ? AND ended_ms IS NULL",
                 {now_ms_(), result.lease});
  if (is_final(state)) return is_current ? Recorded::kDuplicate : Recorded::kStale;
  if (result.outcome != Outcome::kOk) {
    end_trial(trial, TrialState::kFailed, result);
  } else if (are_latencies(result.samples)) {
    end_trial(trial, TrialState::kDone, result);
    add_measurement(trial, result);
  } else {
    TrialResult failed = result;
    failed.outcome = Outcome::kCrashed;
    failed.error = fmt::format("the worker reported success with {} samples that are no latencies",
                               result.samples.size());
    end_trial(trial, TrialState::kFailed, failed);
  }
  return Recorded::kRecorded;
}

std::vector<Recorded> Store::record(std::span<const TrialResult> results) {
  Transaction transaction = begin();
  std::vector<Recorded> recorded;
  for (const TrialResult& result : results) recorded.push_back(record_one(result));
  transaction.commit();
  return recorded;
}

}  // namespace lathe::db
