// Schedules for a build from the tuning database.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "core/tir/stmt.h"
#include "core/tir/target.h"

namespace lathe::db {
class Store;
}

namespace lathe::tuner {

/// The best known schedule of each workload; the default one where none was measured, or where the record was
/// made by a program whose schedules no longer apply. Thread-safe. Counts, so that the user can be told
/// how much of a build rests on measurements.
class BestSchedules {
 public:
  /// Opens the database for reading. Throws Error when it cannot.
  BestSchedules(const std::string& database, const Target& target, int threads);
  ~BestSchedules();

  tir::Func schedule(const tir::Func& workload);
  int measured() const { return measured_; }

 private:
  std::string best_trace(const std::string& digest);

  std::mutex mutex_;  // of the store
  std::unique_ptr<db::Store> store_;
  const Target target_;
  const int threads_;
  std::atomic<int> measured_ = 0;
};

}  // namespace lathe::tuner
