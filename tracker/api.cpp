#include "tracker/api.h"

#include <fmt/ranges.h>

#include <charconv>
#include <climits>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/support/bounded_json.h"
#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/support/text.h"
#include "db/database_error.h"
#include "tracker/api_json.h"
#include "tracker/content_store.h"
#include "tracker/search_link.h"
#include "tracker/work_shares.h"

namespace lathe::tracker {
namespace {

namespace fs = std::filesystem;
using http::Request;
using http::Response;
using nlohmann::json;

/// A refusal with its status.
struct Refused {
  int status;
  std::string text;
  std::map<std::string, std::string> headers;
};

Response json_response(const json& value, int status = 200) {
  return {.status = status, .body = json_line(value) + "\n"};
}

Response refusal(const Refused& refused) {
  Response response = json_response({{"error", refused.text}}, refused.status);
  response.headers = refused.headers;
  return response;
}

std::optional<int64_t> whole_number(const std::string& text) {
  int64_t value = 0;
  // Not stoll(), which takes blanks before a number and what follows it, and minds the locale.
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && stop == text.data() + text.size();
  return whole ? std::optional(value) : std::nullopt;
}

/// Of the query. Throws Refused for what is no number in the range.
int64_t number(const Request& request, const std::string& key, int64_t otherwise, int64_t least,
               int64_t most) {
  const auto found = request.query.find(key);
  if (found == request.query.end()) return otherwise;
  const std::optional<int64_t> value = whole_number(found->second);
  if (!value || *value < least || *value > most)
    throw Refused{
        400, fmt::format("{}={}: must be a number from {} to {}", key, found->second, least, most), {}};
  return *value;
}

std::string word(const Request& request, const std::string& key) {
  const auto found = request.query.find(key);
  return found == request.query.end() ? "" : found->second;
}

bool is_loopback(std::string_view host) {
  // Host: NAME[:PORT] (RFC 9110, 7.2), where an IPv6 address stands in brackets for the sake of its colons.
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1) == "[::1]";
  host = host.substr(0, host.rfind(':'));
  return host == "localhost" ||
         // By digits: 127.0.0.1.example.com is a name that its owner can make lead here.
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos);
}

/// A service without users trusts whoever is on this machine, and a browser here is: with pages of strangers
/// in it, which name this address by a name of theirs, or send it forms. Throws Refused.
void require_own_page(const Request& request) {
  // DNS rebinding: a page of evil.com whose name has come to mean 127.0.0.1 is of our origin to its browser,
  // but names evil.com. What is no browser may leave Host out.
  if (!request.host.empty() && !is_loopback(request.host))
    throw Refused{403,
                  fmt::format("this service is for its own machine, and not called {}; for others it needs "
                              "--principals",
                              request.host),
                  {}};
  // Cross-site requests: a form or a fetch() of another page reaches us, and the browser says whose it is.
  if (!request.origin.empty() && request.origin != "http://" + request.host &&
      request.origin != "https://" + request.host)
    throw Refused{403, fmt::format("a page of {} may not ask here", request.origin), {}};
}

/// On its way through a scope, charges a user with the processor time of this thread.
class Worked {
 public:
  Worked(WorkShares& shares, std::string user) : shares_(shares), user_(std::move(user)) {}
  ~Worked() { shares_.charge(user_, seconds(CLOCK_THREAD_CPUTIME_ID) - begun_, seconds(CLOCK_MONOTONIC)); }
  Worked(const Worked&) = delete;
  Worked& operator=(const Worked&) = delete;

  static double seconds(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

 private:
  WorkShares& shares_;
  const std::string user_;
  const double begun_ = seconds(CLOCK_THREAD_CPUTIME_ID);
};

/// A model that is on its way here.
struct Upload final : http::Sink {
  Upload(ContentStore& store, const Principal& user) : incoming(store, {user.name, user.model_bytes}) {}
  // On the server's thread, between two reads of the socket: a write to the page cache, no wait for the disk.
  void add(std::string_view bytes) override {
    try {
      incoming.add(bytes);
    } catch (const ShareFull& full) {
      throw http::TooLarge(full.what());
    }
  }
  // On a thread for the disk: an fsync of gigabytes takes seconds, in which others are to be answered.
  void complete() override { incoming.sync(); }
  ContentStore::Incoming incoming;
};

}  // namespace

