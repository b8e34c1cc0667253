#include "cli/remote_job.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/exit_codes.h"
#include "cli/interrupt.h"
#include "cli/messages.h"
#include "cli/progress.h"
#include "cli/shell.h"
#include "core/support/bounded_json.h"
#include "core/support/digest.h"
#include "core/support/disk.h"
#include "core/support/error.h"
#include "core/support/printable.h"
#include "core/support/service_error.h"
#include "db/records.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// What the events of a job add up to, as TuneProgress shows it.
class RemoteProgress {
 public:
  RemoteProgress(std::string id, bool quiet) : id_(std::move(id)), quiet_(quiet) {}

  /// False when the job has ended. Events that this client does not know, of a newer tracker, are passed
  /// over.
  bool take(const ServiceClient::Event& event) {
    // What is no JSON is a discarded value here. Reading a key of it throws json::type_error, which
    // with_service() reports as the service's mistake.
    const json body = parse_said(event.data, "an event");
    if (event.name == "state") return take_state(body);
    if (event.name == "tasks") take_tasks(body);
    if (event.name == "progress") take_progress(body);
    if (event.name == "task_state") take_task_state(body);
    return true;
  }
  const std::string& state() const { return state_; }
  bool has_ended() const { return !state_.empty() && db::is_final(db::job_state_named(state_)); }
  const std::string& message() const { return message_; }

 private:
  bool take_state(const json& body) {
    const std::string state = body.value("state", ""), message = body.value("message", "");
    if (!quiet_ && (state != state_ || message != message_))
      say("job {}: {}{}{}", id_.substr(0, 8), state, message.empty() ? "" : ": ", message);
    state_ = state;
    message_ = message;
    return !db::is_final(db::job_state_named(state));
  }
  void take_tasks(const json& body) {
    // It refers to the tasks, which are replaced.
    progress_.reset();
    tasks_.clear();
    for (const json& one : body.at("tasks")) {
      tuner::Task& task = tasks_.emplace_back();
      task.name = printable(one.value("name", ""));
      task.calls = one.value("calls", int64_t{1});
      task.flops = one.value("flops", 0.0);
    }
    status_ = {};
    status_.tasks.resize(tasks_.size());
    progress_.emplace(tasks_, quiet_);
  }
  void take_progress(const json& body) {
    status_.seconds = body.value("seconds", 0.0);
    status_.trials = body.value("trials", int64_t{0});
    status_.budget = body.value("budget", int64_t{0});
    // Null: JSON has no infinity.
    status_.seconds_left =
        body.at("seconds_left").is_number() ? body.at("seconds_left").get<double>() : INFINITY;
    status_.model_seconds = body.value("model_seconds", 0.0);
    status_.default_model_seconds = body.value("default_model_seconds", 0.0);
    if (body.at("rank_correlation").is_number()) {
      status_.quality.samples = body.value("samples", 0);
      status_.quality.spearman = body.at("rank_correlation");
    }
    if (progress_) progress_->show(status_);
  }
  void take_task_state(const json& body) {
    // Of another life of the searcher, which has not told its tasks yet.
    if (body.size() != status_.tasks.size()) return;
    for (size_t i = 0; i < body.size(); ++i) {
      tuner::TaskState& state = status_.tasks[i];
      state.trials = body[i].at(0);
      state.best_seconds = body[i].at(1);
      state.default_seconds = body[i].at(2);
      state.outcomes[static_cast<size_t>(Outcome::kOk)] = state.trials - body[i].at(3).get<int64_t>();
    }
  }

  const std::string id_;
  const bool quiet_;
  std::string state_, message_;
  std::vector<tuner::Task> tasks_;
  tuner::SessionStatus status_;
  std::optional<TuneProgress> progress_;
};

bool is_file(const std::string& model) { return model.ends_with(".onnx") || model.ends_with(".relay"); }

/// As it is sent. What cannot be said in JSON is the asker's mistake; with_service() would take it for one in
/// the service's answer.
std::string body_of(const tracker::JobRequest& request) {
  try {
    return to_json(request);
  } catch (const json::exception&) {
    fail("the job of {} cannot be sent: a flag of it is no UTF-8", request.model);
  }
}

/// As a shell reads them, after a blank each.
std::string flags_of(const ServicePlace& place) {
  std::string text;
  for (const auto& [flag, value] :
       {std::pair("--tracker", place.url), {"--token-file", place.token_file}, {"--ca", place.authority}})
    if (!value.empty()) text += fmt::format(" {} {}", flag, in_shell(value));
  return text;
}

}  // namespace

