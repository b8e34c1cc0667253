// What a tracker can take: its database waits for the disk (synchronous=FULL), its workers come with keys
// (CURVE) and are simulated, in one process beside it, so that both share the machine's processors.
//
//   ./run bench farm [--workers 500] [--trials 40000] [--queued 1000000] [--folder DIR] [--json]
//
//   busy    trials of 1 ms: the workers ask for more than the tracker can give. Recorded trials a second.
//   beside  the same beside 200 connections that begin to greet, a byte a second, and the same again without.
//   steady  trials so long that the workers ask for --rate trials a second: how long a free place waits for
//           its lease.
//   queued  the memory of the tracker with so many candidates queued.
//   again   a tracker that finds them open: how long until it serves, and its memory at most until then.
//   killed  the same after `tune tracker` was killed (SIGKILL) while it recorded what the workers measured.
//
// Exit code 1 when a goal is missed: 2,000 trials/s, 50 ms for 99 of 100 leases, 512 MiB, a tenth of the
// trials lost beside slow strangers.
#include <fmt/core.h>
#include <malloc.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "bench/child_process.h"
#include "bench/flags.h"
#include "cli/keys.h"
#include "core/support/clock.h"
#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/support/temporary_folder.h"
#include "db/store.h"
#include "tracker/store_journal.h"
#include "tracker/tracker.h"

namespace lathe::bench {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr double kTrialsPerSecond = 2000, kGrantMs = 50, kMemoryMib = 512;
constexpr double kLostBesideStrangers = 0.1;
constexpr int kStrangers = 200;
constexpr size_t kTogether = 5000;   // candidates a submission
constexpr size_t kTraceBytes = 500;  // of a candidate: short, as those of small kernels

struct Settings {
  int workers = 500;
  int64_t trials = 40000;
  int64_t queued = 1'000'000;
  double rate = kTrialsPerSecond;
  std::string folder;
};

/// From here on VmHWM is of what comes.
void forget_most_memory() {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
}

double own_cpu_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// Connections of whoever is slow on purpose: each says a byte of ZeroMQ's greeting, and then the next.
class Strangers {
 public:
  Strangers(int count, const std::string& endpoint) {
    sockaddr_in place{
        .sin_family = AF_INET,
        .sin_port = htons(static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))))};
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < count; ++i) {
      sockets_.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (connect(sockets_.back(), reinterpret_cast<sockaddr*>(&place), sizeof place) != 0)
        fail("cannot connect to {}", endpoint);
    }
    thread_ = std::jthread([this](const std::stop_token& stop) {
      constexpr std::string_view kGreeting("\xff\0\0\0\0\0\0\0\1\x7f\3\1", 12);
      for (size_t at = 0; !stop.stop_requested(); at = std::min(at + 1, kGreeting.size() - 1)) {
        // One that was shown out is not missed: its place is free.
        for (const int one : sockets_) (void)!send(one, &kGreeting[at], 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        std::this_thread::sleep_for(1s);
      }
    });
  }
  ~Strangers() {
    thread_ = {};
    for (const int one : sockets_) close(one);
  }
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;

 private:
  std::vector<int> sockets_;
  std::jthread thread_;
};

class Farm {
 public:
  explicit Farm(Settings settings) : settings_(std::move(settings)) {
    cli::save_keys(path("worker.key"), worker_keys_);
    db::Store store(path("tuning.db"));
    target_ = store.add_target({.name = "cpu", .architecture = "x86_64"});
    workload_ = store.add_workload({.digest = sha256("w"), .text = "w", .flops = 1});
    start_tracker();
  }

  /// Recorded trials a second while the workers ask for more.
  nlohmann::json busy() {
    const tracker::JobId job = submit(settings_.trials);
    ChildProcess workers = start(1ms);
    return finish(job, settings_.trials, workers);
  }

  /// The share of busy()'s trials that is lost beside strangers: the machine's own drift is halved out of it.
  nlohmann::json beside(double before) {
    double during = 0;
    {
      const Strangers strangers(kStrangers, tracker_->endpoint());
      during = busy()["trials_per_second"];
    }
    const double after = busy()["trials_per_second"];
    return {{"strangers", kStrangers},
            {"trials_per_second", during},
            {"without", {before, after}},
            {"lost", 1 - during / ((before + after) / 2)}};
  }

  nlohmann::json steady() {
    const auto trial =
        std::chrono::milliseconds(static_cast<int64_t>(1e3 * settings_.workers / settings_.rate));
    const tracker::JobId job = submit(settings_.trials);
    ChildProcess workers = start(trial);
    return finish(job, settings_.trials, workers);
  }

