// Jobs of a tracker elsewhere: submit, jobs, watch, cancel, pause, fetch. Its workers: drain, trust.
#include <fmt/chrono.h>
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/progress.h"
#include "cli/remote_job.h"
#include "cli/search_flags.h"
#include "core/support/error.h"

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

void print_jobs(const json& jobs) {
  fmt::print("{:<8}  {:<10}  {:<20}  {:<9}  {:>13}  {:>9}  {:>9}  {}\n", "job", "owner", "model", "state",
             "trials", "untuned", "best", "message");
  for (const json& job : jobs) {
    const json progress = job.at("progress").is_object() ? job.at("progress") : json::object();
    const auto budget = job.at("trial_budget").get<int64_t>();
    fmt::print("{:<8}  {:<10}  {:<20}  {:<9}  {:>13}  {:>9}  {:>9}  {}\n",
               job.at("id").get<std::string>().substr(0, 8), job.at("owner").get<std::string>(),
               job.at("model").get<std::string>(), job.at("state").get<std::string>(),
               budget > 0 ? fmt::format("{}/{}", job.at("trials").get<int64_t>(), budget)
                          : fmt::format("{}", job.at("trials").get<int64_t>()),
               duration_text(progress.value("default_model_seconds", 0.0)),
               duration_text(progress.value("model_seconds", 0.0)), job.at("message").get<std::string>());
  }
}

void print_workers(const json& workers) {
  fmt::print("{:<24}  {:<8}  {:>5}  {:>6}  {:>7}  {}\n", "worker", "state", "slots", "leases", "canary",
             "device");
  for (const json& worker : workers) {
    const json& drift = worker.at("canary").at("drift");
    fmt::print("{:<24}  {:<8}  {:>5}  {:>6}  {:>7}  {}\n", worker.at("name").get<std::string>(),
               worker.at("state").get<std::string>(), worker.at("slots").get<int>(),
               worker.at("leases").get<int>(),
               drift.is_null() ? "-" : fmt::format("{:+.1f}%", 100 * drift.get<double>()),
               worker.at("device_class").get<std::string>());
    if (const std::string why = worker.at("suspect"); !why.empty()) fmt::print("  suspect: {}\n", why);
  }
}

/// Posts what the command is called by, and says what the job is now.
int change_job(Flags& flags, const char* verb) {
  JobFlags job;
  job.add_to(flags);
  if (!flags.parse()) return kSuccess;
  ServiceClient service(job.place);
  const json now = service.post(fmt::format("/v1/jobs/{}/{}", job.id, verb), "");
  fmt::print("job {} is {}\n", now.at("id").get<std::string>(), now.at("state").get<std::string>());
  return kSuccess;
}

}  // namespace

int submit_command(Flags& flags) {
  TuneJob job;
  SearchFlags search(flags, job);
  ServicePlace place;
  std::string key;
  flags.add("--device NAME", job.device,
            "measure on devices whose name contains this; `tune jobs --devices`");
  flags.add("--priority", job.priority, -1000, 1000, "among your own jobs: the highest is started first");
  flags.add("--key KEY", key, "said twice with the same key, the job is submitted once");
  place.add_to(flags, Flags::Need::kRequired);
  if (!flags.parse()) return kSuccess;
  search.settle(flags);
  ServiceClient service(place);
  fmt::print("{}\n", submit_job(job, key, service));
  return kSuccess;
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
  ServiceClient service(place);
  if (devices) {
    const json workers = service.get("/v1/workers");
    if (as_json) {
      fmt::print("{}\n", workers.dump());
      return kSuccess;
    }
    print_workers(workers.at("workers"));
    return kSuccess;
  }
  const json jobs = service.get(fmt::format("/v1/jobs?limit={}&state={}&owner={}", limit, state, owner));
  if (as_json)
    fmt::print("{}\n", jobs.dump());
  else
    print_jobs(jobs.at("jobs"));
  return kSuccess;
}

int watch_command(Flags& flags) {
  JobFlags job;
  job.add_to(flags);
  if (!flags.parse()) return kSuccess;
  ServiceClient service(job.place);
  const std::string id = service.get("/v1/jobs/" + job.id).at("id");
  if (const int code = watch_job(id, false, service); code != kSuccess) return code;
  fmt::print("{}", service.get_text("/v1/jobs/" + id + "/report"));
  return kSuccess;
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
    ServiceClient service(place);
    const json now = service.post(fmt::format("/v1/workers/{}/{}", name, verb), "");
    fmt::print("worker {} is {}\n", now.at("name").get<std::string>(), now.at("state").get<std::string>());
    return kSuccess;
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
  ServiceClient service(job.place);
  fmt::print("{}\n", fetch_module(job.id, folder, service));
  return kSuccess;
}

}  // namespace lathe::cli