std::string submit_job(const TuneJob& job, const std::string& key, ServiceClient& service) {
  tracker::JobRequest request = job;
  if (is_file(job.model)) {
    request.model_digest = file_digest(job.model);
    request.model = fs::path(job.model).filename();
    const std::string blob = "/v1/blobs/" + request.model_digest;
    // Models are large, and most are submitted more than once.
    // Two that both upload it write the same bytes under their digest.
    if (!service.exists(blob)) service.upload(blob, job.model);
  }
  return service.post("/v1/jobs?key=" + url_part(key.empty() ? db::new_uuid() : key), body_of(request))
      .at("id");
}

int watch_job(const std::string& id, bool quiet, const ServicePlace& place, ServiceClient& service) {
  RemoteProgress progress(id, quiet);
  InterruptScope interrupt;
  service.follow(
      "/v1/jobs/" + url_part(id) + "/events",
      [&](const ServiceClient::Event& event) { return progress.take(event); },
      [&] { return interrupt.interrupted(); });
  if (interrupt.interrupted()) {
    fmt::print(stderr,
               "job {0} goes on without you. See it again with: tune watch {0}{1}; end it with: tune cancel "
               "{0}{1}\n",
               printable(id), printable(flags_of(place)));
    return kInterrupted;
  }
  if (!progress.has_ended())
    throw ServiceError(fmt::format("the tracker tells no more of job {}, which is {}", id,
                                   progress.state().empty() ? "unknown" : progress.state()));
  if (progress.state() != "done")
    fail("job {} {}{}{}", id, progress.state(), progress.message().empty() ? "" : ": ", progress.message());
  return kSuccess;
}

namespace {

/// Of a job's module; 0: not known.
uint64_t module_bytes(const json& details) {
  const auto bytes = details.find("module_bytes");
  // A tracker of an older release does not say it. Null: there is no module, as the next answer says.
  if (bytes == details.end() || bytes->is_null()) return 0;
  if (!bytes->is_number_unsigned())
    throw ServiceError(fmt::format("the tracker says that a module has {} bytes", json_line(*bytes)));
  return *bytes;
}

}  // namespace

std::string fetch_module(const std::string& id, const std::string& folder, ServiceClient& service) {
  const std::string job = "/v1/jobs/" + url_part(id);
  const json details = service.get(job);
  const std::string model = details.at("model");
  // It becomes a path here: a tracker that is not ours could name any file.
  if (model.empty() || model.starts_with('.') || model.find('/') != std::string::npos ||
      has_control_characters(model))
    throw ServiceError(
        fmt::format("the tracker calls the model of job {} `{}`, which is no file's name", id, model));
  const std::string into = folder.empty() ? "lathe-out/" + model : folder;
  make_folder(into);
  std::string file = into + "/" + model + ".lathe";
  service.download(job + "/module", file, module_bytes(details));
  return file;
}

namespace {

/// From a job that is on its way to its module here.
int see_through(const std::string& id, const TuneJob& job, const ServicePlace& place,
                ServiceClient& service) {
  // Whoever leaves here leaves the job running: it is the tracker's.
  if (const int code = watch_job(id, job.json, place, service); code != kSuccess) return code;
  const std::string module = fetch_module(id, job.folder, service);
  if (job.json) {
    json report = service.get("/v1/jobs/" + id).at("report");
    report["module"] = module;
    report["tracker"] = place.url;
    fmt::print("{}\n", json_line(report));
  } else {
    fmt::print("{}module:  {}\nrecords: {} (job {})\n",
               printable(service.get_text("/v1/jobs/" + id + "/report")), module, place.url, printable(id));
  }
  return kSuccess;
}

}  // namespace

int run_tune_job_there(const TuneJob& job, const ServicePlace& place) {
  return with_service(place, [&](ServiceClient& service) {
    const std::string id = submit_job(job, "", service);
    if (!job.json) say("job {} of {} at {}", id, job.model, place.url);
    return see_through(id, job, place, service);
  });
}

int resume_tune_job_there(const std::string& id, const TuneJob& job, const ServicePlace& place) {
  return with_service(place, [&](ServiceClient& service) {
    const json now = service.post("/v1/jobs/" + url_part(id) + "/resume", "");
    return see_through(now.at("id"), job, place, service);
  });
}

}  // namespace lathe::cli