  nlohmann::json queued() {
    const double before = memory_mib(getpid(), "VmRSS");
    const auto begin = Clock::now();
    const int64_t of_job = defaults::kQueueOfJob;
    for (int64_t left = settings_.queued; left > 0; left -= of_job) submit(std::min(left, of_job));
    const double seconds = seconds_since(begin);
    ChildProcess workers = start(1s);
    wait_for_all();
    return {{"queued", settings_.queued},
            {"submit_seconds", seconds},
            {"rss_before_mib", before},
            {"rss_mib", memory_mib(getpid(), "VmRSS")},
            {"most_mib", memory_mib(getpid(), "VmHWM")}};
  }

  /// After queued().
  nlohmann::json again() {
    tracker_.reset();
    return serve_again();
  }

  /// After queued(). Nothing says to the killed tracker that it ends: what it has not committed is measured
  /// again, and its write-ahead log is left for the next one.
  nlohmann::json killed() {
    tracker_.reset();
    const std::string endpoint = "ipc://" + path("killed.socket");
    ChildProcess served({beside_us("tune"), "tracker", "--db", path("tuning.db"), "--listen", endpoint,
                         "--quiet", "--no-config"});
    ChildProcess workers({beside_us("lathe-simulated-workers"), "--tracker", endpoint, "--count",
                          std::to_string(settings_.workers), "--trial-ms", "1"});
    std::this_thread::sleep_for(5s);
    if (!served.running()) fail("`tune tracker` ended by itself");
    served.end(SIGKILL);
    workers.end(SIGTERM);
    return serve_again();
  }

 private:
  nlohmann::json serve_again() {
    forget_most_memory();
    const double before = memory_mib(getpid(), "VmRSS");
    const auto begin = Clock::now();
    start_tracker();
    const double seconds = seconds_since(begin);
    const tracker::FarmStatus status = tracker_->status();
    return {{"open", status.pending + status.leased},
            {"seconds", seconds},
            {"rss_before_mib", before},
            {"rss_mib", memory_mib(getpid(), "VmRSS")},
            {"most_mib", memory_mib(getpid(), "VmHWM")}};
  }

  void start_tracker() {
    tracker_.emplace(tracker::TrackerSettings{
        .endpoint = "tcp://127.0.0.1:*",
        .keys = wire::ServerKeys{tracker_keys_.secret_key, {worker_keys_.public_key}},
        .open_journal = [this] { return tracker::open_store_journal(path("tuning.db")); }});
  }

  std::string path(const std::string& name) const { return settings_.folder + "/" + name; }

  tracker::JobId submit(int64_t count) {
    const auto job = static_cast<tracker::JobId>([&] {
      db::Store store(path("tuning.db"));
      return store.create_job({.target = target_, .tasks = {{.workload = workload_}}});
    }());
    std::vector<tracker::Candidate> candidates;
    for (int64_t i = 0; i < count; ++i) {
      std::string trace = fmt::format("trace {} of job {} ", i, job);
      trace.resize(kTraceBytes, 'x');
      candidates.push_back({.workload = workload_, .trace = trace, .program = trace.substr(0, 32)});
      if (candidates.size() < kTogether && i + 1 < count) continue;
      tracker_->submit(job, candidates);
      candidates.clear();
    }
    return job;
  }

  ChildProcess start(std::chrono::milliseconds trial) const {
    return ChildProcess({beside_us("lathe-simulated-workers"), "--tracker", tracker_->endpoint(), "--key",
                         path("worker.key"), "--tracker-key", tracker_keys_.public_key, "--count",
                         std::to_string(settings_.workers), "--trial-ms", std::to_string(trial.count())});
  }

  void wait_for_all() {
    const auto begin = Clock::now();
    while (static_cast<int>(tracker_->status().workers.size()) < settings_.workers) {
      if (seconds_since(begin) > 60)
        fail("{} of {} workers came", tracker_->status().workers.size(), settings_.workers);
      std::this_thread::sleep_for(20ms);
    }
  }

