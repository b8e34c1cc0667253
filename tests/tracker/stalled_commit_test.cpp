// A disk that takes nothing for seconds: what honest workers say meanwhile waits in the tracker, which cuts
// off whoever makes too much of that wait (tracker/wire/connections.h).
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "tests/tracker/memory_journal.h"
#include "tests/tracker/passing_journal.h"
#include "tests/tracker/simulated_workers.h"
#include "tracker/tracker.h"
#include "workers/confine.h"

namespace lathe::tracker::testing {
namespace {

using namespace std::chrono_literals;

constexpr int kWorkers = worker::kConfines ? 500 : 50;
constexpr int kJobTrials = 20 * kWorkers;

class StallingJournal final : public PassingJournal {
 public:
  StallingJournal(std::atomic<bool>& stall, std::chrono::milliseconds time)
      : PassingJournal(memory_), stall_(stall), time_(time) {}
  std::vector<LeaseId> commit(std::span<const Record> records) override {
    if (stall_.exchange(false)) std::this_thread::sleep_for(time_);
    return PassingJournal::commit(records);
  }

 private:
  MemoryJournal memory_;
  std::atomic<bool>& stall_;
  const std::chrono::milliseconds time_;
};

/// What the tracker says of connections while 500 workers have more to do than they can, and one commit takes
/// so long.
std::vector<std::string> said_of_a_stall(bool with_keys, uint32_t builders, std::chrono::milliseconds time) {
  const wire::KeyPair tracker_keys = wire::make_keys(), worker_keys = wire::make_keys();
  std::atomic<bool> stall = false;
  std::mutex mutex;
  std::vector<std::string> said;
  TrackerSettings settings{.endpoint = "tcp://127.0.0.1:*",
                           .open_journal = [&] { return std::make_unique<StallingJournal>(stall, time); },
                           .log =
                               [&](const std::string& line) {
                                 std::lock_guard lock(mutex);
                                 said.push_back(line);
                               }};
  if (with_keys) settings.keys = wire::ServerKeys{tracker_keys.secret_key, {worker_keys.public_key}};
  Tracker tracker(std::move(settings));
  SimulatedSettings crowd{
      .tracker = tracker.endpoint(), .count = kWorkers, .builders = builders, .samples = 1000};
  if (with_keys) crowd.keys = wire::ClientKeys{.server_key = tracker_keys.public_key, .own = worker_keys};
  SimulatedWorkers workers(crowd);
  std::vector<Candidate> candidates(kJobTrials);
  for (int i = 0; i < kJobTrials; ++i) {
    candidates[i].workload = 1;
    candidates[i].trace = candidates[i].program = fmt::format("trace {}", i);
  }
  tracker.submit(1, candidates);
  std::jthread serving([&](const std::stop_token& stop) { workers.serve(stop); });
  size_t done = 0;
  bool stalled = false;
  // However long that takes beside others: what is asked is who is cut off, and who runs the test has a
  // limit.
  while (tracker.in_flight(1) > 0) {
    done += tracker.poll(1, 100ms).size();
    if (!stalled && done >= kJobTrials / 4) stall = stalled = true;
  }
  serving.request_stop();
  serving.join();
  std::lock_guard lock(mutex);
  std::erase_if(said, [](const std::string& line) { return line.find("without end") == std::string::npos; });
  return said;
}

TEST(StalledCommit, CutsNobodyOff) {
  for (const bool with_keys : {false, true})
    for (const uint32_t builders : {1, 8}) {
      const std::vector<std::string> said = said_of_a_stall(with_keys, builders, 5s);
      fmt::print("keys {}, builders {}: cut off {}\n", with_keys, builders, said.size());
      EXPECT_TRUE(said.empty()) << said[0];
    }
}

}  // namespace
}  // namespace lathe::tracker::testing
