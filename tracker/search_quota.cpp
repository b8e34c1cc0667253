#include "tracker/search_quota.h"

#include <algorithm>

namespace lathe::tracker {
namespace {

// A search by time proposes a few hundred candidates a second at most.
constexpr double kTrialsOfSecond = 1000;
// Each leader of a task is measured again (confirm.h), and where workers are lost, again.
constexpr int64_t kConfirmationsOfTask = 64, kMostTasks = 1000;
// Texts, on average: a trial's trace is a few KiB, a task's workload and programs are told of some ten times.
constexpr int64_t kTrialBytes = 32 << 10, kTaskBytes = 4 << 20, kJobBytes = 64 << 20;
constexpr double kSecondBytes = 16 << 10;  // progress is told of twice a second
constexpr int64_t kRowBytes = 256;         // of a row besides its texts

int64_t bytes_of(size_t rows, size_t texts) { return static_cast<int64_t>(texts + rows * kRowBytes); }

QuotaError no_room() {
  return QuotaError("the database has no more room for its owner: an administrator can raise `kept-gib=`");
}

// A job has trials or seconds; parse_job_request refuses one without either.
int64_t searched(const JobRequest& request) {
  constexpr double kMost = int64_t{1} << 40;
  return request.trials > 0 ? request.trials
                            : static_cast<int64_t>(std::min(kMost, request.seconds * kTrialsOfSecond));
}

}  // namespace

SearchQuota::SearchQuota(const JobRequest& request, const db::StoredByJob& stored, int64_t room)
    : searched_(searched(request)),
      room_(room),
      // What earlier lives of the job have stored counts: a searcher is not to gain by crashing.
      tasks_(std::min(stored.tasks, kMostTasks)),
      trials_(stored.trials),
      bytes_(stored.bytes + (stored.trials + stored.events) * kRowBytes) {}

void SearchQuota::set_tasks(size_t tasks) {
  tasks_ = std::min<int64_t>(static_cast<int64_t>(tasks), kMostTasks);
}

void SearchQuota::set_age(double seconds) { seconds_ = std::max(0.0, seconds); }

int64_t SearchQuota::most_trials() const { return searched_ + kConfirmationsOfTask * tasks_; }

int64_t SearchQuota::most_bytes() const {
  return kJobBytes + kTaskBytes * tasks_ + kTrialBytes * most_trials() +
         static_cast<int64_t>(kSecondBytes * seconds_);
}

// These bounds are far above what any search of ours does; whoever meets them is no search of ours.
void SearchQuota::require(int64_t trials, int64_t bytes) const {
  if (trials_ + trials > most_trials())
    throw QuotaError(
        fmt::format("its search asks for more than {} trials, which a job of {} may have with "
                    "confirmations",
                    most_trials(), searched_));
  if (bytes > room_ - bytes_ - state_) throw no_room();
  if (bytes_ + bytes > most_bytes())
    throw QuotaError(
        fmt::format("its search wants to keep more than {} MiB, which a job of {} trials may by now",
                    most_bytes() >> 20, searched_));
}

void SearchQuota::take_trials(size_t count, size_t bytes) {
  const auto rows = static_cast<int64_t>(count);
  const int64_t all = bytes_of(count, bytes);
  require(rows, all);
  trials_ += rows;
  bytes_ += all;
}

void SearchQuota::take_text(size_t bytes) {
  const int64_t all = static_cast<int64_t>(bytes) + kRowBytes;
  require(0, all);
  bytes_ += all;
}

void SearchQuota::keep_state(size_t bytes) {
  const auto now = static_cast<int64_t>(bytes);
  if (now > state_ && now > room_ - bytes_) throw no_room();
  state_ = now;
}

// Texts stay counted: the farm has read them, and a flood of known candidates is a flood.
void SearchQuota::return_trials(size_t count) { trials_ -= static_cast<int64_t>(count); }

void SearchQuota::give_back(size_t count, size_t bytes) {
  trials_ -= static_cast<int64_t>(count);
  bytes_ -= bytes_of(count, bytes);
}

}  // namespace lathe::tracker
