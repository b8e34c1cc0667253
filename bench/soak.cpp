// Does a tracker stay as it is? Workers that measure nothing keep it busy for --time, one of them dying now
// and then, and the tracker itself is killed (SIGKILL) four times in the first half. In the second half it is
// left alone: its memory, descriptors and write-ahead log may not grow. At the end the database is checked.
//
//   ./run bench soak [--time 60s] [--workers 50] [--folder DIR] [--json]
//
// Exit code 1 when something grows, or a trial was recorded twice or lost.
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <thread>

#include "bench/child_process.h"
#include "bench/flags.h"
#include "cli/keys.h"
#include "core/support/digest.h"
#include "core/support/disk.h"
#include "core/support/error.h"
#include "core/support/temporary_folder.h"
#include "db/store.h"
#include "tracker/store_journal.h"
#include "tracker/tracker.h"

namespace lathe::bench {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kKills = 4;
constexpr size_t kInFlight = 5000, kTogether = 1000;  // candidates
// What may change while nothing grows: the allocator's and SQLite's caches fill, connections come and go.
constexpr double kMemorySlackMib = 16, kLogLimitMib = 64;
constexpr int kDescriptorSlack = 32;

struct Settings {
  double seconds = 60;
  int workers = 50;
  std::string folder, serve;
};

// --- the tracker's process

std::atomic<bool> stopped{false};

/// A tracker that always has something queued, of jobs of its own, until SIGTERM.
int serve(const std::string& folder, const std::string& endpoint) {
  signal(SIGTERM, [](int) { stopped = true; });
  const std::string database = folder + "/tuning.db";
  tracker::Tracker tracker({.endpoint = endpoint,
                            .keys = wire::ServerKeys{cli::load_keys(folder + "/tracker.key").secret_key,
                                                     {cli::load_keys(folder + "/worker.key").public_key}},
                            .open_journal = [&] { return tracker::open_store_journal(database); }});
  db::Store store(database);
  const auto target = store.add_target({.name = "cpu", .architecture = "x86_64"});
  const auto workload = store.add_workload({.digest = sha256("w"), .text = "w", .flops = 1});
  const auto job =
      static_cast<tracker::JobId>(store.create_job({.target = target, .tasks = {{.workload = workload}}}));
  for (int64_t count = 0; !stopped;) {
    tracker.poll(job, 100ms);
    if (tracker.in_flight(job) > kInFlight) continue;
    std::vector<tracker::Candidate> candidates(kTogether);
    for (tracker::Candidate& candidate : candidates) {
      candidate.workload = workload;
      candidate.trace = candidate.program = fmt::format("trace {} of job {}", count++, job);
    }
    tracker.submit(job, candidates);
  }
  return 0;
}

// --- the one that watches

struct Sample {
  double seconds, memory_mib, log_mib;
  int descriptors;
};

int descriptors_of(pid_t process) {
  std::error_code gone;
  const std::filesystem::directory_iterator folder(fmt::format("/proc/{}/fd", process), gone);
  return gone ? 0 : static_cast<int>(std::distance(begin(folder), end(folder)));
}

class Soak {
 public:
  explicit Soak(Settings settings) : settings_(std::move(settings)) {
    const wire::KeyPair keys = wire::make_keys();
    tracker_key_ = keys.public_key;
    cli::save_keys(path("tracker.key"), keys);
    cli::save_keys(path("worker.key"), wire::make_keys());
    for (int i = 0; i < kKills; ++i)
      kills_.push_back(settings_.seconds / 2 * (i + static_cast<double>(random_() % 1000) / 1e3) / kKills);
  }

  nlohmann::json run() {
    start_tracker();
    ChildProcess workers({beside_us("lathe-simulated-workers"), "--tracker", endpoint(), "--key",
                          path("worker.key"), "--tracker-key", tracker_key_, "--count",
                          std::to_string(settings_.workers), "--trial-ms", "20", "--crash-every-ms", "1000"});
    const auto begin = Clock::now();
    for (double now = 0; now < settings_.seconds;
         now = std::chrono::duration<double>(Clock::now() - begin).count()) {
      std::this_thread::sleep_for(200ms);
      if (!tracker_->running() || !workers.running()) fail("a process ended by itself");
      if (!kills_.empty() && now >= kills_.front()) {
        kills_.erase(kills_.begin());
        tracker_->end(SIGKILL);
        start_tracker();
        continue;
      }
      samples_.push_back(
          {now, memory_mib(tracker_->pid(), "VmRSS"), log_mib(), descriptors_of(tracker_->pid())});
    }
    tracker_->end(SIGTERM);
    return judge(nlohmann::json::parse(workers.end(SIGTERM), nullptr, /*allow_exceptions=*/false));
  }

