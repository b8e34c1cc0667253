// A store in a folder of its own, with a target, a device, a worker, a workload and a job.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/support/temporary_folder.h"
#include "db/store.h"
#include "tests/thrown_by.h"

namespace lathe::db {

/// The database of a test, of the backend that is tested: a file, or a schema of the server that
/// DATABASE_TEST_SERVER names.
inline std::string database_in(const TemporaryFolder& folder, const char* name) {
  const char* const server = getenv("DATABASE_TEST_SERVER");
  if (!server) return folder / name;
  const std::string schema = "test_" + sha256(folder / name).substr(0, 20);
  open_database(server, Access::kReadWrite, std::chrono::seconds(5))
      ->run_script("CREATE SCHEMA IF NOT EXISTS " + schema);
  return fmt::format("{}&options=-csearch_path%3D{}", server, schema);
}

/// Rows enough for a trial. The clock stands still unless a test moves it.
struct Farm {
  explicit Farm(const std::string& path) : store(path, {.now_ms = [this] { return now_ms; }}) {}

  Lease leased(const std::string& trace) {
    NewTrial trial{.workload = workload, .trace = trace};
    TrialId id = store.add_trials(job, std::span(&trial, 1)).at(0).trial;
    return store.grant(id, "w", 1).value();
  }
  Recorded measured(const std::string& trace, std::vector<float> samples) {
    TrialResult result{.lease = leased(trace).id, .device = device, .samples = std::move(samples)};
    return store.record(std::span(&result, 1)).at(0);
  }
  JobId add_job(TargetId for_target, int threads) {
    return store.create_job({.target = for_target, .threads = threads, .tasks = {{.workload = workload}}});
  }
  std::optional<Best> best(bool accept_unconfirmed = false) {
    return store.best(
        {.workload = workload, .target = target, .device = device, .accept_unconfirmed = accept_unconfirmed});
  }

  int64_t now_ms = 1'000'000;
  Store store;
  TargetId target = store.add_target({.name = "cpu:x", .architecture = "x86_64", .features = "avx2,fma"});
  DeviceId device = store.add_device({.host = "h", .model = "m", .architecture = "x86_64", .cores = 2});
  WorkerId worker = store.add_worker("w", device);
  WorkloadId workload = store.add_workload({.digest = sha256("mm"), .text = "mm", .flops = 100, .bytes = 10});
  JobId job = add_job(target, 1);
};

}  // namespace lathe::db
