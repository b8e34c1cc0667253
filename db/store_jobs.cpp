// Jobs and their tasks.
#include "core/support/error.h"
#include "db/job_names.h"
#include "db/store.h"

namespace lathe::db {

namespace {

constexpr std::string_view kSelectJob =
    "SELECT job.id, uuid, kind, state, model, coalesce(model.name, ''), target, target.name, threads, "
    "trial_budget, "
    "second_budget, seconds_used, seed, options, message, created_ms, updated_ms "
    "FROM job JOIN target ON target.id = job.target LEFT JOIN model ON model.id = job.model ";

Job read_job(Query& row) {
  return Job{.id = row.integer(),
             .uuid = row.text(),
             .kind = row.text(),
             .state = job_state_named(row.text()),
             .model = row.maybe_integer(),
             .model_name = row.text(),
             .target = row.integer(),
             .target_name = row.text(),
             .threads = static_cast<int>(row.integer()),
             .trial_budget = row.integer(),
             .second_budget = row.real(),
             .seconds_used = row.real(),
             .seed = row.integer(),
             .options = row.text(),
             .message = row.text(),
             .created_ms = row.integer(),
             .updated_ms = row.integer()};
}

}  // namespace

JobId Store::create_job(const NewJob& job) {
  Transaction transaction = begin();
  // Said twice, since the first answer got lost: it is one job. Leaving without a commit loses nothing here.
  // UNIQUE would refuse the second, but the answer is wanted, not an error.
  if (job.idempotency_key) {
    Query row = database_->query("SELECT id FROM job WHERE idempotency_key = ?", {job.idempotency_key});
    if (row.step()) return row.integer();
  }
  int64_t now = now_ms_();
  const JobId id = *database_->insert(
      "INSERT INTO job(uuid, kind, state, model, target, threads, trial_budget, second_budget, seed, "
      "options, "
      "idempotency_key, created_ms, updated_ms) VALUES(?, ?, 'queued', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
      "RETURNING id",
      {job.uuid.empty() ? new_uuid() : job.uuid, job.kind, job.model, job.target, job.threads,
       job.trial_budget, job.second_budget, job.seed, job.options, job.idempotency_key, now, now});
  int position = 0;
  for (const NewJob::Task& task : job.tasks)
    database_->run("INSERT INTO job_task(job, position, workload, weight) VALUES(?, ?, ?, ?)",
                   {id, position++, task.workload, task.weight});
  transaction.commit();
  return id;
}

std::optional<Job> Store::find_job(const std::string& uuid) {
  require_telling(uuid);
  std::vector<Job> found;
  for (Query row = database_->query(
           // Two are enough to know that it is not unique; no pattern, in which a % would mean something.
           fmt::format("{}WHERE substr(uuid, 1, length(?1)) = ?1 LIMIT 2", kSelectJob), {uuid});
       row.step();)
    found.push_back(read_job(row));
  if (uuid.empty() || found.empty()) return std::nullopt;
  require_one(uuid, found.size());
  return found.front();
}

Job Store::job(JobId id) {
  Query row = database_->query(fmt::format("{}WHERE job.id = ?", kSelectJob), {id});
  if (!row.step()) fail("the database has no job {}", id);
  return read_job(row);
}

std::vector<Job> Store::jobs(int limit) {
  std::vector<Job> jobs;
  for (Query row = database_->query(fmt::format("{}ORDER BY job.id DESC LIMIT ?", kSelectJob), {limit});
       row.step();)
    jobs.push_back(read_job(row));
  return jobs;
}

std::vector<JobTask> Store::job_tasks(JobId id) {
  std::vector<JobTask> tasks;
  for (Query row = database_->query(
           "SELECT workload, weight, trials, round, best_seconds, checkpoint FROM job_task WHERE job = ? "
           "ORDER BY position",
           {id});
       row.step();)
    tasks.push_back({.workload = row.integer(),
                     .weight = row.real(),
                     .trials = row.integer(),
                     .round = static_cast<int>(row.integer()),
                     .best_seconds = row.maybe_real(),
                     .checkpoint = row.text()});
  return tasks;
}

JobProgress Store::job_progress(JobId id) {
  // A trial without an outcome counts by its state alone.
  JobProgress progress;
  for (Query row = database_->query(
           "SELECT state, coalesce(outcome, ''), count(*) FROM trial WHERE job = ? AND purpose = 'search' "
           "GROUP BY state, outcome",
           {id});
       row.step();) {
    std::string state = row.text(), outcome = row.text();
    int64_t count = row.integer();
    // A state of a later release would be counted nowhere, rather than under a wrong name.
    for (int i = 0; i < kTrialStates; ++i)
      if (to_string(static_cast<TrialState>(i)) == state) progress.states[i] += count;
    if (auto known = parse_outcome(outcome)) progress.outcomes[static_cast<int>(*known)] += count;
  }
  return progress;
}

bool Store::is_left_behind(const Job& job) {
  return job.state == JobState::kRunning && !database_->may_be_worked_on(job.id);
}

bool Store::set_job_state(JobId id, JobState state, const std::string& message) {
  // A final state stays: what is told to users is not taken back.
  return database_->run(
             "UPDATE job SET state = ?, message = ?, updated_ms = ? "
             "WHERE id = ? AND state NOT IN ('done', 'failed', 'cancelled')",
             {to_string(state), message, now_ms_(), id}) == 1;
}

void Store::checkpoint_task(JobId id, WorkloadId workload, int round, const std::string& checkpoint) {
  // The last one only: a job of a thousand rounds keeps one text a task.
  database_->run("UPDATE job_task SET round = ?, checkpoint = ? WHERE job = ? AND workload = ?",
                 {round, as_blob(checkpoint), id, workload});
}

void Store::add_job_seconds(JobId id, double seconds) {
  // Added and not set, for each life of a job knows its own time alone.
  database_->run("UPDATE job SET seconds_used = seconds_used + ?, updated_ms = ? WHERE id = ?",
                 {seconds, now_ms_(), id});
}

std::vector<KnownCandidate> Store::candidates(JobId job, WorkloadId workload, TargetId target) {
  return candidates_after(job, workload, target, 0, SIZE_MAX).first;
}

std::pair<std::vector<KnownCandidate>, CandidateId> Store::candidates_after(JobId job, WorkloadId workload,
                                                                            TargetId target,
                                                                            CandidateId after, size_t bytes) {
  std::vector<KnownCandidate> known;
  // What a checkpoint names by its program: tried by this job, or known from others before it.
  for (Query row = database_->query(
           "SELECT id, program, trace, (SELECT count(*) FROM trial WHERE job = ?1 AND "
           " candidate = candidate.id AND purpose = 'search') FROM candidate "
           "WHERE workload = ?2 AND id > ?4 AND id IN "
           "(SELECT candidate FROM trial WHERE job = ?1 UNION "
           " SELECT candidate FROM (SELECT candidate FROM measurement WHERE workload = ?2 AND target = ?3 "
           " ORDER BY id DESC LIMIT ?5) newest) ORDER BY id",
           {job, workload, target, after, kKnownMeasurements});
       row.step();) {
    const CandidateId id = row.integer();
    KnownCandidate one{.program = row.text()};
    one.trace = row.text();
    one.tried = row.integer() > 0;
    const size_t texts = one.trace.size() + one.program.size();
    if (!known.empty() && texts > bytes) break;
    bytes -= std::min(bytes, texts);
    known.push_back(std::move(one));
    after = id;
  }
  return {std::move(known), after};
}

std::map<std::pair<WorkloadId, std::string>, MeasuredAgain> Store::confirmations(JobId job) {
  std::map<std::pair<WorkloadId, std::string>, MeasuredAgain> counts;
  for (Query row =
           database_->query("SELECT workload, program, count(CASE WHEN tells = 0 THEN 1 END), "
                            "count(CASE WHEN tells = 1 THEN 1 END) FROM trial JOIN "
                            "candidate ON candidate.id = trial.candidate "
                            "WHERE job = ? AND purpose = 'confirm' AND state = 'done' GROUP BY candidate.id",
                            {job});
       row.step();) {
    const WorkloadId workload = row.integer();
    std::string program = row.text();
    MeasuredAgain& again = counts[{workload, std::move(program)}];
    again.ranked = static_cast<int>(row.integer());
    again.told = static_cast<int>(row.integer());
  }
  return counts;
}

}  // namespace lathe::db
