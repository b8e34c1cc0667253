#include "tracker/api_json.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/support/text.h"

namespace lathe::tracker {
namespace {

using nlohmann::json;

json or_null(const std::optional<double>& value) { return value ? json(*value) : json(); }
json or_null(int64_t milliseconds) { return milliseconds > 0 ? json(milliseconds) : json(); }

/// What our own programs wrote; null for what is no JSON all the same.
json parse_own(const std::string& text) {
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? json() : value;
}

json last_of(db::Store& store, const db::ServedJob& job, const char* kind) {
  const auto event = store.last_served_event(job.id, kind);
  return event ? parse_own(event->body) : json();
}

}  // namespace

json job_json(const db::ServedJob& job, db::Store& store) {
  const json request = parse_own(job.request);
  json result = {{"id", job.uuid},
                 {"owner", job.owner},
                 {"model", job.model_name},
                 {"target", request.value("target", "")},
                 {"device_class", job.device_class},
                 {"state", db::to_string(job.state)},
                 {"message", job.message},
                 {"priority", job.priority},
                 {"created_ms", job.created_ms},
                 {"started_ms", or_null(job.started_ms)},
                 {"ended_ms", or_null(job.ended_ms)},
                 {"crashes", job.crashes},
                 {"trial_budget", request.value("trials", int64_t{0})},
                 {"second_budget", request.value("seconds", 0.0)},
                 {"progress", last_of(store, job, "progress")},
                 {"trials", 0}};
  if (job.job) result["trials"] = store.job_progress(*job.job).ended();
  return result;
}

json job_details_json(const db::ServedJob& job, db::Store& store) {
  json result = job_json(job, store);
  result["request"] = parse_own(job.request);
  result["tasks"] = last_of(store, job, "tasks");
  result["task_state"] = last_of(store, job, "task_state");
  result["report"] = job.report.empty() ? json() : parse_own(job.report);
  if (job.job) {
    json outcomes = json::object();
    const db::JobProgress progress = store.job_progress(*job.job);
    for (size_t i = 0; i < kOutcomeNames.size(); ++i)
      if (progress.outcomes[i] > 0) outcomes[std::string(kOutcomeNames[i])] = progress.outcomes[i];
    result["outcomes"] = outcomes;
  }
  return result;
}

json trial_json(const db::TrialRow& trial) {
  return {{"id", trial.id},
          {"workload", trial.workload},
          {"purpose", trial.purpose == db::Purpose::kConfirm ? "confirm" : "search"},
          {"state", db::to_string(trial.state)},
          {"outcome", trial.outcome ? json(to_string(*trial.outcome)) : json()},
          {"predicted", trial.predicted},
          {"seconds", or_null(trial.seconds)},
          {"relative_error", or_null(trial.relative_error)},
          {"attempts", trial.attempts},
          {"worker", trial.worker},
          {"error", trial.error},
          {"created_ms", trial.created_ms},
          {"ended_ms", or_null(trial.ended_ms)}};
}

json worker_json(const WorkerStatus& worker) {
  json device = parse_own(worker.device);
  if (device.is_object()) device.erase("machine");
  return {{"name", worker.name},         {"device_class", worker.device_class},
          {"backends", worker.backends}, {"slots", worker.slots},
          {"leases", worker.leases},     {"silent_ms", worker.silent.count()},
          {"device", std::move(device)}};
}

json curve_json(const db::ServedJob& job, db::Store& store, int points) {
  struct Point {
    double seconds, model_seconds;
    int64_t trials;
  };
  std::vector<Point> all;
  constexpr int kPage = 1000;
  for (int64_t after = 0;;) {
    const std::vector<db::Event> events = store.served_events_after(job.id, after, kPage);
    for (const db::Event& event : events) {
      after = event.id;
      if (event.kind != "progress") continue;
      const json body = parse_own(event.body);
      if (!body.is_object() || body.value("model_seconds", 0.0) <= 0) continue;
      all.push_back(
          {body.value("seconds", 0.0), body.value("model_seconds", 0.0), body.value("trials", int64_t{0})});
    }
    if (events.size() < kPage) break;
  }
  json curve = json::array();
  const auto add = [&](const Point& p) { curve.push_back({p.seconds, p.trials, p.model_seconds}); };
  // Of each bucket the highest and the lowest, in their order.
  const size_t buckets = std::max<size_t>(1, static_cast<size_t>(points) / 2);
  const size_t width = (all.size() + buckets - 1) / buckets;
  for (size_t start = 0; start < all.size(); start += std::max<size_t>(width, 1)) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(start);
    const auto last = all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), start + width));
    auto [low, high] = std::minmax_element(
        first, last, [](const Point& a, const Point& b) { return a.model_seconds < b.model_seconds; });
    if (high < low) std::swap(low, high);
    add(*low);
    if (high != low) add(*high);
  }
  return curve;
}

std::string metrics_text(const FarmStatus& farm, db::Store& store) {
  std::string text;
  const auto family = [&](std::string_view name, std::string_view help) {
    text += fmt::format("# HELP lathe_{0} {1}\n# TYPE lathe_{0} gauge\n", name, help);
  };
  const auto gauge = [&](std::string_view name, std::string_view help, double value) {
    family(name, help);
    text += fmt::format("lathe_{} {}\n", name, value);
  };
  gauge("workers", "Workers connected.", static_cast<double>(farm.workers.size()));
  gauge("slots", "Leases that all workers together are willing to hold.", farm.slots);
  gauge("trials_pending", "Trials that wait for a worker.", static_cast<double>(farm.pending));
  gauge("trials_leased", "Trials that workers hold.", static_cast<double>(farm.leased));
  gauge("queue_room", "Trials that may still be submitted.", static_cast<double>(farm.room));
  gauge("epoch", "Starts of the tracker on its database.", static_cast<double>(farm.epoch));
  gauge("platforms_unserved", "Platforms of pending trials that no worker is.",
        static_cast<double>(farm.unserved.size()));
  std::map<std::string, std::pair<double, double>> classes;  // slots and leases: few series, many workers
  for (const WorkerStatus& worker : farm.workers) {
    auto& [slots, leases] = classes[worker.device_class];
    slots += worker.slots;
    leases += worker.leases;
  }
  const auto quoted = [](const std::string& value) {
    std::string result;
    for (const char c : value) {
      if (c == '\\' || c == '"') result += '\\';
      result += c == '\n' ? ' ' : c;
    }
    return result;
  };
  family("device_slots", "Slots by class of devices.");
  for (const auto& [name, counts] : classes)
    text += fmt::format("lathe_device_slots{{device_class=\"{}\"}} {}\n", quoted(name), counts.first);
  family("device_leases", "Leases by class of devices.");
  for (const auto& [name, counts] : classes)
    text += fmt::format("lathe_device_leases{{device_class=\"{}\"}} {}\n", quoted(name), counts.second);
  family("jobs", "Jobs by state.");
  for (const auto& [state, count] : store.count_served_jobs())
    text += fmt::format("lathe_jobs{{state=\"{}\"}} {}\n", db::to_string(state), count);
  return text;
}

}  // namespace lathe::tracker