struct Api::Impl {
  ApiSettings settings;
  JobKeeper& keeper;
  FarmClient& farm;
  Principals& principals;
  db::Store store;
  ContentStore models;
  // No lock: all of this is on the HTTP server's one thread, streams and their ends included.
  std::map<std::string, int> streams;  // open ones, by user
  WorkShares work{defaults::kWorkOfOne, defaults::kWorkAtOnce};

  struct Call {
    const Request& request;
    Principal principal;
    std::string part;  // what stood for {id} in the path
  };
  struct Route {
    const char *method, *path, *summary;
    Role role;
    Response (Impl::*handle)(const Call&);
  };
  static const Route kRoutes[];

  Impl(ApiSettings s, JobKeeper& k, FarmClient& f)
      : settings(std::move(s)),
        keeper(k),
        farm(f),
        principals(*settings.principals),
        // A connection of its own, used on the server's thread alone.
        store(settings.database),
        models({.folder = settings.models,
                .lasting = true,
                .limit_bytes = settings.model_bytes,
                .pinned = [this] { return models_in_use(); }}) {}

  /// Digests of the models of jobs that have not ended.
  std::set<std::string> models_in_use() {
    std::set<std::string> digests;
    // Paused ones too: they go on with the same model, whenever that is.
    for (const db::JobState state : {db::JobState::kQueued, db::JobState::kRunning, db::JobState::kStopped})
      for (const db::ServedJob& job : store.served_jobs({.state = state, .limit = INT_MAX}))
        digests.insert(string_member(parse_bounded_json(job.request, 8, "a job"), "model_digest"));
    return digests;
  }

  static bool matches(std::string_view pattern, std::string_view path, std::string& part);
  const Route* find(const Request& request, std::string& part, bool& known_path) const;
  Principal authorize(const Request& request, const Route* route);
  Response dispatch(const Request& request);

  // A job is called by the beginning of its uuid, if that is enough to tell it.
  db::ServedJob job_of(const Call& call) {
    try {
      auto job = store.find_served_job(call.part);
      if (!job) throw Refused{404, fmt::format("no job `{}`", call.part), {}};
      return *job;
    } catch (const db::DatabaseError&) {
      throw;  // no fault of who asks
    } catch (const Error& several) {
      throw Refused{400, several.what(), {}};
    }
  }
  /// Of somebody who may change it.
  /// The route has asked for a submitter; whose job it is, no route can know.
  db::ServedJob own_job(const Call& call) {
    db::ServedJob job = job_of(call);
    if (call.principal.role != Role::kAdmin && job.owner != call.principal.name)
      throw Refused{403, fmt::format("job {} is {}'s", job.uuid, job.owner), {}};
    return job;
  }
  // The keeper says by its return that another had ended the job first: 409, and the state as it is now.
  Response changed(const db::ServedJob& job, bool done, const char* what) {
    if (!done)
      throw Refused{409,
                    fmt::format("job {} is {}: it cannot be {}", job.uuid,
                                db::to_string(store.served_job(job.id).state), what),
                    {}};
    return json_response(job_json(store.served_job(job.id), store));
  }

  Response status(const Call& call);
  json describe(const WorkerStatus& worker, std::span<const db::LeaseSpan> leases);
  Response workers(const Call&);
  Response manage(const Call& call, Manage::Order order);
  Response drain(const Call& call) { return manage(call, Manage::Order::kDrain); }
  Response undrain(const Call& call) { return manage(call, Manage::Order::kResume); }
  Response trust(const Call& call) { return manage(call, Manage::Order::kTrust); }
  Response quarantine(const Call& call);
  Response list_jobs(const Call& call);
  Response submit(const Call& call);
  Response get_job(const Call& call) { return json_response(job_details_json(job_of(call), store)); }
  Response cancel(const Call& call) {
    const db::ServedJob job = own_job(call);
    return changed(job, keeper.cancel(job.id), "cancelled");
  }
  Response pause(const Call& call) {
    const db::ServedJob job = own_job(call);
    return changed(job, keeper.pause(job.id), "paused");
  }
  Response resume(const Call& call) {
    const db::ServedJob job = own_job(call);
    return changed(job, keeper.resume(job.id), "resumed");
  }
  Response module(const Call& call);
  Response report(const Call& call);
  Response trials(const Call& call);
  Response curve(const Call& call);
  Response points(const Call& call);
  Response schedules(const Call& call);
  Response trial(const Call& call);
  Response job_events(const Call& call);
  Response all_events(const Call& call) { return events(call, 0); }
  Response events(const Call& call, db::ServedJobId id);
  Response has_blob(const Call& call);
  Response put_blob(const Call& call);
  Response metrics(const Call&) {
    return {.type = "text/plain; version=0.0.4", .body = metrics_text(farm.status(), store)};
  }
  Response openapi(const Call&);
};

