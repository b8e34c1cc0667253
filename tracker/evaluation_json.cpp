#include "tracker/evaluation_json.h"

#include <nlohmann/json.hpp>

namespace lathe::tracker {
namespace {

/// Every member with its name, once.
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
  if (!json.is_object()) return;
  members(evaluation, [&](const char* name, auto& value) {
    if (const auto it = json.find(name); it != json.end() && (it->is_number() || it->is_boolean()))
      it->get_to(value);
  });
}

}  // namespace lathe::tracker
