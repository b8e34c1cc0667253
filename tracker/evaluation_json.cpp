#include "tracker/evaluation_json.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

namespace lathe::tracker {
namespace {

/// Every member with its name, once, but for `dims`: a race's are its order's (race_spec.cpp), and of a
/// candidate, which is what is written here, its workload says them.
template <typename Evaluation, typename Visit>
void members(Evaluation& e, Visit visit) {
  visit("threads", e.threads);
  visit("warmup", e.warmup);
  visit("min_samples", e.min_samples);
  visit("max_samples", e.max_samples);
  visit("budget_seconds", e.budget_seconds);
  visit("relative_interval", e.relative_interval);
  visit("incumbent_seconds", e.incumbent_seconds);
  visit("tolerance", e.tolerance);
  visit("build_limit_seconds", e.build_limit_seconds);
  visit("run_limit_seconds", e.run_limit_seconds);
  visit("cold_cache", e.cold_cache);
  visit("far_weights", e.far_weights);
}

}  // namespace

nlohmann::json evaluation_json(const wire::Evaluation& evaluation) {
  nlohmann::json json;
  members(evaluation, [&](const char* name, const auto& value) { json[name] = value; });
  return json;
}

void read_evaluation(const nlohmann::json& json, wire::Evaluation& evaluation) {
  // What is missing or of another type keeps its default: rows of older releases have fewer members.
  if (!json.is_object()) return;
  members(evaluation, [&]<typename Value>(const char* name, Value& value) {
    const auto it = json.find(name);
    if (it == json.end()) return;
    if constexpr (std::is_same_v<Value, bool>) {
      if (it->is_boolean()) value = it->template get<bool>();
    } else if constexpr (std::is_integral_v<Value>) {
      // Of another sign or size it would become another number.
      if (it->is_number_unsigned() && it->template get<uint64_t>() <= std::numeric_limits<Value>::max())
        value = it->template get<Value>();
    } else if (it->is_number()) {
      value = it->template get<Value>();
    }
  });
}

}  // namespace lathe::tracker