const Api::Impl::Route Api::Impl::kRoutes[] = {
    {"GET", "/v1/status", "the service: version, queue, who asks", Role::kViewer, &Impl::status},
    {"GET", "/v1/workers", "workers, their devices and clocks", Role::kViewer, &Impl::workers},
    {"POST", "/v1/workers/{name}/drain", "a worker finishes what it holds and takes no more", Role::kAdmin,
     &Impl::drain},
    {"POST", "/v1/workers/{name}/resume", "a drained worker takes leases again", Role::kAdmin,
     &Impl::undrain},
    {"POST", "/v1/workers/{name}/trust", "a worker is suspect no more; a new baseline of its canaries",
     Role::kAdmin, &Impl::trust},
    {"GET", "/v1/quarantine",
     "trials that took their workers away, newest first; ?before= ?limit=", Role::kViewer, &Impl::quarantine},
    {"GET", "/v1/jobs", "jobs, newest first; ?state= ?owner= ?model= ?before= ?limit=", Role::kViewer,
     &Impl::list_jobs},
    {"POST", "/v1/jobs", "submit a job; ?key= makes saying it twice harmless", Role::kSubmitter,
     &Impl::submit},
    {"GET", "/v1/jobs/{id}", "a job with its tasks and, when done, its report", Role::kViewer,
     &Impl::get_job},
    {"POST", "/v1/jobs/{id}/cancel", "end a job for good", Role::kSubmitter, &Impl::cancel},
    {"POST", "/v1/jobs/{id}/pause", "stop a job's search for now", Role::kSubmitter, &Impl::pause},
    {"POST", "/v1/jobs/{id}/resume", "go on with a paused job", Role::kSubmitter, &Impl::resume},
    {"GET", "/v1/jobs/{id}/module", "the module file of a job that is done", Role::kViewer, &Impl::module},
    {"GET", "/v1/jobs/{id}/report", "the report of a job that is done, as text", Role::kViewer,
     &Impl::report},
    {"GET", "/v1/jobs/{id}/trials",
     "its trials by id; ?after= ?before= ?workload= ?outcome= ?newest=1 ?limit=", Role::kViewer,
     &Impl::trials},
    {"GET", "/v1/jobs/{id}/curve",
     "the model's estimate and the cost model's quality over time; ?points=", Role::kViewer, &Impl::curve},
    {"GET", "/v1/jobs/{id}/points",
     "its measurements, thinned out, extremes kept; ?workload= ?points=", Role::kViewer, &Impl::points},
    {"GET", "/v1/jobs/{id}/schedules",
     "of a task the default schedule and the best, as text; ?task=", Role::kViewer, &Impl::schedules},
    {"GET", "/v1/trials/{id}", "one trial's life: leases, samples, schedule", Role::kViewer, &Impl::trial},
    {"GET", "/v1/jobs/{id}/events", "what happens to it, as server-sent events", Role::kViewer,
     &Impl::job_events},
    {"GET", "/v1/events", "what happens to all jobs, as server-sent events", Role::kViewer,
     &Impl::all_events},
    {"GET", "/v1/blobs/{id}", "whether a model is here, by the sha256 of its bytes", Role::kSubmitter,
     &Impl::has_blob},
    {"PUT", "/v1/blobs/{id}", "upload a model under the sha256 of its bytes", Role::kSubmitter,
     &Impl::put_blob},
    {"GET", "/metrics", "for Prometheus", Role::kViewer, &Impl::metrics},
    {"GET", "/openapi.json", "this list", Role::kViewer, &Impl::openapi},
};

