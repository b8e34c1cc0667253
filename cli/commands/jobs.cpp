// Jobs of a tracker elsewhere: submit, jobs, watch, cancel, pause, fetch. Its workers: drain, trust.
#include <fmt/chrono.h>
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/progress.h"
#include "cli/remote_job.h"
#include "cli/search_flags.h"
#include "core/support/bounded_json.h"
#include "core/support/error.h"
#include "core/support/printable.h"

namespace lathe::cli {
namespace {

using nlohmann::json;

/// The service and the one job that a command is about.
struct JobFlags {
  ServicePlace place;
  std::string id;

  void add_to(Flags& flags) {
    flags.add("JOB", id, "the job's id, or its beginning, as `tune jobs` shows it", Flags::Need::kRequired);
    place.add_to(flags, Flags::Need::kRequired);
  }
};

/// A string as a terminal may have it.
std::string text_of(const json& object, const char* key) {
  return printable(object.at(key).get<std::string>());
}

void print_jobs(const json& jobs) {
  fmt::print("{:<8}  {:<10}  {:<20}  {:<9}  {:>13}  {:>9}  {:>9}  {}\n", "job", "owner", "model", "state",
             "trials", "untuned", "best", "message");
  for (const json& job : jobs) {
    const json progress = job.at("progress").is_object() ? job.at("progress") : json::object();
    // An estimate needs a measurement of every task, which a small budget does not reach; then what the model
    // took when it was raced. An older tracker does not tell.
    const json raced = job.value("raced", json());
    const bool is_raced = raced.is_object() && progress.value("model_seconds", 0.0) <= 0;
    const auto seconds = [&](const char* estimated, const char* measured) {
      return duration_text(is_raced ? raced.value(measured, 0.0) : progress.value(estimated, 0.0));
    };
    // Of a search's own best each was also lucky.
    const json confirmed = job.value("confirmed_seconds", json());
    // The other lines show the place in a text that it is about; `tune watch` and --json have them.
    std::string message = text_of(job, "message");
    const auto budget = job.at("trial_budget").get<int64_t>(), trials = job.at("trials").get<int64_t>();
    // A job that is done has no message, but fewer trials than it asked for want a reason.
    if (message.empty() && trials < budget) message = printable(string_member(job, "ended"));
    fmt::print("{:<8}  {:<10}  {:<20}  {:<9}  {:>13}  {:>9}  {:>9}  {}\n", text_of(job, "id").substr(0, 8),
               in_column(text_of(job, "owner"), 10), in_column(text_of(job, "model"), 20),
               text_of(job, "state"),
               budget > 0 ? fmt::format("{}/{}", trials, budget) : fmt::format("{}", trials),
               seconds("default_model_seconds", "untuned_seconds"),
               confirmed.is_number() ? duration_text(confirmed.get<double>())
                                     : seconds("model_seconds", "tuned_seconds"),
               message.substr(0, message.find('\n')));
  }
}

void print_workers(const json& workers) {
  fmt::print("{:<24}  {:<8}  {:>5}  {:>6}  {:>7}  {}\n", "worker", "state", "slots", "leases", "canary",
             "device");
  for (const json& worker : workers) {
    const json& drift = worker.at("canary").at("drift");
    fmt::print("{:<24}  {:<8}  {:>5}  {:>6}  {:>7}  {}\n", text_of(worker, "name"), text_of(worker, "state"),
               worker.at("slots").get<int>(), worker.at("leases").get<int>(),
               drift.is_null() ? "-" : fmt::format("{:+.1f}%", 100 * drift.get<double>()),
               text_of(worker, "device_class"));
    if (const std::string why = text_of(worker, "suspect"); !why.empty()) fmt::print("  suspect: {}\n", why);
  }
}

/// Posts what the command is called by, and says what the job is now.
int change_job(Flags& flags, const char* verb) {
  JobFlags job;
  job.add_to(flags);
  if (!flags.parse()) return kSuccess;
  return with_service(job.place, [&](ServiceClient& service) {
    const json now = service.post(fmt::format("/v1/jobs/{}/{}", url_part(job.id), verb), "");
    fmt::print("job {} is {}\n", text_of(now, "id"), text_of(now, "state"));
    return kSuccess;
  });
}

}  // namespace

int submit_command(Flags& flags) {
  TuneJob job;
  SearchFlags search(flags, job);
  ServicePlace place;
  std::string key;
  DeviceFlags devices(flags, job);
  flags.add("--priority", job.priority, -1000, 1000, "among your own jobs: the highest is started first");
  flags.add("--key KEY", key, "said twice with the same key, the job is submitted once");
  place.add_to(flags, Flags::Need::kRequired);
  if (!flags.parse()) return kSuccess;
  search.settle(flags);
  devices.settle();
  return with_service(place, [&](ServiceClient& service) {
    fmt::print("{}\n", printable(submit_job(job, key, service)));
    return kSuccess;
  });
}

int jobs_command(Flags& flags) {
  ServicePlace place;
  std::string state, owner;
  int64_t limit = 20;
  bool devices = false, as_json = false;
  place.add_to(flags, Flags::Need::kRequired);
  flags.add("--state queued|running|stopped|done|failed|cancelled", state, "only those in this state");
  flags.add("--owner NAME", owner, "only this user's");
  flags.add("--limit", limit, 1, 500, "the newest so many");
  flags.add("--devices", devices, "list the workers and their devices instead");
  flags.add("--json", as_json, "one JSON object");
  if (!flags.parse()) return kSuccess;
  return with_service(place, [&](ServiceClient& service) {
    const json answer =
        devices
            ? service.get("/v1/workers")
            : service.get(fmt::format("/v1/jobs?limit={}&state={}&owner={}", limit, state, url_part(owner)));
    if (as_json)
      fmt::print("{}\n", json_line(answer));
    else if (devices)
      print_workers(answer.at("workers"));
    else
      print_jobs(answer.at("jobs"));
    return kSuccess;
  });
}

int watch_command(Flags& flags) {
  JobFlags job;
  job.add_to(flags);
  if (!flags.parse()) return kSuccess;
  return with_service(job.place, [&](ServiceClient& service) {
    const std::string id = service.get("/v1/jobs/" + url_part(job.id)).at("id");
    const int code = watch_job(id, false, job.place, service);
    if (code == kSuccess) fmt::print("{}", printable(service.get_text("/v1/jobs/" + id + "/report")));
    return code;
  });
}

int cancel_command(Flags& flags) { return change_job(flags, "cancel"); }
int pause_command(Flags& flags) { return change_job(flags, "pause"); }

namespace {

struct WorkerFlags {
  ServicePlace place;
  std::string name;

