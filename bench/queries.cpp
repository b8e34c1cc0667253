// How long the database's queries take when it holds a million trials (docs/database.md has the limits), on
// rows made up by SQL: two devices, models of 60 tasks, traces as long as real ones.
//
//   ./run bench queries [--trials 1000000] [--db FILE] [--json]
//
// A named database is kept, and used again when it is there. Exit code 1 when a query misses its limit.
#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "bench/flags.h"
#include "core/support/clock.h"
#include "core/support/digest.h"
#include "core/support/temporary_folder.h"
#include "db/store.h"

namespace lathe::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWorkloads = 300, kTasksOfAModel = 60;
constexpr const char* kTarget = "cpu:synthetic";

/// Rows that refer to each other as those of real jobs do: half the trials on each device, the same
/// candidates on both, three of a thousand confirmed, one of fifty failed.
void fill(db::Store& store, int64_t trials) {
  db::Database& database = store.database();
  const db::TargetId target = store.add_target({.name = kTarget, .architecture = "x86_64"});
  for (const char* host : {"first", "second"})
    store.add_worker(host, store.add_device({.host = host, .model = "m", .architecture = "x86_64"}));
  db::NewJob job{.target = target};
  std::vector<db::ModelTask> tasks;
  for (int i = 0; i < kWorkloads; ++i) {
    const std::string name = fmt::format("task{}", i);
    const db::WorkloadId id = store.add_workload(
        {.digest = sha256(name), .text = name + std::string(3000, ' '), .flops = 1e9, .bytes = 1e6});
    job.tasks.push_back({.workload = id});
    tasks.push_back({.workload = id, .name = name});
    if (tasks.size() < kTasksOfAModel) continue;
    store.set_model_tasks(store.add_model(fmt::format("model{}", i / kTasksOfAModel), "d"), target, tasks);
    tasks.clear();
  }
  store.create_job(job);
  const int64_t candidates = trials / 2;
  db::Transaction transaction = store.begin();
  database.run(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1) "
      "INSERT INTO candidate(id, digest, workload, target, program, trace) "
      "SELECT i, printf('%064d', i), 1 + i % ?2, 1, printf('%016x', i), printf('%.*c', 2000, 'x') FROM n",
      {candidates, kWorkloads});
  for (int device : {1, 2}) {
    // Trials of the second device follow those of the first: ids are candidate ids beyond `first`.
    const int64_t first = (device - 1) * candidates;
    database.run(
        "INSERT INTO trial(id, job, candidate, purpose, threads, settings, state, predicted, outcome, lease, "
        "created_ms, ended_ms) SELECT ?1 + id, 1, id, iif(?2 = 1, 'search', 'confirm'), 1 + id / 300 % 2, "
        "'{}', "
        "iif(id % 50 = 0, 'failed', 'done'), 0, iif(id % 50 = 0, 'crashed', 'ok'), ?1 + id, 0, 0 FROM "
        "candidate",
        {first, device});
    database.run(
        "INSERT INTO lease(id, trial, attempt, worker, epoch, granted_ms, ended_ms, ending) "
        "SELECT ?1 + id, ?1 + id, 1, ?2, 1, 0, 0, 'result' FROM candidate",
        {first, device});
    database.run(
        "INSERT INTO measurement(candidate, workload, target, device, threads, trial, worker, seconds, "
        "median, "
        "p25, min, mad, n, samples, relative_error, compiler, revision, recorded_ms, confirmed) "
        "SELECT id, workload, 1, ?2, 1 + id / 300 % 2, ?1 + id, ?2, s, s, s, s, 0, 20, zeroblob(80), "
        "iif(id % 7 = 0, 1e-2, 1e-6), 'llvm', 'r', 0, id / 300 % 333 = 0 FROM (SELECT id, workload, "
        "1e-4 * (1 + (id * 7919 + ?2 * 104729) % 100003 / 1e3) AS s FROM candidate WHERE id % 50 <> 0)",
        {first, device});
  }
  transaction.commit();
  // Queries read the database itself, and not a log of all that was inserted.
  database.run("PRAGMA wal_checkpoint(TRUNCATE)");
}

/// Of the processor's time: what others on the machine take is not the query's. `wall_ms`: the median by the
/// clock.
struct Timing {
  const char* query;
  double limit_ms;
  double median_ms, p99_ms, wall_ms;
  bool judged_by_p99;  // else by the median
  bool kept() const { return (judged_by_p99 ? p99_ms : median_ms) <= limit_ms; }
};