/// `{id}` is one part of a path; `{name}` may be several, as in the names of workers.
bool Api::Impl::matches(std::string_view pattern, std::string_view path, std::string& part) {
  const size_t hole = pattern.find('{');
  if (hole == std::string_view::npos) return pattern == path;
  // At most one hole a pattern.
  const size_t end = pattern.find('}') + 1;
  const std::string_view before = pattern.substr(0, hole), after = pattern.substr(end);
  if (path.size() <= before.size() + after.size() || !path.starts_with(before) || !path.ends_with(after))
    return false;
  part = path.substr(hole, path.size() - before.size() - after.size());
  // Workers' names are their own choice, `lab/board-3` say; the routes with {name} end in a fixed word.
  return pattern.substr(hole, end - hole) == "{name}" || part.find('/') == std::string::npos;
}

const Api::Impl::Route* Api::Impl::find(const Request& request, std::string& part, bool& known_path) const {
  known_path = false;
  // In order, and the first that fits counts; some thirty comparisons a request.
  for (const Route& route : kRoutes) {
    if (!matches(route.path, request.path, part)) continue;
    known_path = true;
    if (request.method == route.method) return &route;
  }
  return nullptr;
}

/// Who asks. Throws Refused for somebody unknown, and where the route needs another role; without a route,
/// whoever is known will do.
Principal Api::Impl::authorize(const Request& request, const Route* route) {
  // Before anything else: without users there is no token that would stop a stranger's page.
  if (principals.anonymous()) require_own_page(request);
  const std::optional<Principal> principal = principals.find(request.token);
  if (!principal)
    throw Refused{401,
                  request.token.empty() ? "a bearer token is needed" : "the token is not known here",
                  {{"WWW-Authenticate", "Bearer"}}};
  // Roles are in order: each may do all that those before it may (principals.h).
  if (route && principal->role < route->role)
    throw Refused{403,
                  fmt::format("{} is a {}, and this needs a {}", principal->name, to_string(principal->role),
                              to_string(route->role)),
                  {}};
  return *principal;
}

Response Api::Impl::dispatch(const Request& request) {
  std::string part;
  bool known_path = false;
  const Route* route = find(request, part, known_path);
  if (!route)
    // After admit(): who is unknown was told 401 whatever the path, and learns nothing of what there is.
    throw Refused{known_path ? 405 : 404, "there is nothing here; GET /openapi.json lists what is", {}};
  // Asked again: a token may have been revoked while a body came.
  const Principal principal = authorize(request, route);
  // Not an administrator, who may have come to see why it is slow.
  const double wait = work.wait(principal.name, Worked::seconds(CLOCK_MONOTONIC));
  if (wait > 0 && principal.role != Role::kAdmin)
    throw Refused{429,
                  fmt::format("{} has asked for more than {:.0f}% of this service's time for answers",
                              principal.name, 100 * defaults::kWorkOfOne),
                  {{"Retry-After", fmt::format("{:.0f}", std::ceil(wait))}}};
  const Worked worked(work, principal.name);
  return (this->*route->handle)({request, principal, part});
}

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

json Api::Impl::describe(const WorkerStatus& worker, std::span<const db::LeaseSpan> leases) {
  constexpr int kClocks = 32;  // a worker's newest measurements
  return worker_json(worker, leases, store.worker_clock(worker.name, kClocks));
}