  void add_to(Flags& flags) {
    flags.add("WORKER", name, "the worker's name, as `tune jobs --devices` shows it", Flags::Need::kRequired);
    place.add_to(flags, Flags::Need::kRequired);
  }
  int post(const char* verb) const {
    return with_service(place, [&](ServiceClient& service) {
      const json now = service.post(fmt::format("/v1/workers/{}/{}", url_part(name), verb), "");
      fmt::print("worker {} is {}\n", text_of(now, "name"), text_of(now, "state"));
      return kSuccess;
    });
  }
};

}  // namespace

int drain_command(Flags& flags) {
  WorkerFlags worker;
  bool undo = false;
  worker.add_to(flags);
  flags.add("--undo", undo, "it takes leases again");
  if (!flags.parse()) return kSuccess;
  return worker.post(undo ? "resume" : "drain");
}

int trust_command(Flags& flags) {
  WorkerFlags worker;
  worker.add_to(flags);
  if (!flags.parse()) return kSuccess;
  return worker.post("trust");
}

int fetch_command(Flags& flags) {
  JobFlags job;
  std::string folder;
  job.add_to(flags);
  flags.add("--out DIR", folder, "folder for the module file (lathe-out/MODEL)");
  if (!flags.parse()) return kSuccess;
  return with_service(job.place, [&](ServiceClient& service) {
    fmt::print("{}\n", fetch_module(job.id, folder, service));
    return kSuccess;
  });
}

}  // namespace lathe::cli