  /// Until all is recorded. The rate is that of the middle: from a tenth to nine tenths of the trials.
  nlohmann::json finish(tracker::JobId job, int64_t trials, ChildProcess& workers) {
    wait_for_all();
    std::optional<Clock::time_point> first, last;
    int64_t recorded = 0, at_first = 0, at_last = 0;
    double cpu = 0;
    while (recorded < trials) {
      recorded += static_cast<int64_t>(tracker_->poll(job, 100ms).size());
      if (!first && recorded >= trials / 10)
        first = Clock::now(), at_first = recorded, cpu = own_cpu_seconds();
      if (!last && recorded >= trials * 9 / 10) {
        last = Clock::now(), at_last = recorded;
        cpu = own_cpu_seconds() - cpu;
      }
    }
    const double seconds = std::chrono::duration<double>(*last - *first).count();
    auto report = nlohmann::json::parse(workers.end(SIGTERM), nullptr, /*allow_exceptions=*/false);
    if (report.is_discarded()) fail("the workers ended and said nothing");
    report["trials_per_second"] = static_cast<double>(at_last - at_first) / seconds;
    report["tracker_cpu_us_per_trial"] = 1e6 * cpu / static_cast<double>(at_last - at_first);
    report["tracker_mib"] = memory_mib(getpid(), "VmRSS");
    return report;
  }

  const Settings settings_;
  const wire::KeyPair tracker_keys_ = wire::make_keys(), worker_keys_ = wire::make_keys();
  db::TargetId target_ = 0;
  int64_t workload_ = 0;
  std::optional<tracker::Tracker> tracker_;
};

int run(int argc, char** argv) {
  Settings settings;
  bool json = false;
  Flags flags("What a tracker can take");
  flags.add("--workers", settings.workers, 1, 1000, "simulated ones");
  flags.add("--trials", settings.trials, 1000, 90000, "of each part");
  flags.add("--queued", settings.queued, 1000, static_cast<int64_t>(defaults::kQueueLimit / 2),
            "candidates in the queue");
  flags.add("--rate", settings.rate, 10.0, 1e5, "trials a second in the steady part");
  flags.add("--folder", settings.folder, "of the database: on the disk that counts");
  flags.add("--json", json, "print a JSON object");
  flags.parse(argc, argv);
  std::optional<TemporaryFolder> folder;
  if (settings.folder.empty()) settings.folder = folder.emplace().path();

  Farm farm(settings);
  nlohmann::json report;
  report["busy"] = farm.busy();
  report["beside"] = farm.beside(report["busy"]["trials_per_second"]);
  report["steady"] = farm.steady();
  report["queued"] = farm.queued();
  report["again"] = farm.again();
  report["killed"] = farm.killed();
  const double rate = report["busy"]["trials_per_second"], grant = report["steady"]["grant_p99_ms"];
  double memory = 0;
  for (const char* part : {"queued", "again", "killed"})
    memory = std::max(memory, report[part]["most_mib"].get<double>());
  if (json) {
    fmt::print("{}\n", report.dump(1));
  } else {
    fmt::print(
        "busy    {:6.0f} recorded trials/s (goal {}); the tracker uses {:.0f} us of processor a trial\n",
        rate, kTrialsPerSecond, report["busy"]["tracker_cpu_us_per_trial"].get<double>());
    fmt::print("beside  {:6.0f} recorded trials/s beside {} slow strangers: {:+.1f}% (goal {:.0f}% lost)\n",
               report["beside"]["trials_per_second"].get<double>(), kStrangers,
               -100 * report["beside"]["lost"].get<double>(), 100 * kLostBesideStrangers);
    fmt::print(
        "steady  {:6.0f} trials/s; a free place waits {:.1f} ms for its lease, 99 of 100 at most {:.1f} ms "
        "(goal {})\n",
        report["steady"]["trials_per_second"].get<double>(), report["steady"]["grant_p50_ms"].get<double>(),
        grant, kGrantMs);
    fmt::print(
        "queued  {} candidates and {} workers: {:.0f} MiB, {:.0f} at most (goal {}); submitted in {:.0f} s\n",
        report["queued"]["queued"].get<int64_t>(), settings.workers,
        report["queued"]["rss_mib"].get<double>(), report["queued"]["most_mib"].get<double>(), kMemoryMib,
        report["queued"]["submit_seconds"].get<double>());
    for (const char* part : {"again", "killed"}) {
      const nlohmann::json& found = report[part];
      fmt::print("{:<7} {} open trials: serves after {:.1f} s; {:.0f} MiB, {:.0f} at most (goal {})\n", part,
                 found["open"].get<int64_t>(), found["seconds"].get<double>(), found["rss_mib"].get<double>(),
                 found["most_mib"].get<double>(), kMemoryMib);
    }
  }
  const bool kept = report["beside"]["lost"].get<double>() <= kLostBesideStrangers;
  return rate >= kTrialsPerSecond && grant <= kGrantMs && memory <= kMemoryMib && kept ? 0 : 1;
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) { return lathe::bench::guarded_main(lathe::bench::run, argc, argv); }
