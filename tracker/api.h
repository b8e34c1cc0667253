// The service as programs and pages see it: HTTP and JSON. One row a route; docs/jobs.md explains them
// and GET /openapi.json lists them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tracker/defaults.h"
#include "tracker/farm_client.h"
#include "tracker/http_server.h"
#include "tracker/job_keeper.h"
#include "tracker/job_request.h"
#include "tracker/principals.h"

namespace lathe::tracker {

struct ApiSettings {
  std::string database;
  std::shared_ptr<Principals> principals;
  std::string version, revision;
  std::string models;  // folder of uploaded models, and how many bytes it may hold
  uint64_t model_bytes = defaults::kModelStoreBytes;
  std::function<bool(const Manage&)> manage;     // a worker; false: it is not known
  std::function<void(const JobRequest&)> check;  // throws Error for one that cannot end well; may be empty
  std::function<std::optional<std::string_view>(std::string_view path)> page;  // bytes of an embedded file
};

/// Use it on one thread, the server's.
class Api {
 public:
  /// `keeper` and `farm` outlive it.
  Api(ApiSettings settings, JobKeeper& keeper, FarmClient& farm);
  ~Api();

  std::optional<http::Response> admit(const http::Request& request);
  http::Response handle(const http::Request& request);
  /// For an upload: where its body goes. Throws Error when it cannot be written.
  std::shared_ptr<http::Sink> sink(const http::Request& request);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lathe::tracker
