// What the database holds, as it is.
#include <cmath>

#include "cli/queries/question.h"

namespace lathe::cli {

Answer answer_history(db::Store& store, const Question& question) {
  db::ModelId model = required_model(store, question);
  db::TargetId target = required_target(store, question);
  Answer answer{{"task", "us", "mad_us", "threads", "error", "confirmed", "recorded", "imported"}, {}};
  for (const db::ModelTask& task : store.model_tasks(model, target)) {
    for (const db::Measurement& each : store.latest(task.workload, target, static_cast<int>(question.limit)))
      answer.rows.push_back({task.name, microseconds(each.seconds), microseconds(each.summary.mad),
                             each.threads, each.relative_error, each.confirmed, time_text(each.recorded_ms),
                             each.imported_ms ? nlohmann::json(time_text(*each.imported_ms)) : nullptr});
  }
  answer.found = !answer.rows.empty();
  return answer;
}

Answer answer_foreign(db::Store& store, const Question& question) {
  Answer answer{{"format", "workload", "arguments", "target", "us", "samples", "measured"}, {}};
  for (const db::ForeignRecord& record :
       store.foreign_records(question.workload, static_cast<int>(question.limit)))
    answer.rows.push_back({record.format, record.workload, record.arguments, record.target,
                           record.seconds ? microseconds(*record.seconds) : nullptr, record.n,
                           record.measured_ms ? nlohmann::json(time_text(*record.measured_ms)) : nullptr});
  answer.found = !answer.rows.empty();
  return answer;
}

Answer answer_jobs(db::Store& store, const Question& question) {
  Answer answer{{"job", "state", "model", "threads", "trials", "ok", "seconds", "created", "message"}, {}};
  for (const db::Job& job : store.jobs(static_cast<int>(question.limit))) {
    db::JobProgress progress = store.job_progress(job.id);
    const db::JobState state = store.is_left_behind(job) ? db::JobState::kStopped : job.state;
    answer.rows.push_back({job.uuid.substr(0, 8), std::string(db::to_string(state)), job.model_name,
                           job.threads, progress.ended(),
                           progress.outcomes[static_cast<size_t>(Outcome::kOk)],
                           std::round(job.seconds_used * 10) / 10, time_text(job.created_ms), job.message});
  }
  answer.found = !answer.rows.empty();
  return answer;
}

Answer answer_devices(db::Store& store, const Question&) {
  Answer answer{{"device", "host", "model", "architecture", "cores", "system"}, {}};
  for (const auto& [id, device] : store.devices())
    answer.rows.push_back({db::fingerprint(device).substr(0, 12), device.host, device.model,
                           device.architecture, device.cores, device.system});
  answer.found = !answer.rows.empty();
  return answer;
}

}  // namespace lathe::cli
