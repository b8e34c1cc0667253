#include "tuner/best_schedules.h"

#include "core/support/error.h"
#include "core/tir/dims.h"
#include "core/tir/text.h"
#include "db/store.h"
#include "schedules/schedule.h"
#include "schedules/space.h"

namespace lathe::tuner {

BestSchedules::BestSchedules(std::unique_ptr<db::Reader> records, const Target& target, int threads,
                             double max_relative_error, const std::string& model_digest, OpenPrograms open)
    : records_(std::move(records)),
      target_(target),
      threads_(threads),
      max_relative_error_(max_relative_error),
      open_(std::move(open)) {
  auto known = records_->find_target(to_text(target));
  if (!known) return;
  families_.emplace(*records_, *known, threads, max_relative_error);
  if (model_digest.empty()) return;
  if (auto choice = records_->find_choice({model_digest, *known, threads, max_relative_error}))
    choice_ = std::make_unique<db::Choice>(*std::move(choice));
}

BestSchedules::BestSchedules(const std::string& database, const Target& target, int threads,
                             double max_relative_error, const std::string& model_digest)
    : BestSchedules(std::make_unique<db::Store>(database, db::StoreOptions{.read_only = true}), target,
                    threads, max_relative_error, model_digest) {}

BestSchedules::~BestSchedules() = default;

db::BestQuery BestSchedules::query_of(db::WorkloadId workload, db::TargetId target) const {
  return {.workload = workload,
          .target = target,
          .threads = threads_,
          .accept_unconfirmed = true,
          .max_relative_error = max_relative_error_};
}

/// As JSON; "" when nothing was measured.
std::string BestSchedules::best_trace(const std::string& digest) {
  // The store is one connection; builds ask from several threads.
  std::lock_guard lock(mutex_);
  if (auto member = traces_.find(digest); member != traces_.end()) return member->second;
  std::optional<db::WorkloadId> workload = records_->find_workload(digest);
  std::optional<db::TargetId> target = records_->find_target(to_text(target_));
  if (!workload || !target) return "";
  const db::BestQuery query = query_of(*workload, *target);
  // A choice over the whole model goes before what is best alone (decision 009).
  if (choice_)
    if (auto chosen = records_->chosen(*choice_, query)) return chosen->trace;
  auto best = records_->best(query);
  return best ? best->measurement.trace : "";
}

/// A choice of default schedules, for the untuned build was faster, holds for whole families.
bool BestSchedules::keeps_defaults(const std::vector<TunedMember>& family) {
  for (const TunedMember& member : family)
    for (const TunedMember::At& at : member.at)
      if (choice_ && records_->chosen(*choice_, query_of(at.workload, choice_->key.target))) return true;
  return false;
}

std::vector<schedule::Member> BestSchedules::family(const tir::Func& workload) {
  if (tir::dims_of(*workload).empty()) return schedule::family_of(workload);
  std::vector<schedule::Member> members = family_of_known(open_, workload);
  std::lock_guard lock(mutex_);
  const auto wanted = open_.find(tir::workload_digest(workload));
  std::vector<TunedMember> tuned;
  if (families_) tuned = families_->family(workload, wanted == open_.end() ? OpenProgram() : wanted->second);
  if (tuned.empty()) return members;
  if (keeps_defaults(tuned)) {
    for (const schedule::Member& member : members) traces_[tir::workload_digest(member.program)] = "";
    return members;
  }
  members.clear();
  for (TunedMember& member : tuned) {
    traces_[tir::workload_digest(member.member.program)] = std::move(member.trace);
    members.push_back(std::move(member.member));
  }
  return members;
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
