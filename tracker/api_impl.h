// Inside of Api: who may ask what (api.cpp), and what each route answers, a file an idea (api_*.cpp). The
// table of routes in api.cpp is the one list of them.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>

#include "core/support/recently_used.h"
#include "db/store.h"
#include "tracker/api.h"
#include "tracker/api_json.h"
#include "tracker/api_request.h"
#include "tracker/content_store.h"
#include "tracker/work_shares.h"

namespace lathe::tracker {

constexpr size_t kKnownFigures = 10'000;  // of reports, a hundred bytes each

struct Api::Impl {
  ApiSettings settings;
  JobKeeper& keeper;
  FarmClient& farm;
  Principals& principals;
  db::Store store;
  ContentStore models;
  // No lock: all of this is on the HTTP server's one thread, streams and their ends included.
  std::map<std::string, int> streams;                                         // open ones, by user
  RecentlyUsed<db::ServedJobId, ReportFigures> known_figures{kKnownFigures};  // of jobs that are over
  WorkShares work{defaults::kWorkOfOne, defaults::kWorkAtOnce};

  ContentStore::Pinned pinned;  // models_in_use(), as of this event
  int64_t pinned_at = -1;

  struct Call {
    const http::Request& request;
    Principal principal;
    std::string part;  // what stood for {id} in the path
  };
  struct Route {
    const char *method, *path, *summary;
    Role role;
    http::Response (Impl::*handle)(const Call&);
  };
  static const Route kRoutes[];

  Impl(ApiSettings s, JobKeeper& k, FarmClient& f);
  ContentStore::Pinned models_in_use();

  static bool matches(std::string_view pattern, std::string_view path, std::string& part);
  const Route* find(const http::Request& request, std::string& part, bool& known_path) const;
  Principal authorize(const http::Request& request, const Route* route);
  bool has_time(const Principal& principal);
  void require_time(const Principal& principal);
  void require_room(const std::string& owner, uint64_t most);
  http::Response dispatch(const http::Request& request);

  // What the handlers have in common (api_jobs.cpp). Each throws Refused.
  /// A job is called by the beginning of its uuid, if that is enough to tell it.
  db::ServedJob job_of(const Call& call);
  /// Of somebody who may change it.
  db::ServedJob own_job(const Call& call);
  http::Response changed(const db::ServedJob& job, bool done, const char* what);
  ReportFigures figures_of(const db::ServedJob& job);
  /// Where the module of a job lies; none of one that is not done.
  std::optional<std::string> module_file(const db::ServedJob& job) const;

  // api_fleet.cpp
  http::Response status(const Call& call);
  nlohmann::json describe(const WorkerStatus& worker);
  http::Response workers(const Call&);
  http::Response manage(const Call& call, Manage::Order order);
  http::Response drain(const Call& call) { return manage(call, Manage::Order::kDrain); }
  http::Response undrain(const Call& call) { return manage(call, Manage::Order::kResume); }
  http::Response trust(const Call& call) { return manage(call, Manage::Order::kTrust); }
  http::Response quarantine(const Call& call);
  // api_jobs.cpp
  http::Response list_jobs(const Call& call);
  http::Response submit(const Call& call);
  http::Response get_job(const Call& call);
  http::Response cancel(const Call& call);
  http::Response pause(const Call& call);
  http::Response resume(const Call& call);
  http::Response module(const Call& call);
  http::Response report(const Call& call);
  // api_trials.cpp
  http::Response trials(const Call& call);
  http::Response curve(const Call& call);
  http::Response points(const Call& call);
  http::Response schedules(const Call& call);
  http::Response trial(const Call& call);
  // api_events.cpp
  http::Response job_events(const Call& call);
  http::Response all_events(const Call& call) { return events(call, 0); }
  http::Response events(const Call& call, db::ServedJobId id);
  // api_blobs.cpp
  http::Response has_blob(const Call& call);
  http::Response put_blob(const Call& call);
  // api.cpp
  http::Response metrics(const Call&) {
    return {.type = "text/plain; version=0.0.4", .body = metrics_text(farm.status(), store)};
  }
  http::Response openapi(const Call&);
};

}  // namespace lathe::tracker
