// A real tracker (CURVE, SQLite that waits for its disk) and 16 workers behind a relay that loses, doubles
// and reorders messages and cuts connections: each trial of a job ends once, in bounded time.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "core/support/digest.h"
#include "core/support/temporary_folder.h"
#include "db/store.h"
#include "tests/tracker/rough_relay.h"
#include "tests/tracker/simulated_workers.h"
#include "tracker/store_journal.h"
#include "tracker/tracker.h"
#include "workers/confine.h"

namespace lathe::tracker::testing {
namespace {

using namespace std::chrono_literals;

constexpr int kJobTrials = worker::kConfines ? 10000 : 1000;  // sanitizers have all they can do with fewer
constexpr auto kLimit = 120s;

TEST(RoughNetwork, EveryTrialEndsOnce) {
  const TemporaryFolder folder;
  const std::string database = folder / "tuning.db";
  const wire::KeyPair tracker_keys = wire::make_keys(), relay_keys = wire::make_keys(),
                      worker_keys = wire::make_keys();
  db::JobId job = 0;
  int64_t workload = 0;
  {
    db::Store store(database);
    const auto target = store.add_target({.name = "cpu", .architecture = "x86_64"});
    workload = store.add_workload({.digest = sha256("w"), .text = "w"});
    job = store.create_job({.target = target, .tasks = {{.workload = workload}}});
  }
  Tracker tracker({.endpoint = "tcp://127.0.0.1:*",
                   .keys = wire::ServerKeys{tracker_keys.secret_key, {relay_keys.public_key}},
                   .open_journal = [&] { return open_store_journal(database); }});
  RoughRelay relay({.tracker = tracker.endpoint(),
                    .to_tracker = {.server_key = tracker_keys.public_key, .own = relay_keys},
                    .own = relay_keys});
  SimulatedWorkers workers({.tracker = relay.endpoint(),
                            .keys = wire::ClientKeys{.server_key = relay_keys.public_key, .own = worker_keys},
                            .count = 16});
  std::vector<Candidate> candidates(kJobTrials);
  for (int i = 0; i < kJobTrials; ++i) {
    candidates[i].workload = workload;
    candidates[i].trace = candidates[i].program = fmt::format("trace {}", i);
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto id = static_cast<JobId>(job);
  ASSERT_EQ(tracker.submit(id, candidates).size(), candidates.size());
  std::jthread between([&](const std::stop_token& stop) { relay.serve(stop); });
  std::jthread crowd([&](const std::stop_token& stop) { workers.serve(stop); });

  std::map<TrialId, int> told;
  while (tracker.in_flight(id) > 0 && std::chrono::steady_clock::now() - begin < kLimit)
    for (const Finished& finished : tracker.poll(id, 100ms)) told[finished.trial]++;
  for (const Finished& finished : tracker.poll(id, 0ms)) told[finished.trial]++;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  for (std::jthread* thread : {&between, &crowd}) thread->request_stop(), thread->join();
  const RelayReport& rough = relay.report();
  fmt::print("{} trials in {:.0f} s through {} messages lost, {} doubled, {} out of order, {} cuts\n",
             told.size(), seconds, rough.dropped, rough.doubled, rough.reordered, rough.cuts);

  EXPECT_EQ(told.size(), candidates.size());
  for (const auto& [trial, times] : told) EXPECT_EQ(times, 1) << "trial " << trial;
  EXPECT_GT(rough.dropped, 0u);
  EXPECT_GT(rough.doubled, 0u);
  EXPECT_GT(rough.cuts, 0u);
  db::Store store(database, {.read_only = true});
  const auto count = [&](const std::string& what) {
    db::Query row = store.database().query("SELECT count(*) FROM " + what);
    return row.step() ? row.integer() : -1;
  };
  EXPECT_EQ(count("trial WHERE state = 'done'"), kJobTrials);
  EXPECT_EQ(count("trial"), kJobTrials);
  EXPECT_EQ(count("measurement"), kJobTrials);
  EXPECT_EQ(count("(SELECT DISTINCT trial FROM measurement)"), kJobTrials);
  EXPECT_EQ(count("lease WHERE ending = 'result'"), kJobTrials);
}

}  // namespace
}  // namespace lathe::tracker::testing
