// lathe-simulated-workers --tracker tcp://HOST:PORT [--key FILE --tracker-key KEY] --count 500 [--trial-ms 1]
//   [--crash-every-ms 0] [--name NAME]
//
// Workers that measure nothing (simulated_workers.h), until SIGTERM; then one line of JSON: what they did,
// and the milliseconds from a result to the lease that took its place.
#include <signal.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "bench/flags.h"
#include "cli/keys.h"
#include "tests/tracker/simulated_workers.h"

namespace lathe::tracker::testing {
namespace {

int run(int argc, char** argv) {
  SimulatedSettings settings;
  std::string key, tracker_key;
  int64_t trial_ms = 1, crash_ms = 0;
  bench::Flags flags("Workers that measure nothing");
  flags.add("--tracker", settings.tracker, "tcp://HOST:PORT", bench::Flags::Need::kRequired);
  flags.add("--key", key, "file with their keys, from `tune keygen`: one pair for all");
  flags.add("--tracker-key", tracker_key, "the tracker's public key");
  flags.add("--count", settings.count, 1, 1000, "how many");
  flags.add("--trial-ms", trial_ms, 0, 100000, "what measuring takes");
  flags.add("--crash-every-ms", crash_ms, 0, 1'000'000'000, "one dies at once, this often; 0: none");
  flags.add("--name", settings.name, "what they are called, before a number");
  flags.parse(argc, argv);
  settings.trial = std::chrono::milliseconds(trial_ms);
  settings.crash_every = std::chrono::milliseconds(crash_ms);
  if (!key.empty()) {
    wire::check_key(tracker_key, "--tracker-key");
    settings.keys = wire::ClientKeys{.server_key = tracker_key, .own = cli::load_keys(key)};
  }

  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, nullptr);  // before there are threads, which inherit it
  SimulatedWorkers workers(settings);
  std::exception_ptr failed;
  std::jthread thread([&](const std::stop_token& stop) {
    try {
      workers.serve(stop);
    } catch (...) {
      failed = std::current_exception();
      kill(getpid(), SIGTERM);
    }
  });
  int signal = 0;
  sigwait(&signals, &signal);
  thread.request_stop();
  thread.join();
  if (failed) std::rethrow_exception(failed);
  const SimulatedReport report = workers.report();
  const auto grant = [&](double share) {
    const auto& all = report.grants_ms;
    return all.empty() ? 0.0F : all[static_cast<size_t>(share * static_cast<double>(all.size() - 1))];
  };
  std::cout << nlohmann::json{{"measured", report.measured},
                              {"crashes", report.crashes},
                              {"grants", report.grants_ms.size()},
                              {"grant_p50_ms", grant(0.5)},
                              {"grant_p99_ms", grant(0.99)}}
                   .dump()
            << std::endl;
  return 0;
}

}  // namespace
}  // namespace lathe::tracker::testing

int main(int argc, char** argv) {
  return lathe::bench::guarded_main(lathe::tracker::testing::run, argc, argv);
}
