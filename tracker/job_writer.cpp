#include "tracker/job_writer.h"

#include "tuner/record_meaning.h"

namespace lathe::tracker {

JobRows StoreJobWriter::begin(const JobStart& start) {
  auto transaction = store_.begin();
  JobRows rows;
  rows.target = store_.add_target(tuner::target_row(start.target));
  std::vector<db::ModelTask> model_tasks;
  db::NewJob job{.uuid = uuid_};
  for (const JobStart::Task& task : start.tasks) {
    // Also when a job goes on: a later release may count operations otherwise, and its numbers are wanted.
    const db::WorkloadId id = store_.add_workload(task.workload);
    rows.workloads.push_back(id);
    model_tasks.push_back({id, task.name, task.calls});
    job.tasks.push_back({id, static_cast<double>(task.calls)});
  }
  if (start.resume) {
    // Its model, budgets and seed are what they were; the caller has read them from the row.
    rows.job = *start.resume;
  } else {
    job.kind = start.kind;
    if (!start.model.empty()) {
      job.model = store_.add_model(start.model, start.model_digest);
      store_.set_model_tasks(*job.model, rows.target, model_tasks);
    }
    job.target = rows.target;
    job.threads = start.threads;
    job.trial_budget = start.trials;
    job.second_budget = start.seconds;
    job.seed = start.seed;
    job.options = start.options;
    rows.job = store_.create_job(job);
  }
  store_.set_job_state(rows.job, db::JobState::kRunning);
  rows.uuid = store_.job(rows.job).uuid;
  transaction.commit();
  return rows;
}

void StoreJobWriter::checkpoint(const JobCheckpoint& checkpoint) {
  auto transaction = store_.begin();
  for (const JobCheckpoint::Task& task : checkpoint.tasks)
    store_.checkpoint_task(checkpoint.job, task.workload, checkpoint.round, task.bytes);
  if (checkpoint.model)
    // With the checkpoints in one transaction: a model that knows more than the tasks have measured
    // would be restored as is.
    store_.add_cost_model({.job = checkpoint.job,
                           .target = checkpoint.target,
                           .round = checkpoint.round,
                           .samples = checkpoint.model->samples,
                           .spearman = checkpoint.model->spearman,
                           .recall = checkpoint.model->recall,
                           .model = checkpoint.model->bytes});
  store_.add_job_seconds(checkpoint.job, checkpoint.seconds);
  transaction.commit();
}

void StoreJobWriter::end(db::JobId job, db::JobState state, double seconds) {
  auto transaction = store_.begin();
  store_.add_job_seconds(job, seconds);
  store_.set_job_state(job, state);
  transaction.commit();
}

}  // namespace lathe::tracker