double thread_cpu_seconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// The value below which that share of them is. REQUIRES: sorted.
double quantile(const std::vector<double>& sorted, double share) {
  return sorted[std::min(sorted.size() - 1, static_cast<size_t>(share * static_cast<double>(sorted.size())))];
}

Timing time_query(const char* name, double limit_ms, int runs, const std::function<void(int)>& run) {
  std::vector<double> cpu, wall;
  for (int i = 0; i < runs; ++i) run(i);  // reads what it needs from the disk
  for (int i = 0; i < runs; ++i) {
    const auto begin = Clock::now();
    const double cpu_begin = thread_cpu_seconds();
    run(i);
    cpu.push_back(1e3 * (thread_cpu_seconds() - cpu_begin));
    wall.push_back(1e3 * seconds_since(begin));
  }
  std::sort(cpu.begin(), cpu.end());
  std::sort(wall.begin(), wall.end());
  // The 99th percentile of fewer runs would be their slowest.
  return {name, limit_ms, quantile(cpu, 0.5), quantile(cpu, 0.99), quantile(wall, 0.5), runs >= 100};
}

/// Every way to ask, with what is there and what is not: a device never seen, threads never used.
db::BestQuery random_best_query(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  db::BestQuery query{.workload = 1 + below(kWorkloads), .target = 1};
  if (int device = below(4); device > 0) query.device = device;
  constexpr int kThreads[] = {0, 1, 2, 16};
  query.threads = kThreads[below(4)];
  query.accept_unconfirmed = below(2) == 0;
  query.strict = below(4) == 0;
  if (below(2) == 0) query.max_relative_error = 1e-4;
  return query;
}

std::vector<Timing> time_queries(db::Store& store) {
  std::mt19937 random(1);
  const db::ModelId model = store.find_model("model0").value();
  const std::vector<db::ModelTask> tasks = store.model_tasks(model, 1);
  const auto best = [&](int) { store.best(random_best_query(random)); };
  const auto coverage = [&](int) { store.coverage(model, {.target = 1, .accept_unconfirmed = true}); };
  const auto history = [&](int) {
    for (const db::ModelTask& task : tasks) store.latest(task.workload, 1, 20);
  };
  const auto all_of_a_task = [&](int i) { store.history(1 + i % kWorkloads, 1); };
  const auto transfer = [&](int) {
    for (const db::ModelTask& task : tasks) store.measured_on_both(task.workload, 1, 1, 2);
  };
  return {time_query("best of a task", 1, 5000, best), time_query("coverage of a model", 50, 20, coverage),
          time_query("history of a model, the last 20 of each task", 100, 20, history),
          time_query("history of a task, all", 100, 20, all_of_a_task),
          time_query("transfer of a model between two devices", 500, 10, transfer)};
}

int run(int argc, char** argv) {
  int64_t trials = 1'000'000;
  std::string path;
  bool json = false;
  Flags flags("How long queries of a large database take");
  flags.add("--trials", trials, 1000, 100'000'000, "how many it holds");
  flags.add("--db", path, "keep it in this file, or use it again");
  flags.add("--json", json, "print a JSON array");
  flags.parse(argc, argv);

  std::optional<TemporaryFolder> folder;
  if (path.empty()) path = folder.emplace() / "queries.db";
  if (!std::filesystem::exists(path)) {
    const auto begin = Clock::now();
    db::Store store(path);
    fill(store, trials);
    fmt::print(stderr, "made {} trials in {:.0f} s, {:.1f} GB\n", trials, seconds_since(begin),
               static_cast<double>(std::filesystem::file_size(path)) / 1e9);
  }
  db::Store store(path, {.read_only = true});
  bool kept = true;
  nlohmann::json list = nlohmann::json::array();
  for (const Timing& timing : time_queries(store)) {
    kept &= timing.kept();
    list.push_back({{"query", timing.query},
                    {"limit_ms", timing.limit_ms},
                    {"median_ms", timing.median_ms},
                    {"p99_ms", timing.p99_ms},
                    {"wall_median_ms", timing.wall_ms},
                    {"kept", timing.kept()}});
    if (!json)
      fmt::print(
          "{:<46} median {:8.3f} ms (wall {:8.3f})  p99 {:8.3f} ms  limit {:3.0f} ms of the {:<6}  {}\n",
          timing.query, timing.median_ms, timing.wall_ms, timing.p99_ms, timing.limit_ms,
          timing.judged_by_p99 ? "p99" : "median", timing.kept() ? "kept" : "MISSED");
  }
  if (json) fmt::print("{}\n", list.dump());
  return kept ? 0 : 1;
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) { return lathe::bench::guarded_main(lathe::bench::run, argc, argv); }
