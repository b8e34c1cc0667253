#include <fmt/core.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "core/support/outcome.h"
#include "tracker/api_impl.h"
#include "tracker/search_link.h"

namespace lathe::tracker {

using http::Response;
using nlohmann::json;

Response Api::Impl::trials(const Call& call) {
  const db::ServedJob job = job_of(call);
  db::TrialQuery query{.job = job.job.value_or(0),
                       .after = number(call.request, "after", 0, 0, INT64_MAX),
                       .before = number(call.request, "before", 0, 0, INT64_MAX),
                       .workload = number(call.request, "workload", 0, 0, INT64_MAX),
                       .newest_first = number(call.request, "newest", 0, 0, 1) == 1,
                       .limit = static_cast<int>(number(call.request, "limit", 1000, 1, 10'000))};
  if (const std::string outcome = word(call.request, "outcome"); !outcome.empty()) {
    query.outcome = parse_outcome(outcome);
    if (!query.outcome)
      throw Refused{
          400, fmt::format("outcome={}: must be one of {}", outcome, fmt::join(kOutcomeNames, ", ")), {}};
  }
  json list = json::array();
  // Without a search there are no trials; query.job would be 0, which is no job.
  if (job.job)
    for (const db::TrialRow& trial : store.trial_rows(query)) list.push_back(trial_json(trial));
  return json_response({{"trials", std::move(list)}});
}

Response Api::Impl::curve(const Call& call) {
  const auto points = static_cast<int>(number(call.request, "points", 500, 2, 5000));
  return json_response(curve_json(job_of(call), store, points));
}

Response Api::Impl::points(const Call& call) {
  const auto points = static_cast<int>(number(call.request, "points", 2000, 2, 20'000));
  return json_response(
      points_json(job_of(call), store, number(call.request, "workload", 0, 0, INT64_MAX), points));
}

Response Api::Impl::schedules(const Call& call) {
  const db::ServedJob job = job_of(call);
  const int64_t task = number(call.request, "task", 0, 0, 1'000'000);
  const auto told = store.last_served_event(job.id, fmt::format("{}{}", kScheduleEvent, task));
  if (!told) throw Refused{404, fmt::format("no schedule of task {} is known yet", task), {}};
  return {.body = told->body + "\n"};
}

Response Api::Impl::trial(const Call& call) {
  const std::optional<db::TrialId> id = whole_number(call.part);
  const auto life = id ? store.trial_life(*id) : std::nullopt;
  if (!life) throw Refused{404, fmt::format("no trial `{}`", call.part), {}};
  const auto job = store.served_job_of(life->job);
  return json_response(trial_life_json(*life, job ? job->uuid : ""));
}

}  // namespace lathe::tracker