 private:
  std::string path(const std::string& name) const { return settings_.folder + "/" + name; }
  std::string endpoint() const { return fmt::format("ipc://{}/socket", settings_.folder); }

  void start_tracker() {
    tracker_ = std::make_unique<ChildProcess>(std::vector<std::string>{
        beside_us("lathe-bench-soak"), "--serve", endpoint(), "--folder", settings_.folder});
  }

  double log_mib() const {
    std::error_code missing;
    const auto bytes = std::filesystem::file_size(path("tuning.db-wal"), missing);
    return missing ? 0 : static_cast<double>(bytes) / (1 << 20);
  }

  /// The most that `of` gives from one share of the time to another.
  template <typename Of>
  double most(double from, double to, Of of) const {
    double most = 0;
    for (const Sample& sample : samples_)
      if (sample.seconds >= from * settings_.seconds && sample.seconds < to * settings_.seconds)
        most = std::max(most, static_cast<double>(of(sample)));
    return most;
  }

  nlohmann::json judge(nlohmann::json workers) const {
    const auto memory = [](const Sample& s) { return s.memory_mib; };
    const auto descriptors = [](const Sample& s) { return s.descriptors; };
    const double memory_then = most(0.625, 0.75, memory), memory_now = most(0.875, 1, memory);
    const double descriptors_then = most(0.625, 0.75, descriptors),
                 descriptors_now = most(0.875, 1, descriptors);
    const double log = most(0, 1, [](const Sample& s) { return s.log_mib; });
    db::Store store(path("tuning.db"), {.read_only = true});
    const auto count = [&](const std::string& what) {
      db::Query row = store.database().query("SELECT count(*) FROM " + what);
      return row.step() ? row.integer() : -1;
    };
    const int64_t done = count("trial WHERE state = 'done'");
    const int64_t doubled =
        count("(SELECT trial FROM lease WHERE ending = 'result' GROUP BY trial HAVING count(*) > 1)");
    const int64_t lost = done - count("(SELECT DISTINCT trial FROM measurement)");
    const int64_t damaged = count("pragma_integrity_check WHERE integrity_check <> 'ok'");
    const bool kept = done > 0 && doubled == 0 && lost == 0 && damaged == 0 && log <= kLogLimitMib &&
                      memory_now <= memory_then + kMemorySlackMib &&
                      descriptors_now <= descriptors_then + kDescriptorSlack;
    return {{"seconds", settings_.seconds},
            {"recorded", done},
            {"recorded_twice", doubled},
            {"without_measurement", lost},
            {"damaged", damaged},
            {"tracker_kills", kKills},
            {"worker_crashes", workers.is_object() ? workers["crashes"] : nlohmann::json()},
            {"memory_mib", {memory_then, memory_now}},
            {"descriptors", {descriptors_then, descriptors_now}},
            {"log_mib", log},
            {"kept", kept}};
  }

  const Settings settings_;
  std::mt19937 random_{std::random_device()()};
  std::string tracker_key_;
  std::vector<double> kills_;  // when, in order
  std::unique_ptr<ChildProcess> tracker_;
  std::vector<Sample> samples_;
};

int run(int argc, char** argv) {
  Settings settings;
  bool json = false;
  Flags flags("Does a tracker stay as it is?");
  flags.add_duration("--time", settings.seconds, 10.0, 1e6, "how long: 60s, 10m, 8h");
  flags.add("--workers", settings.workers, 1, 1000, "simulated ones");
  flags.add("--folder", settings.folder, "of the database, an empty one: on the disk that counts");
  flags.add("--serve", settings.serve, "the tracker's process");
  flags.hide("--serve");
  flags.add("--json", json, "print a JSON object");
  flags.parse(argc, argv);
  if (!settings.serve.empty()) return serve(settings.folder, settings.serve);
  std::optional<TemporaryFolder> folder;
  if (settings.folder.empty()) settings.folder = folder.emplace().path();
  make_folder(settings.folder);
  // A farm that is there already, a soak's or somebody's, has keys and trials that would count as this one's.
  if (!std::filesystem::is_empty(settings.folder))
    fail("--folder {}: it is not empty; a farm of its own is made there", settings.folder);
  const nlohmann::json report = Soak(settings).run();
  if (json)
    fmt::print("{}\n", report.dump(1));
  else
    for (const auto& [what, value] : report.items()) fmt::print("{:<20} {}\n", what, value.dump());
  return report["kept"] ? 0 : 1;
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) { return lathe::bench::guarded_main(lathe::bench::run, argc, argv); }
