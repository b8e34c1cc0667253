#include "cli/told_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>
#include <vector>

#include "core/support/bounded_json.h"

namespace lathe::cli {

using nlohmann::json;

std::string told_report(json report, size_t most) {
  std::string text = json_line(report);
  if (text.size() <= most) return text;
  json& tasks = report["tasks"];
  const json all = std::exchange(tasks, json::array());
  tasks.get_ref<json::array_t&>().resize(all.size());
  report["tasks_left_out"] = all.size();
  size_t bytes = json_line(report).size();
  if (bytes > most) {
    report.erase("families");
    bytes = json_line(report).size();
  }
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return all[a].at("model_share").get<double>() > all[b].at("model_share").get<double>();
  });
  const size_t null_bytes = json_line(json()).size();
  size_t left_out = all.size();
  for (const size_t i : order) {
    const size_t more = json_line(all[i]).size() - null_bytes;
    // All that are told take more time than any that is not.
    if (bytes + more > most) break;
    bytes += more;
    tasks[i] = all[i];
    --left_out;
  }
  report["tasks_left_out"] = left_out;
  return json_line(report);
}

size_t count_told(const json& list, size_t most) {
  size_t count = 0, bytes = 0;
  for (const json& one : list) {
    bytes += json_line(one).size() + 1;
    if (bytes > most) break;
    ++count;
  }
  return count;
}

}  // namespace lathe::cli
