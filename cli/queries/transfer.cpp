// How well what is fast on one device tells what is fast on another.
#include <algorithm>
#include <map>

#include "cli/queries/question.h"
#include "core/support/error.h"
#include "core/support/statistics.h"

namespace lathe::cli {
namespace {

/// The pairs of the number of threads with the most of them: times with different ones do not rank together.
std::vector<db::MeasuredTwice> of_one_number_of_threads(std::vector<db::MeasuredTwice> pairs, int threads) {
  if (threads == 0) {
    std::map<int, int> counts;
    for (const db::MeasuredTwice& pair : pairs) ++counts[pair.threads];
    int most = 0;
    for (const auto& [number, count] : counts)
      if (count > most) most = count, threads = number;
  }
  std::erase_if(pairs, [&](const db::MeasuredTwice& pair) { return pair.threads != threads; });
  return pairs;
}

std::vector<nlohmann::json> row_of(const db::ModelTask& task, std::span<const db::MeasuredTwice> pairs) {
  std::vector<nlohmann::json> row{task.name, task.calls, pairs.size()};
  if (pairs.empty()) {
    row.insert(row.end(), {nullptr, nullptr, nullptr, nullptr});
    return row;
  }
  std::vector<float> from, to;
  for (const db::MeasuredTwice& pair : pairs) {
    from.push_back(static_cast<float>(pair.first_seconds));
    to.push_back(static_cast<float>(pair.second_seconds));
  }
  const size_t taken = std::min_element(from.begin(), from.end()) - from.begin();
  const float best = *std::min_element(to.begin(), to.end());
  row.insert(row.end(), {thousandths(spearman(from, to)), microseconds(to[taken]), microseconds(best),
                         thousandths(to[taken] / best)});
  return row;
}

}  // namespace

Answer answer_transfer(db::Store& store, const Question& question) {
  const db::ModelId model = required_model(store, question);
  const db::TargetId target = required_target(store, question);
  const db::DeviceId from = find_device(store, "--from", question.from),
                     to = find_device(store, "--to", question.to);
  if (from == to) fail("--from and --to are the same device");
  Answer answer{
      {"task", "calls", "shared", "rank_correlation", "taken_us", "best_us", "slowdown"}, {}, false};
  for (const db::ModelTask& task : store.model_tasks(model, target)) {
    const auto pairs = of_one_number_of_threads(store.measured_on_both(task.workload, target, from, to),
                                                static_cast<int>(question.threads));
    answer.found |= !pairs.empty();
    answer.rows.push_back(row_of(task, pairs));
  }
  return answer;
}

}  // namespace lathe::cli
