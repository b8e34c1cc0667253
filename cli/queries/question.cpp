#include "cli/queries/question.h"

#include <fmt/chrono.h>

#include <cmath>

#include "core/codegen/host_target.h"
#include "core/support/error.h"
#include "core/support/text.h"
#include "workers/device.h"

namespace lathe::cli {

std::string time_text(int64_t milliseconds) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(static_cast<time_t>(milliseconds / 1000)));
}

nlohmann::json thousandths(double value) { return std::round(value * 1e3) / 1e3; }
nlohmann::json microseconds(double seconds) { return std::round(seconds * 1e9) / 1e3; }

db::ModelId required_model(db::Store& store, const Question& question) {
  if (question.model.empty()) fail("tune query {}: --model is required", question.what);
  if (auto model = store.find_model(question.model)) return *model;
  std::vector<std::string> names = store.model_names();
  fail("the database {} has no model `{}`{}", question.database, question.model,
       did_you_mean(question.model, names));
}

db::TargetId required_target(db::Store& store, const Question& question) {
  std::string name = to_text(codegen::resolve_target(question.target));
  if (auto target = store.find_target(name)) return *target;
  fail("the database {} has nothing for the target {}", question.database, name);
}

db::BestQuery query_for(db::Store& store, const Question& question) {
  db::BestQuery query{.target = required_target(store, question),
                      .threads = static_cast<int>(question.threads),
                      .strict = question.strict,
                      .accept_unconfirmed = true};
  query.device =
      question.device.empty() ? this_device(store) : find_device(store, "--device", question.device);
  if (question.strict && !query.device)
    fail("--strict: the database {} does not know this machine; name a device with --device",
         question.database);
  return query;
}

db::Device device_here() {
  const worker::DeviceInfo here = worker::probe_device();
  return {.host = here.host,
          .model = here.model,
          .architecture = here.architecture,
          .features = join_text(here.features, ","),
          .cores = here.cores,
          .memory_bytes = here.memory_bytes,
          .system = here.kernel};
}

std::optional<db::DeviceId> this_device(db::Store& store) {
  const std::string print = db::fingerprint(device_here());
  for (const auto& [id, device] : store.devices())
    if (db::fingerprint(device) == print) return id;
  return std::nullopt;
}

db::DeviceId find_device(db::Store& store, const char* flag, const std::string& name) {
  if (name.empty()) fail("{} is required: a host, or the beginning of what `tune query devices` shows", flag);
  std::vector<db::DeviceId> found;
  std::vector<std::string> hosts;
  for (const auto& [id, device] : store.devices()) {
    hosts.push_back(device.host);
    if (device.host == name || db::fingerprint(device).starts_with(name)) found.push_back(id);
  }
  if (found.empty()) fail("{}: the database has no device `{}`{}", flag, name, did_you_mean(name, hosts));
  if (found.size() > 1)
    fail("{}: several devices are `{}`; give the beginning of what `tune query devices` shows", flag, name);
  return found.front();
}

}  // namespace lathe::cli
