#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/support/error.h"
#include "core/support/printable.h"
#include "db/database_error.h"
#include "tracker/api_impl.h"

namespace lathe::tracker {

namespace fs = std::filesystem;
using http::Response;
using nlohmann::json;

namespace {

/// By its id or a beginning of it, which is the asker's.
db::ServedJob job_named(db::Store& store, const std::string& name) {
  try {
    auto job = store.find_served_job(name);
    if (!job) throw Refused{404, fmt::format("no job `{}`", name), {}};
    return *job;
  } catch (const db::DatabaseError&) {
    throw;  // no fault of who asks
  } catch (const Error& unclear) {
    throw Refused{400, unclear.what(), {}};
  }
}

}  // namespace

db::ServedJob Api::Impl::job_of(const Call& call) { return job_named(store, call.part); }

// The route has asked for a submitter; whose job it is, no route can know.
db::ServedJob Api::Impl::own_job(const Call& call) {
  db::ServedJob job = job_of(call);
  if (call.principal.role != Role::kAdmin && job.owner != call.principal.name)
    throw Refused{403, fmt::format("job {} is {}'s", job.uuid, job.owner), {}};
  return job;
}

// The keeper says by its return that another had ended the job first: 409, and the state as it is now.
Response Api::Impl::changed(const db::ServedJob& job, bool done, const char* what) {
  if (!done)
    throw Refused{409,
                  fmt::format("job {} is {}: it cannot be {}", job.uuid,
                              db::to_string(store.served_job(job.id).state), what),
                  {}};
  return json_response(job_json(store.served_job(job.id), store));
}

/// Of a job without its report, each of which takes milliseconds to read, on the thread that answers.
ReportFigures Api::Impl::figures_of(const db::ServedJob& job) {
  if (const ReportFigures* known = known_figures.find(job.id)) return *known;
  ReportFigures figures = figures_of_report(store.served_job(job.id).report);
  // It gets no other report.
  if (db::is_final(job.state)) known_figures.put(job.id, figures);
  return figures;
}

Response Api::Impl::list_jobs(const Call& call) {
  db::ServedJobQuery query{.owner = word(call.request, "owner"),
                           .model = word(call.request, "model"),
                           .limit = static_cast<int>(number(call.request, "limit", 50, 1, 500))};
  // Only the name of the state is the user's; what else throws here is not.
  try {
    if (const std::string state = word(call.request, "state"); !state.empty())
      query.state = db::job_state_named(state);
  } catch (const Error& error) {
    throw Refused{400, error.what(), {}};
  }
  // By an id that stays what it is, while numbers of pages shift with every new job.
  if (const std::string before = word(call.request, "before"); !before.empty())
    query.before = job_named(store, before).id;
  json list = json::array();
  for (const db::ServedJob& job : store.served_jobs(query))
    list.push_back(job_json(job, figures_of(job), store));
  return json_response({{"jobs", std::move(list)}});
}

/// Throws Refused for an owner whose jobs keep all that may be kept.
void Api::Impl::require_room(const std::string& owner, uint64_t most) {
  if (static_cast<uint64_t>(store.kept_by_owner(owner)) < most) return;
  // No waiting helps: what was measured stays.
  throw Refused{413,
                fmt::format("the jobs of {} keep {:.1f} GiB, which is as much as may be", owner,
                            static_cast<double>(most) / (uint64_t{1} << 30)),
                {}};
}

Response Api::Impl::submit(const Call& call) {
  JobRequest request;
  try {
    request = parse_job_request(call.request.body);
    // Zoo names, targets, limits of the service: what the tracker's own room cannot know.
    if (settings.check) settings.check(request);
  } catch (const Error& error) {
    throw Refused{400, error.what(), {}};
  }
  // Finding it also marks it as used, so that it is not the next to go.
  // A job that is queued pins its model from the next look on (models_in_use); until then being
  // the newest keeps it.
  if (!request.model_digest.empty() && !models.find(request.model_digest))
    throw Refused{400,
                  fmt::format("no model {} was uploaded: PUT /v1/blobs/{} first", request.model_digest,
                              request.model_digest),
                  {}};
  db::NewServedJob job{.owner = call.principal.name,
                       .model_name = fs::path(request.model).stem().string(),
                       .request = to_json(request),
                       .priority = static_cast<int>(request.priority),
                       .weight = call.principal.weight};
  if (const std::string key = word(call.request, "key"); !key.empty()) job.idempotency_key = key;
  // It is kept for ever, in an index.
  constexpr size_t kLongestKey = 256;
  if (job.idempotency_key && job.idempotency_key->size() > kLongestKey)
    throw Refused{400, fmt::format("a key has at most {} bytes", kLongestKey), {}};
  // A server's database keeps what is no UTF-8 as one and the same character: two keys would be one.
  if (job.idempotency_key &&
      (has_control_characters(*job.idempotency_key) || as_utf8(*job.idempotency_key) != *job.idempotency_key))
    throw Refused{400, "a key is UTF-8 without control characters", {}};
  // Who says it again has the job already, and no room to ask for.
  const bool is_new =
      !job.idempotency_key || !store.served_job_with_key(call.principal.name, *job.idempotency_key);
  if (is_new && store.count_open_served_jobs(call.principal.name) >= call.principal.open_jobs)
    throw Refused{429,
                  fmt::format("{} has {} open jobs, which is as many as may be", call.principal.name,
                              call.principal.open_jobs),
                  {{"Retry-After", "30"}}};
  if (is_new) require_room(call.principal.name, call.principal.kept_bytes);
  const db::ServedJob made = store.add_served_job(job);
  // Written anew: an older release may have kept it with other keys.
  // The same key gives the same job, so that a client that lost our answer may ask again; another job under
  // an old key is a mistake that is better said than dropped.
  if (to_json(parse_job_request(made.request)) != job.request)
    throw Refused{409, fmt::format("with this key another job was submitted: {}", made.uuid), {}};
  keeper.wake();
  Response response = json_response(job_json(made, store), 201);
  response.headers["Location"] = "/v1/jobs/" + made.uuid;
  return response;
}

std::optional<std::string> Api::Impl::module_file(const db::ServedJob& job) const {
  // A row of the database, which may come from anybody, leads nowhere else.
  const bool is_name = fs::path(job.model_name).filename() == job.model_name;
  std::string file = keeper.job_folder(job.uuid) + "/" + job.model_name + ".lathe";
  if (job.state != db::JobState::kDone || !is_name || !fs::exists(file)) return std::nullopt;
  return file;
}

Response Api::Impl::get_job(const Call& call) {
  const db::ServedJob job = job_of(call);
  json details = job_details_json(job, store);
  // Clients take no more, and no less, for the module.
  std::error_code gone;
  const std::optional<std::string> file = module_file(job);
  const uint64_t bytes = file ? fs::file_size(*file, gone) : 0;
  details["module_bytes"] = file && !gone ? json(bytes) : json();
  return json_response(details);
}

Response Api::Impl::module(const Call& call) {
  const db::ServedJob job = job_of(call);
  std::optional<std::string> file = module_file(job);
  if (!file)
    throw Refused{409, fmt::format("job {} is {} and has no module", job.uuid, db::to_string(job.state)), {}};
  return {.type = "application/octet-stream", .file = std::move(*file)};
}

Response Api::Impl::report(const Call& call) {
  const db::ServedJob job = job_of(call);
  const std::string file = keeper.job_folder(job.uuid) + "/report.txt";
  if (job.state != db::JobState::kDone || !fs::exists(file))
    throw Refused{409, fmt::format("job {} is {} and has no report", job.uuid, db::to_string(job.state)), {}};
  return {.type = "text/plain; charset=utf-8", .file = file};
}

Response Api::Impl::cancel(const Call& call) {
  const db::ServedJob job = own_job(call);
  return changed(job, keeper.cancel(job.id), "cancelled");
}

Response Api::Impl::pause(const Call& call) {
  const db::ServedJob job = own_job(call);
  return changed(job, keeper.pause(job.id), "paused");
}

Response Api::Impl::resume(const Call& call) {
  const db::ServedJob job = own_job(call);
  // Its owner's, whoever asks: an administrator has room of their own.
  require_room(job.owner, principals.kept_bytes(job.owner));
  return changed(job, keeper.resume(job.id), "resumed");
}

}  // namespace lathe::tracker
