// Each convolution of a model by itself: our kernel against oneDNN's best algorithm for that layer, in turn.
//
//   ./run bench vs-onednn --model resnet18,vgg16 [--db FILE | --untuned] [--json]
//
// One thread, one process. L2 is cleared before each run of either side, as it is between the layers of a
// model.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/cold_run.h"
#include "bench/conv_layers.h"
#include "bench/flags.h"
#include "bench/onednn_conv.h"
#include "core/codegen/host_target.h"
#include "core/support/statistics.h"
#include "db/store.h"
#include "tuner/best_schedules.h"
#include "tuner/load_model.h"

namespace lathe::bench {
namespace {

struct Interval {
  double low = 0, high = 0;
};

/// Order statistics that cover the median with 95% confidence, by the normal approximation.
Interval median_interval(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  const auto low = static_cast<size_t>(std::max(0.0, std::floor(n / 2 - 0.98 * std::sqrt(n))));
  return {values[low], values[values.size() - 1 - low]};
}

struct Row {
  std::string model, implementation;
  ConvProblem problem;
  int64_t uses = 0;
  double ours = 0, peer = 0;  // seconds
  double ratio = 0;           // peer / ours
  Interval interval;          // of the ratio
  double error = 0;           // of our output, relative to oneDNN's
};

Row race(const ConvLayer& layer, const Target& target, const tuner::ScheduleWorkload& schedule) {
  constexpr size_t kLeastPairs = 15, kMostPairs = 400;
  constexpr std::chrono::milliseconds kTime{600};
  Evictor evict;
  LayerModule ours(layer, target, schedule);
  OneDnnConv peer(layer.problem, ours.values(), evict);
  ours.run();
  Row row{.implementation = peer.implementation(), .problem = layer.problem, .uses = layer.uses};
  // Before anything is timed: what is fast and wrong is no result.
  row.error = max_relative_error(ours.output(), peer.output());
  std::vector<double> our_times, peer_times, ratios;
  const auto end = std::chrono::steady_clock::now() + kTime;
  while (ratios.size() < kLeastPairs ||
         (ratios.size() < kMostPairs && std::chrono::steady_clock::now() < end)) {
    // Each side goes first in every other pair. A ratio is of one pair, so that a disturbance of the machine
    // hits both sides of it.
    const bool peer_first = ratios.size() % 2;
    if (peer_first) peer_times.push_back(timed_run(peer, evict));
    our_times.push_back(timed_run(ours, evict));
    if (!peer_first) peer_times.push_back(timed_run(peer, evict));
    ratios.push_back(peer_times.back() / our_times.back());
  }
  row.ours = median(our_times);
  row.peer = median(peer_times);
  row.ratio = median(ratios);
  row.interval = median_interval(ratios);
  return row;
}

void print_table(std::span<const Row> rows) {
  fmt::print(
      "| model | layer | uses | oneDNN's fastest | oneDNN us | Lathe us | Lathe GFLOP/s | ratio | "
      "95% interval | error |\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Row& row : rows)
    fmt::print("| {} | {} | {} | {} | {:.1f} | {:.1f} | {:.0f} | {:.3f} | {:.3f} .. {:.3f} | {:.0e} |\n",
               row.model, row.problem.text(), row.uses, row.implementation, row.peer * 1e6, row.ours * 1e6,
               row.problem.flops() / row.ours / 1e9, row.ratio, row.interval.low, row.interval.high,
               row.error);
}

/// One line for the rows of `model`.
void print_summary(std::span<const Row> rows, const std::string& model) {
  double logs = 0, least = INFINITY, ours = 0, peer = 0, layers = 0;
  for (const Row& row : rows) {
    if (row.model != model) continue;
    ++layers;
    logs += std::log(row.ratio);
    least = std::min(least, row.ratio);
    ours += static_cast<double>(row.uses) * row.ours;
    peer += static_cast<double>(row.uses) * row.peer;
  }
  fmt::print(
      "\n{}: {} layers, ratio's geometric mean {:.3f}, least {:.3f}; all uses together {:.2f} ms / {:.2f} ms "
      "= {:.3f}\n",
      model, layers, std::exp(logs / layers), least, peer * 1e3, ours * 1e3, peer / ours);
}

void print_json(std::span<const Row> rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows)
    list.push_back({{"model", row.model},
                    {"layer", row.problem.text()},
                    {"uses", row.uses},
                    {"implementation", row.implementation},
                    {"peer_us", row.peer * 1e6},
                    {"ours_us", row.ours * 1e6},
                    {"gflops", row.problem.flops() / row.ours / 1e9},
                    {"ratio", row.ratio},
                    {"ratio_low", row.interval.low},
                    {"ratio_high", row.interval.high},
                    {"max_rel_error", row.error}});
  fmt::print("{}\n", list.dump());
}

int run(int argc, char** argv) {
  std::vector<std::string> models;
  std::string database = db::default_database_path();
  bool untuned = false, json = false;
  Flags flags("Each convolution of a model against oneDNN's best algorithm for it, on one thread");
  flags.add("--model,--models", models, "models of the zoo, or ONNX files", Flags::Need::kRequired);
  flags.add("--db", database, "the tuning database");
  flags.add("--untuned", untuned, "default schedules");
  flags.add("--json", json, "print a JSON array");
  flags.parse(argc, argv);

  const Target target = codegen::resolve_target("cpu");
  tuner::ScheduleWorkload schedule = tuner::default_schedules(target);
  std::optional<tuner::BestSchedules> best;
  if (!untuned) {
    best.emplace(database, target, 1);
    schedule = [&](const tir::Func& workload) { return best->schedule(workload); };
  }
  std::vector<Row> rows;
  for (const std::string& model : models) {
    const std::vector<ConvLayer> layers = find_conv_layers(tuner::load_model(model), target);
    if (layers.empty()) fail("{} has no convolution that oneDNN could compute as well", model);
    for (const ConvLayer& layer : layers) {
      rows.push_back(race(layer, target, schedule));
      rows.back().model = model;
    }
  }
  if (json) {
    print_json(rows);
  } else {
    print_table(rows);
    for (const std::string& model : models) print_summary(rows, model);
  }
  return 0;
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) { return lathe::bench::guarded_main(lathe::bench::run, argc, argv); }
