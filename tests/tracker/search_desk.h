// A searcher's desk: a SearchServer on a thread, the other end of its socket, and a farm that answers at
// once.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/support/temporary_folder.h"
#include "core/tir/builder.h"
#include "core/tir/target.h"
#include "core/tir/text.h"
#include "db/store.h"
#include "tracker/defaults.h"
#include "tracker/search_link.h"
#include "tracker/search_server.h"

namespace lathe::tracker {

inline const std::string kTarget =
    to_text(parse_target_text("cpu:triple=x86_64-pc-linux-gnu,mcpu=haswell,vector=256"));

inline constexpr const char* kRequest = R"({"model": "net", "trials": 10})";

inline constexpr TrialId kRace = 1000;

/// Remembers what it was asked; answers at once.
class EchoFarm final : public ServiceFarm {
 public:
  std::vector<Submission> submit(JobId job, std::span<const Candidate> candidates) override {
    if (full > 0 && full-- > 0) throw QueueFull("the queue is full");
    jobs.push_back(job);
    asked.insert(asked.end(), candidates.begin(), candidates.end());
    std::vector<Submission> answers(candidates.size());
    for (Submission& answer : answers) answer.trial = ++trials;
    return answers;
  }
  std::vector<Finished> poll(JobId job, std::chrono::milliseconds) override {
    Finished finished{.trial = races.empty() ? trials : kRace, .job = job};
    finished.result.samples = {0.25f, 0.5f};
    finished.result.message = "\xff is no UTF-8";
    return {finished};
  }
  size_t in_flight(JobId) override { return 3; }
  FarmStatus status() override {
    return {.slots = 5,
            .workers = {{.device_class = "m, 1 core",
                         .device = std::make_shared<const ToldDevice>(R"({"memory_bytes": 1})"),
                         .slots = 3},
                        {.device_class = "m, 2 cores", .slots = 2}},
            .unserved = {"cpu/aarch64"}};
  }
  void cancel(JobId job) override { jobs.push_back(job); }
  void leave(JobId job) override { left.push_back(job); }
  TrialId race(TrialSpec spec) override {
    races.push_back(std::move(spec));
    return kRace;
  }
  void cancel_race(TrialId race) override { cancelled_races.push_back(race); }

  std::vector<JobId> jobs;
  std::vector<Candidate> asked;
  std::vector<TrialSpec> races;
  std::vector<TrialId> cancelled_races;
  std::vector<JobId> left;
  int full = 0;  // so many times
  TrialId trials = 0;
};

struct Desk {
  TemporaryFolder folder;
  db::Store store{folder / "tuning.db"};
  EchoFarm farm;
  db::ServedJob job = store.add_served_job({.owner = "alice", .model_name = "net"});
  int ends[2] = {-1, -1};
  std::thread thread;
  SearchEnding ending;
  std::string error;
  std::atomic<bool> given_up{false};

  /// `told`: bytes of what an earlier life of the searcher told of.
  explicit Desk(size_t told = 0, uint64_t kept_bytes = defaults::kKeptBytesOfOne,
                const std::string& device_class = "") {
    job.device_class = device_class;
    if (told > 0) store.add_served_event(job.id, "progress", std::string(told, ' '));
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    thread = std::thread([this, kept_bytes] {
      try {
        db::Store own(folder / "tuning.db");
        ending =
            SearchServer(ends[1], {.request = kRequest, .target = kTarget, .folder = folder.path()}, job, own,
                         farm, defaults::kSearchSilence, kept_bytes, [this] { return given_up.load(); })
                .serve();
      } catch (const Error& caught) {
        error = caught.what();
      }
      close(ends[1]);
    });
  }
  ~Desk() { leave(); }
  void leave() {
    if (ends[0] >= 0) close(std::exchange(ends[0], -1));
    if (thread.joinable()) thread.join();
  }
  /// Sends bytes as one frame and waits until the desk has had enough.
  std::string refusal(const std::string& bytes) {
    write_search_frame(ends[0], bytes);
    std::string answer;
    read_search_frame(ends[0], answer);
    leave();
    return error;
  }
};

constexpr int64_t kOperations = 1 << 24;

/// A tensor program of so many operations.
inline std::string twice() {
  tir::FuncBuilder f;
  const tir::Buffer x = f.input("x", {kOperations}, kFloat32);
  const tir::Buffer y =
      f.compute("y", {kOperations}, [&](tir::Vars i) { return tir::load(x, {i[0]}) * Expr(2.0); });
  return tir::print(f.finish("twice", {y}));
}

inline JobStart start_of(const std::string& text) {
  return {.model = "net",
          .model_digest = sha256(fmt::format("2 {}\n", sha256(text))),  // tuner::tasks_digest
          .target = kTarget,
          .tasks = {{{sha256(text), text, 1e6, 1e3}, "dense", 2}},
          .trials = 10};
}

/// A trial of the job that took 0.25 s.
inline db::TrialId measure(db::Store& store, db::JobId job, db::WorkloadId workload,
                           const std::string& program,
                           const db::Device& on = {.host = "h", .architecture = "x86_64"}) {
  const db::DeviceId device = store.add_device(on);
  store.add_worker("w", device);
  const db::NewTrial trial{.workload = workload, .trace = "trace of " + program, .program = program};
  const db::TrialId id = store.add_trials(job, std::span(&trial, 1)).at(0).trial;
  db::TrialResult result{.lease = store.grant(id, "w", store.begin_epoch())->id, .device = device};
  result.samples = {0.5f, 0.25f, 0.125f};
  result.relative_error = 1e-5;
  result.compiler = "llvm";
  store.record(std::span(&result, 1));
  return id;
}

}  // namespace lathe::tracker
