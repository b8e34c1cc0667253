// A keeper with a job, where shells stand for searchers and nobody measures.
#pragma once

#include <fmt/core.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "core/tir/target.h"
#include "db/database_error.h"
#include "tracker/farm.h"
#include "tracker/job_keeper.h"

namespace lathe::tracker {

/// A worker that no candidate comes back from.
class SilentFarm final : public ServiceFarm {
 public:
  std::vector<Submission> submit(JobId, std::span<const Candidate> candidates) override {
    if (disk_full) {
      ++refused;
      throw db::DatabaseError("database tuning.db can't grow");
    }
    if (failed) {
      ++refused;
      throw Error("cannot write /srv/tuning.db-artifacts/6f67");
    }
    if (refuses) {
      ++refused;
      throw db::RefusedValueError("database tuning.db: CHECK constraint failed: calls > 0");
    }
    submitted += candidates.size();
    return std::vector<Submission>(candidates.size());
  }
  std::vector<Finished> poll(JobId, std::chrono::milliseconds) override { return {}; }
  size_t in_flight(JobId) override { return submitted; }
  FarmStatus status() override {
    if (failed && refused > 0) throw Error("cannot write /srv/tuning.db-artifacts/6f67");
    const std::string target =
        to_text(parse_target_text("cpu:triple=x86_64-pc-linux-gnu,mcpu=haswell,vector=256"));
    FarmStatus status{.slots = 1};
    ++looks;
    for (const char* model : {"m", "n"}) {
      if (*model == 'm' ? bool(empty) : !has_another) continue;
      status.workers.push_back(
          {.name = model,
           .device_class = fmt::format("{}, 1 core", model),
           .device = std::make_shared<const ToldDevice>(fmt::format(
               R"({{"model": "{}", "cores": 1, "architecture": "x86_64", "target": "{}"}})", model, target)),
           .backends = {"cpu"},
           .slots = 1,
           .mute = *model == 'm' && mute});
    }
    return status;
  }
  void cancel(JobId job) override {
    ++cancelled;
    cancelled_job = job;
  }
  TrialId race(TrialSpec) override { return 0; }
  void cancel_race(TrialId) override {}
  void leave(JobId) override {}

  std::atomic<size_t> submitted{0}, cancelled{0}, refused{0}, looks{0};
  std::atomic<JobId> cancelled_job{0};
  std::atomic<bool> disk_full{false}, failed{false}, refuses{false}, empty{false}, has_another{false},
      mute{false};
};

inline bool soon(const std::function<bool()>& condition) {
  for (int i = 0; i < 1500; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

inline const std::string kDigest(64, 'a');
inline constexpr const char* kTenTrials = R"({"model": "net", "trials": 10})";

struct Setup {
  std::string request = kTenTrials;
  uint64_t search_bytes = KeeperSettings{}.search_bytes;
  size_t model_bytes = 0;  // of an upload called kDigest
  bool disk_full = false;
  bool failed = false;
  bool refuses = false;
  bool begun = false;  // in an earlier life
};

/// A job, and a keeper that has it searched by `searcher`.
struct Office {
  TemporaryFolder folder;
  SilentFarm farm;
  db::Store store{folder / "tuning.db"};
  db::ServedJob job;
  db::JobId search = 0;
  std::unique_ptr<JobKeeper> keeper;

  explicit Office(const std::vector<std::string>& searcher, const Setup& setup = {})
      : job(store.add_served_job({.owner = "alice", .model_name = "net", .request = setup.request})) {
    farm.disk_full = setup.disk_full;
    farm.failed = setup.failed;
    farm.refuses = setup.refuses;
    if (setup.begun) {
      search = store.create_job({.target = store.add_target({.name = "cpu:x"})});
      store.set_served_search(job.id, search);
    }
    std::filesystem::create_directories(folder / "files/blobs");
    if (setup.model_bytes > 0)
      write_file(folder / "files/blobs/" + kDigest, std::string(setup.model_bytes, 'x'));
    keeper = std::make_unique<JobKeeper>(KeeperSettings{.database = folder / "tuning.db",
                                                        .folder = folder / "files",
                                                        .searcher = searcher,
                                                        .search_bytes = setup.search_bytes},
                                         farm);
  }
  db::ServedJob now() { return store.served_job(job.id); }
  db::JobState state() { return now().state; }
};

inline std::vector<std::string> shell(const std::string& script) { return {"/bin/sh", "-c", script}; }

}  // namespace lathe::tracker
