#include "tracker/api_json.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/support/temporary_folder.h"

namespace lathe::tracker {
namespace {

/// Lines that are no comments; each a series that Prometheus keeps.
size_t series(const std::string& metrics) {
  std::istringstream lines(metrics);
  size_t count = 0;
  for (std::string line; std::getline(lines, line);) count += !line.starts_with('#');
  return count;
}

/// P4: 2,000 at most, however many workers there are, and whatever they call their devices.
TEST(Metrics, HaveSoManySeries) {
  TemporaryFolder folder;
  db::Store store(folder / "t.db");
  FarmStatus farm;
  for (int i = 0; i < 500; ++i)
    farm.workers.push_back({.name = fmt::format("w{}", i), .device_class = fmt::format("CPU {}", i % 4)});
  EXPECT_LE(series(metrics_text(farm, store)), 40u);
  farm.workers.clear();
  for (int i = 0; i < 5000; ++i)
    farm.workers.push_back({.name = fmt::format("w{}", i),
                            .device_class = fmt::format("made up {}", i),
                            .slots = static_cast<uint32_t>(i == 4999 ? 7 : 1),
                            .leases = 1});
  const std::string many = metrics_text(farm, store);
  EXPECT_LE(series(many), 2000u);
  EXPECT_NE(many.find("lathe_device_slots{device_class=\"made up 4999\"} 7\n"), std::string::npos)
      << "the large ones are told";
  EXPECT_NE(many.find("lathe_device_leases{device_class=\"all others\"} 4500\n"), std::string::npos) << many;
}

/// A job that is done with fewer trials than it asked for.
TEST(JobJson, SaysWhyItsSearchEnded) {
  TemporaryFolder folder;
  db::Store store(folder / "t.db");
  const db::ServedJobId id = store.add_served_job({.owner = "alice", .model_name = "net"}).id;
  EXPECT_EQ(job_json(store.served_job(id), store)["ended"], "");
  store.set_served_report(id, R"({"ended": "no candidate left"})");
  EXPECT_EQ(job_json(store.served_job(id), store)["ended"], "no candidate left");
  // A searcher's own: each list would have it, and whoever answers would keep it.
  store.set_served_report(id, R"({"ended": ")" + std::string(1'000'000, 'x') + R"("})");
  EXPECT_EQ(job_json(store.served_job(id), store)["ended"], "");
  store.set_served_report(id, R"({"ended": 7})");
  EXPECT_EQ(job_json(store.served_job(id), store)["ended"], "");
}

/// Of each stretch of a long job the first and the last.
TEST(JobJson, ACurveHasSoManyPoints) {
  TemporaryFolder folder;
  db::Store store(folder / "t.db");
  const db::ServedJob job = store.add_served_job({.owner = "alice", .model_name = "net"});
  for (int i = 1; i <= 100; ++i) {
    store.add_served_event(job.id, "progress", fmt::format(R"({{"trials": {}, "model_seconds": 1}})", i));
    store.add_served_event(job.id, "task_state", "[]");
  }
  store.add_served_event(job.id, "progress", "[no JSON");
  const auto trials_of = [&](int points) {
    std::vector<int> trials;
    const nlohmann::json curve = curve_json(job, store, points);
    for (const nlohmann::json& point : curve["points"]) trials.push_back(point[1]);
    return trials;
  };
  EXPECT_EQ(trials_of(4), (std::vector{1, 51, 52})) << "what is no JSON is no point";
  EXPECT_EQ(trials_of(5000).size(), 100u);
}

/// A name of a device ends no line and no quotes.
TEST(Metrics, NamesAreQuoted) {
  TemporaryFolder folder;
  db::Store store(folder / "t.db");
  FarmStatus farm;
  farm.workers.push_back({.name = "w", .device_class = "a\"} 1\nlathe_workers 7 \\"});
  const std::string metrics = metrics_text(farm, store);
  EXPECT_NE(metrics.find(R"(lathe_device_slots{device_class="a\"} 1 lathe_workers 7 \\"} 0)"),
            std::string::npos)
      << metrics;
}

}  // namespace
}  // namespace lathe::tracker
