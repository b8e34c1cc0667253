#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "tracker/api_impl.h"

namespace lathe::tracker {

using http::Response;
using nlohmann::json;

Response Api::Impl::status(const Call& call) {
  const FarmStatus farm_status = farm.status();
  json jobs = json::object();
  for (const auto& [state, count] : store.count_served_jobs())
    jobs[std::string(db::to_string(state))] = count;
  json owners = json::array();
  for (const OwnerStatus& owner : farm_status.owners)
    owners.push_back({{"name", owner.name},
                      {"weight", owner.weight},
                      {"device_seconds", static_cast<double>(owner.device_time.count()) * 1e-3}});
  return json_response({{"version", settings.version},
                        {"revision", settings.revision},
                        {"you", {{"name", call.principal.name}, {"role", to_string(call.principal.role)}}},
                        {"epoch", farm_status.epoch},
                        {"workers", farm_status.workers.size()},
                        {"slots", farm_status.slots},
                        {"pending", farm_status.pending},
                        {"leased", farm_status.leased},
                        {"owners", std::move(owners)},
                        {"unserved", farm_status.unserved},
                        {"withheld", farm_status.withheld},
                        {"jobs", jobs}});
}

json Api::Impl::describe(const WorkerStatus& worker) {
  constexpr int kClocks = 32;    // a worker's newest measurements
  constexpr int kHolding = 100;  // of what may be a million, of all workers
  return worker_json(worker, store.open_leases(worker.name, kHolding),
                     store.worker_clock(worker.name, kClocks));
}

Response Api::Impl::workers(const Call&) {
  json list = json::array();
  for (const WorkerStatus& worker : farm.status().workers) list.push_back(describe(worker));
  return json_response({{"workers", std::move(list)}});
}

Response Api::Impl::manage(const Call& call, Manage::Order order) {
  // On disk when this returns: a drained worker stays so over a restart.
  if (!settings.manage({call.part, order})) {
    std::vector<std::string> names;
    for (const WorkerStatus& worker : farm.status().workers) names.push_back(worker.name);
    throw Refused{404, fmt::format("no worker `{}`{}", call.part, did_you_mean(call.part, names)), {}};
  }
  // Asked anew, for the order has changed what it says.
  for (const WorkerStatus& worker : farm.status().workers)
    if (worker.name == call.part) return json_response(describe(worker));
  return json_response({{"name", call.part}, {"state", order == Manage::Order::kDrain ? "drained" : "away"}});
}

Response Api::Impl::quarantine(const Call& call) {
  json list = json::array();
  for (const db::Quarantined& trial :
       store.quarantined(number(call.request, "before", 0, 0, INT64_MAX),
                         static_cast<int>(number(call.request, "limit", 50, 1, 500))))
    list.push_back(quarantined_json(trial, store.served_job_of(trial.job)));
  return json_response({{"trials", std::move(list)}});
}

}  // namespace lathe::tracker
