#include "tuner/best_schedules.h"

#include "core/support/error.h"
#include "core/tir/text.h"
#include "db/store.h"
#include "schedules/schedule.h"
#include "schedules/space.h"

namespace lathe::tuner {

BestSchedules::BestSchedules(std::unique_ptr<db::Reader> records, const Target& target, int threads,
                             double max_relative_error, const std::string& model_digest)
    : records_(std::move(records)),
      target_(target),
      threads_(threads),
      max_relative_error_(max_relative_error) {
  auto known = records_->find_target(to_text(target));
  if (!known || model_digest.empty()) return;
  if (auto choice = records_->find_choice({model_digest, *known, threads, max_relative_error}))
    choice_ = std::make_unique<db::Choice>(*std::move(choice));
}

BestSchedules::BestSchedules(const std::string& database, const Target& target, int threads,
                             double max_relative_error, const std::string& model_digest)
    : BestSchedules(std::make_unique<db::Store>(database, db::StoreOptions{.read_only = true}), target,
                    threads, max_relative_error, model_digest) {}

BestSchedules::~BestSchedules() = default;

/// As JSON; "" when nothing was measured.
std::string BestSchedules::best_trace(const std::string& digest) {
  // The store is one connection; builds ask from several threads.
  std::lock_guard lock(mutex_);
  std::optional<db::WorkloadId> workload = records_->find_workload(digest);
  std::optional<db::TargetId> target = records_->find_target(to_text(target_));
  if (!workload || !target) return "";
  const db::BestQuery query{.workload = *workload,
                            .target = *target,
                            .threads = threads_,
                            .accept_unconfirmed = true,
                            .max_relative_error = max_relative_error_};
  // A choice over the whole model goes before what is best alone (decision 009).
  if (choice_)
    if (auto chosen = records_->chosen(*choice_, query)) return chosen->trace;
  auto best = records_->best(query);
  return best ? best->measurement.trace : "";
}

tir::Func BestSchedules::schedule(const tir::Func& workload) {
  std::string json = best_trace(tir::workload_digest(workload));
  try {
    if (!json.empty()) {
      tir::Func scheduled = schedule::replay(schedule::parse_trace(json), workload);
      ++measured_;
      return scheduled;
    }
  } catch (const Error&) {  // of another version: see the class
  }
  return schedule::replay(schedule::default_trace(workload, target_), workload);
}

}  // namespace lathe::tuner