Response Api::Impl::workers(const Call&) {
  json list = json::array();
  // One query for all workers, not one for each.
  const std::vector<db::LeaseSpan> leases = store.open_leases();
  for (const WorkerStatus& worker : farm.status().workers) list.push_back(describe(worker, leases));
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
    if (worker.name == call.part) return json_response(describe(worker, store.open_leases()));
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
  if (const std::string before = word(call.request, "before"); !before.empty()) {
    const auto job = store.find_served_job(before);
    if (!job) throw Refused{404, fmt::format("no job `{}`", before), {}};
    // By an id that stays what it is, while numbers of pages shift with every new job.
    query.before = job->id;
  }
  json list = json::array();
  for (const db::ServedJob& job : store.served_jobs(query)) list.push_back(job_json(job, store));
  return json_response({{"jobs", std::move(list)}});
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
  // Who says it again has the job already, and no room to ask for.
  const bool is_new =
      !job.idempotency_key || !store.served_job_with_key(call.principal.name, *job.idempotency_key);
  if (is_new && store.count_open_served_jobs(call.principal.name) >= call.principal.open_jobs)
    throw Refused{429,
                  fmt::format("{} has {} open jobs, which is as many as may be", call.principal.name,
                              call.principal.open_jobs),
                  {{"Retry-After", "30"}}};
  // No waiting helps: what was measured stays.
  if (is_new && static_cast<uint64_t>(store.kept_by_owner(call.principal.name)) >= call.principal.kept_bytes)
    throw Refused{413,
                  fmt::format("the jobs of {} keep {:.1f} GiB of the database, which is as much as may be",
                              call.principal.name,
                              static_cast<double>(call.principal.kept_bytes) / (uint64_t{1} << 30)),
                  {}};
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

Response Api::Impl::module(const Call& call) {
  const db::ServedJob job = job_of(call);
  const std::string file = keeper.job_folder(job.uuid) + "/" + job.model_name + ".lathe";
  // A row of the database, which may come from anybody, leads nowhere else.
  const bool is_name = fs::path(job.model_name).filename() == job.model_name;
  if (job.state != db::JobState::kDone || !is_name || !fs::exists(file))
    throw Refused{409, fmt::format("job {} is {} and has no module", job.uuid, db::to_string(job.state)), {}};
  return {.type = "application/octet-stream", .file = file};
}

Response Api::Impl::report(const Call& call) {
  const db::ServedJob job = job_of(call);
  const std::string file = keeper.job_folder(job.uuid) + "/report.txt";
  if (job.state != db::JobState::kDone || !fs::exists(file))
    throw Refused{409, fmt::format("job {} is {} and has no report", job.uuid, db::to_string(job.state)), {}};
  return {.type = "text/plain; charset=utf-8", .file = file};
}

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

Response Api::Impl::job_events(const Call& call) { return events(call, job_of(call).id); }

/// From the beginning for one job, from now on for all, or from where the client was when it lost us.
Response Api::Impl::events(const Call& call, db::ServedJobId id) {
  const std::string& user = call.principal.name;
  // Each holds a connection for as long as it likes, of which the server has a bounded number.
  if (streams[user] >= defaults::kStreamsOfOne)
    throw Refused{
        429,
        fmt::format("{} has {} event streams open, which is as many as may be", user, streams[user]),
        {{"Retry-After", "10"}}};
  ++streams[user];
  // Counted until the last copy of the stream goes, however its connection ends.
  const std::shared_ptr<void> open(nullptr, [this, user](void*) {
    if (--streams[user] == 0) streams.erase(user);
  });
  Response response;
  // A job's are few and tell its story; those of all jobs would be the whole past.
  response.first_event = id == 0 ? store.last_event() : 0;
  if (const std::string& last = call.request.last_event_id; !last.empty()) {
    const std::optional<int64_t> id_told = whole_number(last);
    if (!id_told) throw Refused{400, fmt::format("Last-Event-ID: {} is no number", last), {}};
    response.first_event = *id_told;
  }
  // Called by the server every kEventPause (http_server.cpp), on its thread; `last` ends the stream.
  response.events = [this, id, open, user, token = call.request.token](int64_t after, bool& last) {
    const Worked worked(work, user);
    std::vector<http::Event> list;
    // Asked each time, several times a second: S5 gives five seconds.
    last = !principals.find(token);  // revoked meanwhile
    if (last) return list;
    // Whether it is over is asked first: what was told before that is then in the list.
    last = id != 0 && db::is_final(store.served_job(id).state);
    // The thread is everybody's: a long past goes out a piece at a time.
    constexpr int kAtOnce = 200;
    for (db::Event& event : store.served_events_after(id, after, kAtOnce)) {
      std::string data = std::move(event.body);
      if (event.kind == "state" && event.served_job)
        data = json_line(job_json(store.served_job(*event.served_job), store));
      if (event.kind.starts_with(kScheduleEvent)) data = "{}";  // long: its route has it
      // An end of line would end the event: JSON has none within its strings.
      std::erase(data, '\n');
      list.push_back({event.id, event.kind, std::move(data)});
    }
    return list;
  };
  return response;
}

Response Api::Impl::has_blob(const Call& call) {
  if (!is_digest(call.part)) throw Refused{400, "a model is named by its sha256, 64 hexadecimal digits", {}};
  const std::optional<uint64_t> bytes = models.find(call.part);
  if (!bytes) throw Refused{404, "it is not here", {}};
  return json_response({{"digest", call.part}, {"bytes", *bytes}});
}

Response Api::Impl::put_blob(const Call& call) {
  if (!is_digest(call.part)) throw Refused{400, "a model is named by its sha256, 64 hexadecimal digits", {}};
  // Api::sink made it by the same table, but for somebody whose token was not known at that moment.
  if (!call.request.sink) throw Refused{401, "the token was not known here when the upload began", {}};
  ContentStore::Incoming& model = static_cast<Upload&>(*call.request.sink).incoming;
  // The name is the digest, so that nobody can put other bytes under a model that others have named.
  if (model.digest() != call.part)
    throw Refused{400, fmt::format("the bytes have the sha256 {}, not {}", model.digest(), call.part), {}};
  try {
    model.keep();
  } catch (const ShareFull& full) {  // a job has begun to need what might have gone
    throw Refused{413, full.what(), {}};
  }
  return json_response({{"digest", call.part}}, 201);
}

Response Api::Impl::openapi(const Call&) {
  json paths = json::object();
  for (const Route& route : kRoutes) {
    std::string method = route.method;
    for (char& c : method) c = static_cast<char>(tolower(c));
    json& operation = paths[route.path][method];
    operation = {{"summary", route.summary},
                 {"description", fmt::format("Role: {}.", to_string(route.role))},
                 {"responses", {{"200", {{"description", "as docs/jobs.md says"}}}}}};
    for (const char* hole : {"id", "name"})
      // The table is the one source of paths, roles and words: what is not in it is not served, and
      // what is is described.
      if (std::string_view(route.path).find(fmt::format("{{{}}}", hole)) != std::string_view::npos)
        operation["parameters"] = json::array(
            {{{"name", hole}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}}});
  }
  return json_response(
      {{"openapi", "3.0.3"},
       {"info", {{"title", "Lathe"}, {"version", settings.version}}},
       {"components", {{"securitySchemes", {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}}}}}},
       {"security", json::array({{{"bearer", json::array()}}})},
       {"paths", std::move(paths)}});
}

