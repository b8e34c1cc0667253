// A tracker in this process and a worker of this machine beside it: where jobs are done without a service.
#pragma once

#include <optional>
#include <string>

#include "core/support/temporary_folder.h"
#include "core/tir/target.h"
#include "db/records.h"
#include "tracker/tracker.h"
#include "workers/local_worker.h"

namespace lathe::cli {

/// Where the tracker keeps its books, and who else may join.
struct FarmPlace {
  std::string database;
  int threads = 1;          // that the job's kernels are measured with
  std::string listen = "";  // an endpoint for workers of other machines; "": this machine's worker alone
  std::string key = "", allow = "";  // files: the tracker's keys, and the public keys of those workers
};

/// The job's own tracker, and this machine's worker beside it.
class FarmHere {
 public:
  /// `resumed`: the job that goes on, whose open trials are waited for. Throws Error for keys that cannot be
  /// read and an endpoint that cannot be listened at.
  FarmHere(const FarmPlace& place, std::optional<db::JobId> resumed);

  tracker::Tracker& tracker() { return *tracker_; }
  /// Whether no trial will ever end: this machine's worker alone was to measure, and cannot, or has fewer
  /// cores than the job has threads.
  bool is_unfit() const { return alone_ && (worker_->is_unfit() || has_few_cores()); }
  /// Throws Unfit if so.
  void require_fit() const;

 private:
  bool has_few_cores() const { return worker_->cores() < threads_; }

  // Not in a folder of the job: a socket's path may have some hundred bytes only.
  TemporaryFolder folder_;  // of the tracker's socket
  const bool alone_;        // nobody else may join
  const int threads_;
  std::optional<tracker::Tracker> tracker_;
  // After the tracker, and gone before it: a worker drains to somebody.
  std::optional<worker::LocalWorker> worker_;
};

/// Where the only worker is this machine. Throws Unfit, which ends with `hint`, for a target of other
/// machines, and for more threads than this process may use cores.
void require_worker_here(const Target& target, int64_t threads, const std::string& hint);

}  // namespace lathe::cli
