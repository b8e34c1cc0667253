#include "tracker/api.h"

#include <fmt/core.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/support/error.h"
#include "tracker/api_impl.h"

namespace lathe::tracker {

namespace fs = std::filesystem;
using http::Request;
using http::Response;
using nlohmann::json;

Api::Impl::Impl(ApiSettings s, JobKeeper& k, FarmClient& f)
    : settings(std::move(s)),
      keeper(k),
      farm(f),
      principals(*settings.principals),
      // A connection of its own, used on the server's thread alone.
      store(settings.database),
      models({.folder = settings.models,
              .lasting = true,
              .limit_bytes = settings.model_bytes,
              .least_bytes = defaults::kLeastModelBytes,
              .pinned = [this] { return models_in_use(); }}) {}

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
                  request.token.empty() ? "a bearer token is needed (--token-file, or LATHE_TOKEN)"
                                        : "the token is not known here",
                  {{"WWW-Authenticate", "Bearer"}}};
  // Roles are in order: each may do all that those before it may (principals.h).
  if (route && principal->role < route->role)
    throw Refused{403,
                  fmt::format("{} has the role {}, and this needs {}", principal->name,
                              to_string(principal->role), to_string(route->role)),
                  {}};
  return *principal;
}

bool Api::Impl::has_time(const Principal& principal) {
  // An administrator always, who may have come to see why it is slow.
  return principal.role == Role::kAdmin || work.wait(principal.name, Worked::seconds(CLOCK_MONOTONIC)) <= 0;
}

/// Throws Refused for who has asked for too much.
void Api::Impl::require_time(const Principal& principal) {
  const double wait = work.wait(principal.name, Worked::seconds(CLOCK_MONOTONIC));
  if (!has_time(principal))
    throw Refused{429,
                  fmt::format("{} has asked for more than {:.0f}% of this service's time for answers",
                              principal.name, 100 * defaults::kWorkOfOne),
                  {{"Retry-After", fmt::format("{:.0f}", std::ceil(wait))}}};
}

Response Api::Impl::dispatch(const Request& request) {
  std::string part;
  bool known_path = false;
  const Route* route = find(request, part, known_path);
  if (!route)
    // After admit(): who is unknown was told 401 whatever the path, and learns nothing of what there is.
    throw Refused{known_path ? 405 : 404,
                  known_path ? "not by this method; GET /openapi.json lists which there are"
                             : "there is nothing here; GET /openapi.json lists what is",
                  {}};
  // Asked again: a token may have been revoked while a body came.
  const Principal principal = authorize(request, route);
  // An upload was let in by admit(), and was charged as it came.
  if (!request.sink) require_time(principal);
  const Worked worked(work, principal.name);
  return (this->*route->handle)({request, principal, part});
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

/// Pages are for everybody: what they show, they ask for with a token.
std::optional<Response> Api::admit(const Request& request) {
  // Nothing but files that are compiled in, by exact name: no path of a request ever reaches the file system.
  if (request.method == "GET" && impl_->settings.page && impl_->settings.page(request.path))
    return std::nullopt;
  std::string part;
  bool known_path = false;
  try {
    const Impl::Route* route = impl_->find(request, part, known_path);
    const Principal principal = impl_->authorize(request, route);
    // Before the body, which costs time as it comes.
    if (route && route->handle == &Impl::put_blob) impl_->require_time(principal);
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