Api::Api(ApiSettings settings, JobKeeper& keeper, FarmClient& farm)
    : impl_(std::make_unique<Impl>(std::move(settings), keeper, farm)) {}
Api::~Api() = default;

std::shared_ptr<http::Sink> Api::sink(const http::Request& request) {
  std::string part;
  bool known_path = false;
  const Impl::Route* route = impl_->find(request, part, known_path);
  if (!route || route->handle != &Impl::put_blob) return nullptr;
  // admit() has let it in; the file of principals may have changed in between. handle() says so then.
  const std::optional<Principal> user = impl_->principals.find(request.token);
  if (!user) return nullptr;
  return std::make_shared<Upload>(impl_->models, *user);
}

/// Pages are for everybody: what they show, they ask for with a token.
std::optional<Response> Api::admit(const Request& request) {
  // Nothing but files that are compiled in, by exact name: no path of a request ever reaches the file system.
  if (request.method == "GET" && impl_->settings.page && impl_->settings.page(request.path))
    return std::nullopt;
  std::string part;
  bool known_path = false;
  try {
    impl_->authorize(request, impl_->find(request, part, known_path));
    return std::nullopt;
  } catch (const Refused& refused) {
    return refusal(refused);
  }
}

Response Api::handle(const Request& request) {
  try {
    if (request.method == "GET" && impl_->settings.page)
      if (const auto page = impl_->settings.page(request.path)) {
        const std::string ending = fs::path(request.path).extension();
        return {.type = ending == ".js"    ? "text/javascript"
                        : ending == ".css" ? "text/css"
                        : ending == ".svg" ? "image/svg+xml"
                                           : "text/html; charset=utf-8",
                .body = std::string(*page)};
      }
    return impl_->dispatch(request);
  } catch (const Refused& refused) {
    return refusal(refused);
  } catch (const std::exception& error) {  // the disk's or the database's; JSON in it that is not ours
    // A server of many jobs goes on after one bad request or a full disk; who asked is told what it was.
    return refusal({500, error.what(), {}});
  }
}

}  // namespace lathe::tracker
